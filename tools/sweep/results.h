// What did all shards of a sweep find? Result files joined, checked to be all of one sweep.
//
//   const SweepResults results({"out.1-of-2.jsonl", "out.2-of-2.jsonl"});   // ConfigError
//   results.VisitRows([&](const ResultRow& row) { ... });
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/sweep/result_header.h"

namespace stepsim {

// One point, by the header's axes and metrics.
struct ResultRow {
  std::uint64_t index = 0;
  std::vector<std::string> axes;                // as written: "25", "400 Gb/s", "ethernet-25g"
  std::vector<std::optional<double>> resolved;  // numbers in the base unit
  std::vector<std::optional<double>> metrics;   // empty without a step
  std::uint64_t warnings = 0;
  std::string filtered;  // the filter that left the point out
  std::string error_kind, error_text;

  bool HasStep() const { return !metrics.empty(); }
};

// Throws ConfigError at `place`.
ResultRow ReadRow(std::string_view line, const ResultHeader& header, const Place& place);

class SweepResults {
 public:
  // Throws ConfigError when a file is no result, of another sweep, or incomplete, or when a shard
  // is missing or there twice.
  explicit SweepResults(std::vector<std::string> paths);

  // Of the whole: shard 1/1.
  const ResultHeader& header() const { return header_; }
  // Every row by its index, as it stands in its file.
  void Visit(const std::function<void(const std::string& line, const Place&)>& visitor) const;
  void VisitRows(const std::function<void(const ResultRow& row)>& visitor) const;

 private:
  void CheckShards(const std::vector<ResultHeader>& headers) const;

  std::vector<std::string> paths_;
  ResultHeader header_;
};

}  // namespace stepsim
