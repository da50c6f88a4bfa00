// What can a device measure? The seam between the plan and CUDA, MPI or a test.
//
//   std::unique_ptr<Prepared> ready = backend.Prepare(task);   // buffers, algorithms,
//   communicators for (...) samples.push_back(ready->Sample(20));            // nothing but the
//   measured work
//
// Every rank calls the same functions in the same order.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "tools/calibrate/task.h"

namespace stepsim::measure {

// The device, a library or a peer failed: the measurement ends (exit status 1).
class MeasureError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// This one measurement cannot be made; the others can.
class CannotMeasure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The header of the file.
struct DeviceFacts {
  std::string backend;  // "cuda"
  std::string device;   // "NVIDIA H200"
  std::string driver;
  std::map<std::string, std::string> libraries;  // "nccl" -> "2.28.9"
  std::map<std::string, double> clocks;          // "sm_mhz" -> 1980
};

// What the plan has to know.
struct DeviceLimits {
  int sms = 1;                                 // CPU: threads that can copy
  std::vector<std::string> dtypes;             // of GEMMs, the usual one first
  std::int64_t gemm_edge = 8192;               // of a large product, a multiple of 128
  std::int64_t memory_kernel_bytes = 1 << 30;  // moved by a large kernel
  std::int64_t message_bytes = 1 << 30;        // of a large collective
  std::int64_t attention_sequence = 4096;
  std::int64_t attention_heads = 32;
  bool has_cta_limit = false;  // collectives take max_ctas
  bool has_polling = false;    // interference with and without
};

// One sample: the time of one repetition, for interference four times.
//   compute alone, compute beside, the other alone, the other beside
using Sample = std::vector<double>;

class Prepared {
 public:
  virtual ~Prepared() = default;
  // `inner` repetitions back to back between two time stamps; seconds per repetition. Throws
  // MeasureError.
  virtual Sample Take(int inner) = 0;
  // How it was done, as far as the task does not say it; becomes fields of the line.
  virtual std::map<std::string, std::string> Facts() const { return {}; }
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual DeviceFacts Facts() const = 0;
  virtual DeviceLimits Limits() const = 0;
  // Throws CannotMeasure (too little memory, a type that the device lacks) or MeasureError.
  virtual std::unique_ptr<Prepared> Prepare(const MeasureTask& task) = 0;
  // What disturbed the device since the last call: "throttled: power cap". Empty: nothing.
  virtual std::string Disturbance() { return ""; }
};

}  // namespace stepsim::measure
