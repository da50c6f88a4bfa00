#include "models/cost/graph_cost.h"

#include <algorithm>

#include "models/cost/collective_cost.h"
#include "models/topology/placement.h"
#include "sim/base/check.h"

namespace stepsim {
namespace {

// Walking one autograd node on the host (DDP's search for unused parameters): a pointer chase and a
// hash look-up in C++, some hundred nanoseconds.
constexpr double kSecondsPerGraphNode = 0.3e-6;

double Efficiency(ComputeClass compute_class, const GpuSpec& gpu) {
  switch (compute_class) {
    case ComputeClass::kGemm:
      return gpu.gemm_efficiency;
    case ComputeClass::kAttention:
      return gpu.attention_efficiency;
    case ComputeClass::kMemory:
      break;
  }
  return 1;  // vector units: such kernels are bound by bytes
}

class Pricer {
 public:
  Pricer(const TaskGraph& graph, const JobSpec& job)
      : job_(job), all_reduce_(FindAllReduceAlgorithm(job.collectives.all_reduce)) {
    SIM_CHECK(all_reduce_ != nullptr, "the job names an unknown all_reduce algorithm");
    for (const GroupId g : AllIds<GroupId>(graph.group_count())) {
      placements_.push_back(PlaceGroup(graph.group(g).ranks, job.gpus_per_node));
    }
  }

  double operator()(const ComputeWork& work) const {
    return ComputeSeconds(work, job_.hardware.gpu);
  }
  double operator()(const HostWork& work) const {
    return work.launches * ToSeconds(job_.simulate.launch_overhead) +
           work.graph_nodes * kSecondsPerGraphNode;
  }
  double operator()(const CollectiveWork& work) const {
    const CollectiveRequest request{work.op, work.bytes, placements_[work.group]};
    return AlgorithmFor(work).seconds(request, job_.hardware);
  }
  double operator()(const OpaqueWork&) const { SIM_CHECK(false, "opaque work has no price"); }

  CollectiveChoice Choice(const Work& work) const {
    const auto* collective = std::get_if<CollectiveWork>(&work);
    if (collective == nullptr) return {};
    return {std::string(AlgorithmFor(*collective).name), "simple"};
  }

 private:
  const CollectiveAlgorithm& AlgorithmFor(const CollectiveWork& work) const {
    return work.op == CollectiveOp::kAllReduce ? *all_reduce_ : AllReduceAlgorithms().front();
  }

  const JobSpec& job_;
  const CollectiveAlgorithm* all_reduce_;
  IdVector<GroupId, Placement> placements_;  // once each: a group may have a million ranks
};

}  // namespace

double ComputeSeconds(const ComputeWork& work, const GpuSpec& gpu) {
  double seconds = ToDouble(work.bytes) / (gpu.hbm_bandwidth.value * gpu.memory_efficiency);
  if (work.flops.value > 0) {
    const FlopRate peak = PeakOf(gpu, work.dtype);
    SIM_CHECK(peak.value > 0, "the GPU has no unit for products of this type");
    seconds =
        std::max(seconds, work.flops.value / (peak.value * Efficiency(work.compute_class, gpu)));
  }
  return seconds + work.kernels * ToSeconds(gpu.kernel_latency);
}

GraphCosts PriceGraph(const TaskGraph& graph, const JobSpec& job) {
  const Pricer pricer(graph, job);
  GraphCosts priced;
  for (const WorkId w : AllIds<WorkId>(graph.work_count())) {
    priced.costs.push_back({DurationFromSeconds(std::visit(pricer, graph.work(w))), {}});
    priced.choices.push_back(pricer.Choice(graph.work(w)));
  }
  return priced;
}

}  // namespace stepsim
