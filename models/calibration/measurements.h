// What was measured on a real system? Single kernels, collectives and pairs of them, whoever wrote
// them down: `stepsim-calibrate` (measurement_file.h), nccl-tests (nccl_log.h), other benchmarks as
// CSV (benchmark_csv.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/spec/calibration_spec.h"
#include "sim/base/dtype.h"
#include "sim/base/quantity.h"
#include "sim/graph/work.h"

namespace stepsim {

struct Timing {
  double seconds = 0;       // median; of nccl-tests the mean over calls in a row
  double p10 = 0, p90 = 0;  // 0: not told
  std::int64_t repeats = 0;
  std::string note;  // "throttled"
};

struct MeasuredGemm {
  std::int64_t m = 1, n = 1, k = 1;
  DType dtype = DType::kBf16;
  Timing time;
};

struct MeasuredMemory {
  std::string op;    // "copy", "add", "norm", ...
  double bytes = 0;  // read and written
  Timing time;
};

struct MeasuredAttention {
  std::int64_t batch = 1, heads = 1, seq_q = 1, seq_k = 1, head_dim = 1;
  bool causal = false, backward = false;
  DType dtype = DType::kBf16;
  std::string implementation;  // "cudnn", "gemm_softmax"
  Timing time;
};

struct MeasuredCall {  // of a collective
  CollectiveOp op = CollectiveOp::kAllReduce;
  std::int64_t bytes = 0;  // as nccl-tests counts them
  std::int64_t ranks = 2, nodes = 1;
  bool in_place = false;
  std::int64_t max_ctas = 0;  // 0: the library's own
  std::string backend = "nccl";
  std::string algorithm, protocol;  // "": not told
  Timing time;
};

// A matrix product beside something else, and both alone; seconds.
struct MeasuredInterference {
  MeasuredGemm compute;       // without a time
  bool is_collective = true;  // else a copy kernel that holds `sms` SMs
  MeasuredCall collective;    // without a time
  double sms = 0;
  double compute_alone = 0, compute_beside = 0;
  double beside_alone = 0, beside_beside = 0;  // 0: not told
};

struct MeasuredLaunch {
  std::string op;  // "kernel_launch", "event_handover", "empty_kernel"
  Timing time;
};

struct Measurements {
  CalibrationSpec about;  // date, device, driver, libraries, command, files
  std::vector<MeasuredGemm> gemms;
  std::vector<MeasuredMemory> memory;
  std::vector<MeasuredAttention> attention;
  std::vector<MeasuredCall> collectives;
  std::vector<MeasuredInterference> interference;
  std::vector<MeasuredLaunch> launches;
  std::vector<std::string> notes;  // what was left aside, and why

  std::size_t size() const {
    return gemms.size() + memory.size() + attention.size() + collectives.size() +
           interference.size() + launches.size();
  }
  // Everything of `more` behind one's own.
  void Append(Measurements more);
};

}  // namespace stepsim
