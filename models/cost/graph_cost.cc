#include "models/cost/graph_cost.h"

#include "models/cost/collective_cost.h"
#include "models/cost/host_cost.h"
#include "models/cost/kernel_cost.h"
#include "models/topology/placement.h"
#include "sim/base/check.h"

namespace stepsim {
namespace {

class Pricer {
 public:
  Pricer(const TaskGraph& graph, const JobSpec& job)
      : job_(job), host_times_(TimesOf(job)), collective_(job.hardware, job.collectives) {
    for (const GroupId g : AllIds<GroupId>(graph.group_count())) {
      placements_.push_back(PlaceGroup(graph.group(g).ranks, job.gpus_per_node));
    }
  }

  double operator()(const ComputeWork& work) const {
    return PriceKernel(work, job_.hardware.gpu).seconds;
  }
  double operator()(const HostWork& work) const {
    return ToSeconds(HostDuration(work, host_times_));
  }
  double operator()(const CollectiveWork& work) const { return PriceOf(work).seconds; }
  double operator()(const OpaqueWork&) const { SIM_CHECK(false, "opaque work has no price"); }

  Duration DurationOf(const Work& work) const {
    const auto* host = std::get_if<HostWork>(&work);
    return host != nullptr ? HostDuration(*host, host_times_)
                           : DurationFromSeconds(std::visit(*this, work));
  }

  CollectiveChoice Choice(const Work& work) const {
    const auto* collective = std::get_if<CollectiveWork>(&work);
    if (collective == nullptr) return {};
    const CollectiveCost cost = PriceOf(*collective);
    return {std::string(cost.algorithm), std::string(cost.protocol)};
  }

  Occupancy OccupancyOf(const Work& work) const {
    Occupancy occupancy;
    occupancy.kind = KindOf(work);
    if (const auto* kernel = std::get_if<ComputeWork>(&work)) {
      const KernelCost cost = PriceKernel(*kernel, job_.hardware.gpu);
      occupancy.compute_class = kernel->compute_class;
      occupancy.tiles = cost.tiles;
      occupancy.tiles_per_sm = cost.tiles_per_sm;
      occupancy.partial_wave = cost.partial_wave;
      if (cost.seconds > 0) occupancy.hbm = ToDouble(kernel->bytes) / cost.seconds;
    } else if (const auto* collective = std::get_if<CollectiveWork>(&work)) {
      const CollectiveCost cost = PriceOf(*collective);
      occupancy.sms = cost.sms;
      occupancy.intra = cost.intra_share;
      occupancy.network = cost.network_share;
      if (cost.seconds > 0) occupancy.hbm = cost.hbm_bytes / cost.seconds;
    }
    return occupancy;
  }

  CostTrust TrustOf(const Work& work) const {
    if (const auto* kernel = std::get_if<ComputeWork>(&work)) {
      const KernelCost cost = PriceKernel(*kernel, job_.hardware.gpu);
      return {cost.residual, cost.is_extrapolated};
    }
    if (const auto* collective = std::get_if<CollectiveWork>(&work)) {
      const CollectiveCost cost = PriceOf(*collective);
      return {cost.residual, cost.is_extrapolated};
    }
    return {};
  }

 private:
  CollectiveCost PriceOf(const CollectiveWork& work) const {
    return collective_({work.op, work.bytes, work.dtype, placements_[work.group]});
  }

  const JobSpec& job_;
  HostTimes host_times_;
  CollectivePricer collective_;
  IdVector<GroupId, Placement> placements_;  // once each: a group may have a million ranks
};

}  // namespace

GraphCosts PriceGraph(const TaskGraph& graph, const JobSpec& job) {
  const Pricer pricer(graph, job);
  GraphCosts priced;
  for (const WorkId w : AllIds<WorkId>(graph.work_count())) {
    priced.costs.push_back({pricer.DurationOf(graph.work(w)), {}});
    priced.choices.push_back(pricer.Choice(graph.work(w)));
    priced.occupancy.push_back(pricer.OccupancyOf(graph.work(w)));
    priced.trust.push_back(pricer.TrustOf(graph.work(w)));
  }
  return priced;
}

}  // namespace stepsim
