// What did a bucket sweep on a live system measure? Tables of a rig that runs real DDP over a link
// and times the pieces alone: which table is which follows from its columns.
//
//   steps         link, config, bucket_cap_mb, accumulation, total_us, total_no_comm_us,
//                 bwd_no_comm_us
//   gradients     link, config, param, name, bytes, ready_no_comm_us
//   curves        link, op, bytes, median_us (all_reduce alone, a row for each rank)
//   overlaps      link, ar_bytes, ar_with_gemm_us, gemm_slowdown_mean
//   slow_downs    config, factor (of an emulated link that disturbs compute by a known factor)
//
// Times in microseconds; other columns are not looked at. Only the steps are predicted: everything
// else was measured without DDP's communication.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "models/calibration/csv_table.h"

namespace stepsim {

// One point of the sweep, medians over steps and ranks; "no_sync" is the same step without
// communication.
struct LiveStep {
  std::string link, config;
  double cap_mb = 0;              // bucket_cap_mb, MiB
  std::int64_t accumulation = 1;  // micro-steps
  std::int64_t buckets = 0;       // as observed; 0: not observed
  double seconds = 0;             // of the step
  double seconds_no_sync = 0;     // of the same without communication
  double backward_no_sync = 0;    // of its last backward
};

// A network as profiled under no_sync: tensors in the order in which their gradients were ready,
// seconds from the begin of the backward pass.
struct LiveGradient {
  std::string name;
  std::int64_t bytes = 0;
  double ready = 0;
};
using LiveProfile = std::vector<LiveGradient>;

// A collective beside a loop of matrix products.
struct LiveOverlap {
  std::int64_t bytes = 0;
  double beside = 0;     // seconds of the collective beside the loop
  double slow_down = 1;  // of the products, over the whole time
};

struct LiveSweep {
  std::vector<LiveStep> steps;                                          // in the order of the table
  std::map<std::pair<std::string, std::string>, LiveProfile> profiles;  // by link, config
  std::map<std::string, std::vector<std::pair<double, double>>> curves;  // by link: bytes, seconds
  std::map<std::string, std::vector<LiveOverlap>> overlaps;              // by link
  std::map<std::string, double> slow_downs;                              // by config
};

// Throws ConfigError: a table of none of these kinds, wrong cells, no steps.
LiveSweep ReadLiveSweep(const std::vector<CsvTable>& tables);

}  // namespace stepsim
