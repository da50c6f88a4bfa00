#include "models/cost/collective_cost.h"

#include <cstddef>
#include <unordered_map>

#include "models/cost/alpha_beta.h"
#include "models/cost/measured_curve.h"
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

// A message crosses the link twice, one way after the other: the receiver is asked, then sent to.
// Threads of the host carry it, so that it holds no SM; two that are in flight share the link, each
// by the part of its time in which it moves bytes.
CollectiveCost PriceGloo(const CollectiveRequest& request, const HardwareSpec& hardware) {
  CollectiveCost cost;
  cost.algorithm = "ring";
  cost.protocol = "gloo";
  if (request.placement.ranks <= 1) return cost;
  LinkShare link = SlowestOfRing(hardware, request.placement);
  link.latency *= 2;
  cost.seconds = RingSeconds(request, link);
  cost.nccl_seconds = cost.seconds;
  CollectiveRequest empty = request;
  empty.bytes = Bytes{};
  cost.latency_seconds = RingSeconds(empty, link);
  if (cost.seconds <= 0) return cost;
  const double share = (cost.seconds - cost.latency_seconds) / cost.seconds;
  if (request.placement.ranks > request.placement.nodes) cost.intra_share = share;
  if (request.placement.nodes > 1) cost.network_share = share;
  return cost;
}

struct RequestHash {
  std::size_t operator()(const CollectiveRequest& r) const {
    std::uint64_t hash = 0;
    const auto mix = [&hash](std::int64_t value) {
      hash = (hash ^ static_cast<std::uint64_t>(value)) * 0x9E3779B97F4A7C15;
      hash ^= hash >> 32;
    };
    mix(static_cast<std::int64_t>(r.op) * 64 + static_cast<std::int64_t>(r.dtype));
    mix(r.bytes.value);
    mix(r.placement.ranks);
    mix(r.placement.nodes);
    mix(r.placement.ranks_per_node);
    mix(r.placement.job_gpus_per_node);
    mix(r.placement.first_node);
    mix(r.placement.last_node);
    return static_cast<std::size_t>(hash);
  }
};

}  // namespace

struct CollectivePricer::Impl {
  Impl(const HardwareSpec& hardware_in, const CollectiveModelSpec& spec_in)
      : hardware(hardware_in),
        spec(spec_in),
        nccl(hardware_in, spec_in),
        curves(hardware_in, spec_in) {}

  CollectiveCost Price(const CollectiveRequest& request) {
    CollectiveCost cost;
    if (spec.model == CollectiveModel::kAlphaBeta) {
      cost = PriceAlphaBeta(request, hardware, spec);
    } else if (spec.model == CollectiveModel::kGloo) {
      cost = PriceGloo(request, hardware);
    } else if (request.placement.ranks > 1) {
      cost = nccl.Price(request);
    }
    if (request.placement.ranks > 1) curves.ApplyTo(request, &cost);
    return cost;
  }

  HardwareSpec hardware;
  CollectiveModelSpec spec;
  NcclPricer nccl;
  MeasuredCurves curves;
  std::unordered_map<CollectiveRequest, CollectiveCost, RequestHash> seen;
};

CollectivePricer::CollectivePricer(const HardwareSpec& hardware, const CollectiveModelSpec& spec)
    : impl_(std::make_unique<Impl>(hardware, spec)) {}
CollectivePricer::~CollectivePricer() = default;
CollectivePricer::CollectivePricer(CollectivePricer&&) noexcept = default;
CollectivePricer& CollectivePricer::operator=(CollectivePricer&&) noexcept = default;

CollectiveCost CollectivePricer::operator()(const CollectiveRequest& request) const {
  const auto found = impl_->seen.find(request);
  if (found != impl_->seen.end()) return found->second;
  return impl_->seen.emplace(request, impl_->Price(request)).first->second;
}

std::vector<CollectiveCost> CollectivePricer::Candidates(const CollectiveRequest& request) const {
  if (impl_->spec.model != CollectiveModel::kNccl || request.placement.ranks <= 1) {
    return {(*this)(request)};
  }
  std::vector<CollectiveCost> costs = impl_->nccl.Candidates(request);
  for (CollectiveCost& cost : costs) impl_->curves.ApplyTo(request, &cost);
  return costs;
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
    case CollectiveOp::kPeerCopy:
    case CollectiveOp::kBarrier:
      break;
  }
  return 1;
}

}  // namespace stepsim
