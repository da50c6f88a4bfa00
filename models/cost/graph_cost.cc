#include "models/cost/graph_cost.h"

#include <map>
#include <string>
#include <utility>
#include <variant>

#include "models/cost/collective_cost.h"
#include "models/cost/host_cost.h"
#include "models/cost/kernel_cost.h"
#include "models/cost/symmetric_memory_cost.h"
#include "models/spec/rank_pace.h"
#include "models/topology/placement.h"
#include "sim/base/check.h"

namespace stepsim {
namespace {

struct PricedWork {
  Duration isolated{};
  CollectiveChoice choice;  // collectives only
  Occupancy occupancy;
  CostTrust trust;
};

class Pricer {
 public:
  Pricer(const TaskGraph& graph, const JobSpec& job)
      : job_(job), host_times_(TimesOf(job)), collective_(job.hardware, job.collectives) {
    for (const GroupId g : AllIds<GroupId>(graph.group_count())) {
      placements_.push_back(PlaceGroup(graph.group(g).ranks, job.gpus_per_node));
    }
    for (const RankId r : AllIds<RankId>(graph.rank_count())) {
      simulated_[graph.rank_info(r).global_rank] = r;
    }
  }

  PricedWork operator()(const ComputeWork& work) const {
    KernelCost cost = PriceKernel(work, job_.hardware.gpu);
    cost.seconds *= work.pace / 1000.0;
    Occupancy occupancy;
    occupancy.kind = TaskKind::kCompute;
    occupancy.compute_class = work.compute_class;
    occupancy.tiles = cost.tiles;
    occupancy.partial_wave = cost.partial_wave;
    if (cost.seconds > 0) occupancy.hbm = ToDouble(work.bytes) / cost.seconds;
    const bool is_exact = work.measured > 0 && work.pace == kNormalPace;
    return {is_exact ? Duration(work.measured) : DurationFromSeconds(cost.seconds),
            {},
            occupancy,
            {cost.residual, cost.is_extrapolated}};
  }

  PricedWork operator()(const CollectiveWork& work) const {
    const bool is_library = work.op != CollectiveOp::kPeerCopy && work.op != CollectiveOp::kBarrier;
    const CollectiveCost cost =
        is_library ? collective_({work.op, work.bytes, work.dtype, placements_[work.group]})
                   : PriceSymmetric(work.op, work.bytes, job_.hardware);
    Occupancy occupancy;
    occupancy.kind = TaskKind::kTransfer;
    occupancy.sms = work.sms > 0 ? work.sms : cost.sms;
    occupancy.intra = cost.intra_share;
    occupancy.network = cost.network_share;
    if (work.sender >= 0) occupancy.sender = simulated_.at(work.sender);
    if (cost.seconds > 0) occupancy.hbm = cost.hbm_bytes / cost.seconds;
    const Duration alone = DurationFromSeconds(cost.seconds);
    return {alone,
            {std::string(cost.algorithm), std::string(cost.protocol), alone},
            occupancy,
            {cost.residual, cost.is_extrapolated}};
  }

  PricedWork operator()(const HostWork& work) const {
    Occupancy nothing;
    nothing.kind = TaskKind::kHost;
    return {HostDuration(work, host_times_), {}, nothing, {}};
  }

  PricedWork operator()(const OpaqueWork&) const { SIM_CHECK(false, "opaque work has no price"); }

 private:
  const JobSpec& job_;
  HostTimes host_times_;
  CollectivePricer collective_;
  IdVector<GroupId, Placement> placements_;   // once each: a group may have a million ranks
  std::map<std::int32_t, RankId> simulated_;  // by global rank
};

}  // namespace

GraphCosts PriceGraph(const TaskGraph& graph, const JobSpec& job) {
  const Pricer pricer(graph, job);
  GraphCosts priced;
  for (const WorkId w : AllIds<WorkId>(graph.work_count())) {
    PricedWork work = std::visit(pricer, graph.work(w));
    priced.costs.push_back({work.isolated});
    priced.choices.push_back(std::move(work.choice));
    priced.occupancy.push_back(work.occupancy);
    priced.trust.push_back(work.trust);
  }
  return priced;
}

}  // namespace stepsim
