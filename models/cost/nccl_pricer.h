// NCCL behind CollectivePricer: which algorithm and protocol does it choose, and what does that
// take?
//
// NCCL's release decides the choice (its table, its search); the time follows from the newest table
// evaluated with the rates that the links deliver, and from measured corrections.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/cost/collective_cost.h"

namespace stepsim {

class NcclPricer {
 public:
  NcclPricer(const HardwareSpec& hardware, const CollectiveModelSpec& spec);
  ~NcclPricer();

  // REQUIRES: request.placement.ranks > 1. Throws ConfigError where the job's choice leaves
  // nothing.
  CollectiveCost Price(const CollectiveRequest& request);
  std::vector<CollectiveCost> Candidates(const CollectiveRequest& request);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stepsim
