// How much slower is compute under the collectives of a training step, over models, batches and
// GPUs? arXiv 2507.03114 (GPT and LLaMA networks on 4 GPUs, A100 and H100 among them) reports +18.9
// % on average and +40 % at most.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "models/cost/kernel_cost.h"
#include "models/workload/workload.h"
#include "tests/support/shipped.h"
#include "tests/unit/models/contention/overlap.h"

namespace stepsim {
namespace {

using testing::Overlap;

constexpr double kGpus = 4;
constexpr double kChannels = 24;  // NCCL on NVSwitch, A100 and H100

// Fully sharded data parallelism: parameters are gathered one unit ahead of the compute that needs
// them, gradients are scattered behind it, all on one communicator.
class ShardedStep {
 public:
  explicit ShardedStep(const JobSpec& job) : job_(job), overlap_(job.hardware) {
    const Workload workload = BuildWorkload(job);
    std::vector<const ModelUnit*> order;  // forward, then backward
    for (const ModelUnit& unit : workload.units) order.push_back(&unit);
    for (auto unit = workload.units.rbegin(); unit != workload.units.rend(); ++unit) {
      order.push_back(&*unit);
    }
    TaskId gathered = Communicate(*order.front(), kNoId<TaskId>);
    for (std::size_t i = 0; i < order.size(); ++i) {
      const TaskId here = gathered;
      if (i + 1 < order.size()) gathered = Communicate(*order[i + 1], last_kernel_);
      if (i < workload.units.size()) {
        Forward(*order[i], here);
      } else {
        Backward(*order[i], here);
        Communicate(*order[i], last_kernel_);
      }
    }
    overlap_.Run();
  }

  // Of all compute kernels together.
  double SlowDown() const {
    double took = 0, alone = 0;
    for (const TaskId t : kernels_) {
      took += overlap_.Took(t);
      alone += overlap_.Took(t) / overlap_.SlowDown(t);
    }
    return took / alone;
  }

 private:
  void Forward(const ModelUnit& unit, TaskId gathered) {
    for (const Operator& op : unit.operators) Compute(op.forward, gathered);
  }

  void Backward(const ModelUnit& unit, TaskId gathered) {
    for (auto op = unit.operators.rbegin(); op != unit.operators.rend(); ++op) {
      for (const ComputeWork& work : op->backward_input) Compute(work, gathered);
      for (const ComputeWork& work : op->backward_weight) Compute(work, gathered);
    }
  }

  // An all-gather or a reduce-scatter of the unit's weights at the rate that the profile reaches.
  TaskId Communicate(const ModelUnit& unit, TaskId after) {
    double bytes = 0;
    for (const Operator& op : unit.operators) {
      if (op.forward.m > 0 && !op.parameters_ready.empty()) {
        bytes += 2.0 * static_cast<double>(op.forward.n) * static_cast<double>(op.forward.k);
      }
    }
    const LinkSpec& link = job_.hardware.intra_node;
    const double seconds = (kGpus - 1) / kGpus * bytes / (link.bandwidth.value * link.efficiency);
    std::vector<TaskId> before;
    if (after != kNoId<TaskId>) before.push_back(after);
    return overlap_.Add("nccl", seconds, testing::Collective(job_.hardware, kChannels), before);
  }

  void Compute(const ComputeWork& work, TaskId after) {
    const KernelCost cost = PriceKernel(work, job_.hardware.gpu);
    if (cost.seconds <= 0) return;
    Occupancy occupancy =
        testing::Kernel(work.compute_class, cost.tiles, ToDouble(work.bytes) / cost.seconds);
    if (work.compute_class == ComputeClass::kGemm && cost.tiles == 0 && work.m > 0) {
      occupancy.tiles = std::ceil(static_cast<double>(work.m) / 128) *
                        std::ceil(static_cast<double>(work.n) / 256) *
                        static_cast<double>(work.batch);
    }
    last_kernel_ = overlap_.Add("compute", cost.seconds, occupancy, {after});
    kernels_.push_back(last_kernel_);
  }

  const JobSpec& job_;
  Overlap overlap_;
  TaskId last_kernel_ = kNoId<TaskId>;
  std::vector<TaskId> kernels_;
};

// Micro-batches of 1 to 4 sequences of 1024 tokens: from collectives that last about as long as the
// compute to such that hide behind a fifth of it. The paper's own batches are not known to us, so
// the average is only held to its neighbourhood.
TEST(Study, SlowDownOfComputeInShardedSteps) {
  std::vector<double> slow_downs;
  for (const char* hardware : {"a100-80g-dgx", "h100-sxm-dgx"}) {
    for (const char* model : {"gpt2-xl", "gpt3-6.7b", "llama-2-7b", "llama-2-13b"}) {
      for (const int batch : {1, 2, 4}) {
        const ResolvedJob job = testing::LoadText(fmt::format(
            "model: {}\nhardware: {}\ngpus_per_node: 4\nprecision: {{parameters: bf16}}\nbatch: "
            "{{sequence_length: 1024, micro_batch_size: {}}}\n",
            model, hardware, batch));
        slow_downs.push_back(ShardedStep(job.job).SlowDown());
      }
    }
  }
  const double average = std::accumulate(slow_downs.begin(), slow_downs.end(), 0.0) /
                         static_cast<double>(slow_downs.size());
  RecordProperty("average", fmt::format("{:.3f}", average));
  const auto [least, most] = std::minmax_element(slow_downs.begin(), slow_downs.end());
  RecordProperty("least", fmt::format("{:.3f}", *least));
  RecordProperty("most", fmt::format("{:.3f}", *most));
  EXPECT_NEAR(average, 1.189, 0.07);
  EXPECT_LE(*most, 1.40);
  EXPECT_GE(*most, 1.30);
  EXPECT_LE(*least, 1.06);
}

}  // namespace
}  // namespace stepsim
