#include "models/cost/collective_cost.h"

#include "models/cost/alpha_beta.h"
#include "sim/base/check.h"

namespace stepsim {

struct CollectivePricer::Impl {
  HardwareSpec hardware;
  CollectiveModelSpec spec;
};

CollectivePricer::CollectivePricer(const HardwareSpec& hardware, const CollectiveModelSpec& spec)
    : impl_(std::make_unique<Impl>(Impl{hardware, spec})) {}
CollectivePricer::~CollectivePricer() = default;
CollectivePricer::CollectivePricer(CollectivePricer&&) noexcept = default;
CollectivePricer& CollectivePricer::operator=(CollectivePricer&&) noexcept = default;

CollectiveCost CollectivePricer::operator()(const CollectiveRequest& request) const {
  CollectiveCost cost;
  const bool is_hierarchical =
      request.op == CollectiveOp::kAllReduce && impl_->spec.all_reduce == "hierarchical";
  cost.seconds = is_hierarchical ? HierarchicalAllReduceSeconds(request, impl_->hardware)
                                 : RingSeconds(request, impl_->hardware);
  cost.nccl_seconds = cost.seconds;
  cost.algorithm = is_hierarchical ? "hierarchical" : "ring";
  cost.protocol = "simple";
  return cost;
}

std::vector<CollectiveCost> CollectivePricer::Candidates(const CollectiveRequest& request) const {
  return {(*this)(request)};
}

double BusFactor(CollectiveOp op, std::int64_t ranks) {
  const auto n = static_cast<double>(ranks);
  if (ranks <= 1) return 0;
  switch (op) {
    case CollectiveOp::kAllReduce:
      return 2 * (n - 1) / n;
    case CollectiveOp::kAllGather:
    case CollectiveOp::kReduceScatter:
    case CollectiveOp::kAllToAll:
      return (n - 1) / n;
    case CollectiveOp::kBroadcast:
    case CollectiveOp::kReduce:
    case CollectiveOp::kSendRecv:
      break;
  }
  return 1;
}

}  // namespace stepsim
