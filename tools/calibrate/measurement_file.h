// How is a measurement written? JSON lines, "stepsim.measurements/1": a header, then one line per
// measurement, each one flushed, so that an interruption keeps what is there.
//
//   MeasurementFile file("measurements.jsonl", false);
//   file.WriteHeader(header);
//   file.Write(measured);
#pragma once

#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "tools/calibrate/backend.h"
#include "tools/calibrate/statistics.h"
#include "tools/calibrate/task.h"

namespace stepsim::measure {

struct FileHeader {
  std::string date;  // "2026-01-31T12:00:00Z"
  std::string command;
  DeviceFacts facts;
  int ranks = 1, nodes = 1;
};

struct Measured {
  MeasureTask task;
  std::vector<Spread> columns;  // of each value of a sample
  int repeats = 0;
  int ranks = 1, nodes = 1;
  std::map<std::string, std::string> facts;  // of Prepared
  std::string note;
};

std::string HeaderLine(const FileHeader& header);
std::string MeasurementLine(const Measured& measured);

class MeasurementFile {
 public:
  // Throws ConfigError when the file is there already (unless `overwrite`) or cannot be written.
  MeasurementFile(std::string path, bool overwrite);
  void WriteHeader(const FileHeader& header) { WriteLine(HeaderLine(header)); }
  void Write(const Measured& measured) { WriteLine(MeasurementLine(measured)); }

 private:
  void WriteLine(const std::string& line);  // throws MeasureError, on a full disk

  std::string path_;
  std::ofstream out_;
};

}  // namespace stepsim::measure
