// How long does a collective take alone, how is it carried out, and what does it occupy?
//
//   const CollectivePricer price(hardware, spec);
//   const CollectiveCost cost =
//       price({CollectiveOp::kAllReduce, Bytes{1 << 20}, DType::kBf16, placement});
//   // cost.seconds, .algorithm ("tree"), .protocol ("ll128"), .sms (16)
//
// Equations: models/README.md, "Collectives".
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "models/spec/collective_spec.h"
#include "models/spec/hardware.h"
#include "models/topology/placement.h"
#include "sim/base/dtype.h"
#include "sim/base/quantity.h"
#include "sim/graph/work.h"

namespace stepsim {

struct CollectiveRequest {
  CollectiveOp op = CollectiveOp::kAllReduce;
  Bytes bytes;  // as CollectiveWork counts it
  DType dtype = DType::kBf16;
  Placement placement;
  bool operator==(const CollectiveRequest&) const = default;
};

struct CollectiveCost {
  double seconds = 0;          // alone, with corrections and calibration
  double nccl_seconds = 0;     // as NCCL's own table predicts: what NCCL chooses by
  double latency_seconds = 0;  // the part of `seconds` that does not depend on the bytes
  std::string_view algorithm;  // "ring"; names live as long as the program
  std::string_view protocol;   // "ll128"
  std::int64_t channels = 0;
  double sms = 0;        // held on every rank while the kernel is resident
  double hbm_bytes = 0;  // moved through one rank's HBM, in all
  // Shares of the rank's bandwidth while it transfers, 0..1: NVLink (or PCIe), and its NICs.
  double intra_share = 0;
  double network_share = 0;
  double residual = 0;           // expected |error| as a fraction; 0: unknown
  bool is_extrapolated = false;  // outside the calibrated sizes
};

// REQUIRES of all requests: placement.ranks >= 1, bytes >= 0. A group of one rank takes no time.
// Remembers what it was asked, so that asking again costs a look-up. Not to be shared by threads:
// each takes its own.
class CollectivePricer {
 public:
  // Copies what it needs. Throws nothing: the spec has been checked (CheckCollectives).
  CollectivePricer(const HardwareSpec& hardware, const CollectiveModelSpec& spec);
  ~CollectivePricer();
  CollectivePricer(CollectivePricer&&) noexcept;
  CollectivePricer& operator=(CollectivePricer&&) noexcept;

  // What NCCL would choose (or the job pins). Throws ConfigError, with the reason for every
  // algorithm, where the job's choice leaves none for this collective and group.
  CollectiveCost operator()(const CollectiveRequest& request) const;
  // Every enabled algorithm and protocol, in the order of the table; the choice included.
  std::vector<CollectiveCost> Candidates(const CollectiveRequest& request) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// busbw / algbw by nccl-tests' definition: 2 (n-1)/n for all_reduce, (n-1)/n for all_gather,
// reduce_scatter and all_to_all, 1 for broadcast, reduce and send_recv.
double BusFactor(CollectiveOp op, std::int64_t ranks);

}  // namespace stepsim
