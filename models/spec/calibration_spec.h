// What did somebody measure on a real system, and what was made of it? configs/calibration/*.yaml.
//
// A calibration lies over a hardware profile: `hardware:` holds the values that measurements took
// the place of (models/calibration fits them), the rest says where they come from. A job names it
// with `calibration:`, a command line with --calibration.
//
//   name: office-gloo
//   date: "2026-11-29"
//   device: 2 x EPYC, 1 Gb/s
//   hardware:
//     collective_curves:
//       - {collective: all_reduce, ranks: 2, nodes: 2, backend: gloo, latency: 4.3 ms,
//          bandwidth: 113 MB/s, residual: 0.05, smallest: 64 KiB, largest: 64 MiB}
//     gpu: {contention: {transfer_on_compute: 0.2}}
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/quantity.h"
#include "sim/base/time.h"

namespace stepsim {

// One size of a curve, where the smooth curve misses what was measured.
struct CurveKnot {
  Bytes size;  // as nccl-tests counts it
  Duration time{};
};

// One collective on one group, as measured:
//
//   t(S) = latency + T + sqrt(ramp x T),   T = S / bandwidth
//
// and, where there are knots, times what is left at them (log-log between two). models/cost applies
// it (measured_curve.h), models/calibration fits it.
struct CollectiveCurve {
  std::string collective = "all_reduce";
  std::int64_t ranks = 2;
  std::int64_t nodes = 1;
  std::string backend = "nccl";  // "gloo" and "mpi" hold no SMs
  std::string algorithm = "*";   // NCCL's; "*": whichever it chose
  std::string protocol = "*";
  std::int64_t max_ctas = 0;  // NCCL_MAX_CTAS during the measurement; 0: NCCL's own
  Duration latency{};
  Bandwidth bandwidth;  // sizes over time, in the long run; 0: the sizes were too small to tell
  Duration ramp{};      // transfers as short as this take twice as long
  std::vector<CurveKnot> knots;

  // How well it is known.
  double residual = 0;       // median |error| of sizes left out of the fit, a fraction
  double residual_p90 = 0;   // 90th percentile of the same
  double latency_error = 0;  // half of the 95 % interval, a fraction; 0: unknown
  double bandwidth_error = 0;
  Bytes smallest, largest;  // sizes that were measured
  std::int64_t points = 0;  // how many
};

// What was fitted, for the reader.
struct FitRecord {
  std::string what;   // "all_reduce, 8 ranks on 1 node", "gemm bf16"
  std::string value;  // "latency 12.1 us, 231 GB/s"
  std::int64_t points = 0;
  std::int64_t outliers = 0;  // of them, which the fit hardly looked at
  double residual = 0;        // median |error|
  double residual_p90 = 0;
  std::string range;  // "1 KiB to 8 GiB"
  std::string note;   // what could not be told
};

struct CalibrationSpec {
  std::string name;  // "": none
  std::string description;
  std::string date;
  std::string device;
  std::string driver;
  std::string fitted_over;             // the hardware profile that it was fitted over
  std::vector<std::string> libraries;  // "nccl 2.28.9"
  std::string command;
  std::vector<std::string> files;  // measurements and logs that it was fitted to
  std::vector<FitRecord> fits;
};

}  // namespace stepsim
