#include "models/cost/collective_cost.h"

#include "models/cost/alpha_beta.h"
#include "models/cost/nccl_pricer.h"

namespace stepsim {

namespace {

CollectiveCost PriceAlphaBeta(const CollectiveRequest& request, const HardwareSpec& hardware,
                              const CollectiveModelSpec& spec) {
  const bool is_hierarchical =
      request.op == CollectiveOp::kAllReduce && spec.all_reduce == "hierarchical";
  CollectiveCost cost;
  cost.seconds = is_hierarchical ? HierarchicalAllReduceSeconds(request, hardware)
                                 : RingSeconds(request, hardware);
  cost.nccl_seconds = cost.seconds;
  cost.algorithm = is_hierarchical ? "hierarchical" : "ring";
  cost.protocol = "simple";
  return cost;
}

}  // namespace

struct CollectivePricer::Impl {
  Impl(const HardwareSpec& hardware_in, const CollectiveModelSpec& spec_in)
      : hardware(hardware_in), spec(spec_in), nccl(hardware_in, spec_in) {}

  HardwareSpec hardware;
  CollectiveModelSpec spec;
  NcclPricer nccl;
};

CollectivePricer::CollectivePricer(const HardwareSpec& hardware, const CollectiveModelSpec& spec)
    : impl_(std::make_unique<Impl>(hardware, spec)) {}
CollectivePricer::~CollectivePricer() = default;
CollectivePricer::CollectivePricer(CollectivePricer&&) noexcept = default;
CollectivePricer& CollectivePricer::operator=(CollectivePricer&&) noexcept = default;

CollectiveCost CollectivePricer::operator()(const CollectiveRequest& request) const {
  if (impl_->spec.model == CollectiveModel::kAlphaBeta) {
    return PriceAlphaBeta(request, impl_->hardware, impl_->spec);
  }
  if (request.placement.ranks <= 1) return {};
  return impl_->nccl.Price(request);
}

std::vector<CollectiveCost> CollectivePricer::Candidates(const CollectiveRequest& request) const {
  if (impl_->spec.model == CollectiveModel::kAlphaBeta || request.placement.ranks <= 1) {
    return {(*this)(request)};
  }
  return impl_->nccl.Candidates(request);
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
