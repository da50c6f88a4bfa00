// What does a result file hold? Its first line says so:
//
//   {"schema":"stepsim.sweep/1","sweep":"...","hash":"...","version":"0.1.0","points":12,
//    "shard":"1/3","shard_points":4,"axes":[{"path":"nodes","unit":""}],"metrics":[...],"curve":{}}
//
// Every other line is a point (point_runner.h), in the order of `index`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/study/variants.h"
#include "sim/base/diagnostics.h"
#include "tools/sweep/grid.h"
#include "tools/sweep/shard.h"

namespace stepsim {

struct ResultHeader {
  static constexpr std::string_view kSchema = "stepsim.sweep/1";

  struct Axis {
    std::string path;
    std::string unit;          // "bytes", "MiB", "": what a number of it counts
    bool is_quantity = false;  // has a base unit, and texts such as "25 MiB"
  };

  std::string sweep;
  std::string hash;  // of the sweep, the job and the version: rows of one hash belong together
  std::string version;
  std::uint64_t points = 0;  // of all shards
  Shard shard;
  std::uint64_t shard_points = 0;
  std::vector<Axis> axes;
  std::vector<std::string> metrics;
  CurveSpec curve;
};

ResultHeader MakeHeader(const Grid& grid, const Shard& shard, const JobVariants& variants,
                        const std::string& version);

std::string WriteHeader(const ResultHeader& header);  // with its end of line
// Throws ConfigError at `place` when the line is no header, or one of another schema.
ResultHeader ReadHeader(std::string_view line, const Place& place);

// The number behind {"index": of a row; nullopt: no row.
std::optional<std::uint64_t> IndexOf(std::string_view line);

}  // namespace stepsim
