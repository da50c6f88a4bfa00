// Two micro-batches at once: start times worked out by hand, and what the pairing may not change.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "models/parallel/build_step.h"
#include "sim/engine/simulate.h"
#include "tests/support/vec.h"

namespace stepsim {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

constexpr int kAttention = 4, kMlp = 3;                // forward, and input gradient
constexpr int kAttentionWeights = 3, kMlpWeights = 2;  // weight gradient

ComputeWork Kernel(int time) {
  return {.compute_class = ComputeClass::kGemm, .flops = {double(time)}};
}

Operator Computes(const std::string& name, LayerPart part, int forward, int weights) {
  Operator op;
  op.name = name;
  op.part = part;
  op.forward = Kernel(forward);
  op.backward_input = {Kernel(forward)};
  op.backward_weight = {Kernel(weights)};
  return op;
}

Operator Exchanges(const std::string& name, LayerPart part, int time) {
  Operator op;
  op.name = name;
  op.part = part;
  op.is_exchange = true;
  for (const ExchangePlace place : {ExchangePlace::kAfterForward, ExchangePlace::kBeforeBackward}) {
    op.exchanges.push_back(
        {place, ExchangeAxis::kExpert, CollectiveOp::kAllToAll, DType::kBf16, Bytes{time}, "a2a"});
  }
  return op;
}

Workload Layers(int count, int exchange) {
  Workload workload;
  for (int l = 0; l < count; ++l) {
    workload.units.push_back(
        {"layers." + std::to_string(l),
         {Computes("attention", LayerPart::kAttention, kAttention, kAttentionWeights),
          Exchanges("dispatch", LayerPart::kDispatch, exchange),
          Computes("mlp", LayerPart::kMlp, kMlp, kMlpWeights),
          Exchanges("combine", LayerPart::kCombine, exchange)},
         Bytes{64}});
  }
  return workload;
}

JobSpec TwoMicrobatches() {
  JobSpec job;
  job.gpus_per_node = 2;
  job.plan.strategy = "none";
  job.plan.expert_parallel = 2;
  job.plan.clip_gradients = false;
  job.plan.expert.overlap_microbatches = true;
  job.batch.gradient_accumulation_steps = 2;
  job.precision.compute = DType::kFp32;
  job.optimizer = OptimizerKind::kNone;
  job.host.launch = Duration::zero();
  return job;
}

struct SimulatedStep {
  TaskGraph graph;
  Timeline timeline;

  std::int64_t makespan() const { return timeline.makespan.time_since_epoch() / kVecUnit; }
  // Of what has this in its name and belongs to the micro-batch, in the order of launches.
  std::vector<std::int64_t> Starts(const std::string& name, std::int32_t microbatch) const {
    std::vector<std::int64_t> starts;
    for (const TaskId t : AllIds<TaskId>(graph.task_count())) {
      if (graph.label(t).name.find(name) == std::string::npos) continue;
      if (graph.position(t).microstep != microbatch) continue;
      starts.push_back(timeline.start[t].time_since_epoch() / kVecUnit);
    }
    return starts;
  }
};

SimulatedStep RunStepOf(const JobSpec& job, const Workload& workload) {
  TaskGraph graph = BuildStep(job, workload).graph;
  TaskCosts costs(graph.work_count());
  for (const TaskId t : AllIds<TaskId>(graph.task_count())) {
    const auto* kernel = std::get_if<ComputeWork>(&graph.work(t));
    const auto* exchange = std::get_if<CollectiveWork>(&graph.work(t));
    const double time =
        kernel != nullptr ? kernel->flops.value : static_cast<double>(exchange->bytes.value);
    costs[graph.work_id(t)].isolated = kVecUnit * static_cast<std::int64_t>(time);
  }
  Timeline timeline = Simulate(graph, costs);
  return {std::move(graph), std::move(timeline)};
}

// Two layers, exchanges of 4. F0 alone: 4 + 4 + 3 + 4 = 15 a layer, so the pair begins at 30.
//
//   first pair    exchanges: combine' 0-4, dispatch 4-8, dispatch' 9-13, combine 13-17
//                 compute:   attention 0-4, mlp' 4-9 (3 + 2), mlp 9-12, attention' 13-20 (4 + 3)
//   second pair   the same 20 later: attention waits for compute (20), combine' for attention'
//
// (a dash: of the backward). B1 alone from 70: 4 + 5 + 4 + 7 = 20 a layer.
TEST(PairedStep, ExchangesRunBesideTheOtherMicrobatch) {
  const SimulatedStep run = RunStepOf(TwoMicrobatches(), Layers(2, 4));
  EXPECT_THAT(run.Starts("attention.forward", 1), ElementsAre(30, 50));
  EXPECT_THAT(run.Starts("dispatch a2a", 1), ElementsAre(34, 54, 79, 99));
  EXPECT_THAT(run.Starts("mlp.forward", 1), ElementsAre(39, 59));
  EXPECT_THAT(run.Starts("combine a2a", 1), ElementsAre(43, 63, 70, 90));
  EXPECT_THAT(run.Starts("mlp.dgrad", 0), ElementsAre(34, 54));
  EXPECT_THAT(run.Starts("mlp.wgrad", 0), ElementsAre(37, 57));
  EXPECT_THAT(run.Starts("attention.dgrad", 0), ElementsAre(43, 63));
  EXPECT_EQ(run.makespan(), 30 + 40 + 40);
}

// Weight gradients behind: dispatch' waits for the input gradient alone.
//
//   first pair    exchanges: combine' 0-4, dispatch 4-8, dispatch' 8-12, combine 12-16
//                 compute:   attention 0-4, mlp' 4-7, weights 7-9, mlp 9-12, attention' 12-16,
//                            weights 16-19
//   second pair   exchanges: combine' 16-20, dispatch 23-27, dispatch' 27-31, combine 31-35
//                 compute:   attention 19-23, mlp' 23-26, weights 26-28, mlp 28-31,
//                            attention' 31-35, weights 35-38
//
// B1 alone from 68: combine' 0-4, mlp' 4-7, dispatch' 7-11 beside weights 7-9, attention' 11-15,
// weights 15-18 beside combine' 15-19; 19-22, 22-26, 26-30, weights 30-33.
TEST(PairedStep, DelayedWeightGradientsHideMore) {
  JobSpec job = TwoMicrobatches();
  job.plan.expert.delay_weight_gradients = true;
  const SimulatedStep run = RunStepOf(job, Layers(2, 4));
  EXPECT_THAT(run.Starts("attention.forward", 1), ElementsAre(30, 49));
  EXPECT_THAT(run.Starts("mlp.wgrad", 0), ElementsAre(37, 56));
  EXPECT_THAT(run.Starts("dispatch a2a", 0), ElementsAre(4, 19, 38, 57));
  EXPECT_THAT(run.Starts("attention.dgrad", 0), ElementsAre(42, 61));
  EXPECT_THAT(run.Starts("attention.wgrad", 0), ElementsAre(46, 65));
  EXPECT_THAT(run.Starts("attention.wgrad", 1), ElementsAre(83, 98));
  EXPECT_EQ(run.makespan(), 30 + 38 + 33);
}

JobSpec Unpaired(JobSpec job) {
  job.plan.expert.overlap_microbatches = false;
  return job;
}

// By name of the stream's kind: units of time that it works.
std::map<bool, double> Work(const TaskGraph& graph) {
  std::map<bool, double> work;
  for (const TaskId t : AllIds<TaskId>(graph.task_count())) {
    const auto* kernel = std::get_if<ComputeWork>(&graph.work(t));
    const auto* exchange = std::get_if<CollectiveWork>(&graph.work(t));
    work[kernel != nullptr] +=
        kernel != nullptr ? kernel->flops.value : static_cast<double>(exchange->bytes.value);
  }
  return work;
}

// All in a row is one order of what the pair does: with dependencies and streams a part of that
// order's, it cannot take longer. What is done is the same.
TEST(PairedStep, NeverTakesLongerAndDoesTheSame) {
  for (const int layers : {1, 2, 5}) {
    for (const int exchange : {0, 1, 3, 20}) {
      for (const bool delays : {false, true}) {
        for (const std::int64_t microbatches : {1, 2, 4}) {
          JobSpec job = TwoMicrobatches();
          job.batch.gradient_accumulation_steps = microbatches;
          job.plan.expert.delay_weight_gradients = delays;
          const SimulatedStep pairs = RunStepOf(job, Layers(layers, exchange));
          const SimulatedStep row = RunStepOf(Unpaired(job), Layers(layers, exchange));
          EXPECT_EQ(Work(pairs.graph), Work(row.graph));
          const std::int64_t compute =
              microbatches * layers * (2 * (kAttention + kMlp) + kAttentionWeights + kMlpWeights);
          EXPECT_EQ(row.makespan(), compute + microbatches * layers * 4 * exchange);
          EXPECT_GE(pairs.makespan(), compute);
          if (exchange == 0 || (microbatches == 1 && !delays)) {
            EXPECT_EQ(pairs.makespan(), row.makespan());  // nothing to hide, nothing to hide behind
          } else if (microbatches > 1) {
            EXPECT_LT(pairs.makespan(), row.makespan());
          }
        }
      }
    }
  }
}

// One hardware queue starts kernels in launch order, whatever their stream: then what was launched
// behind an exchange that waits does not start before it. The other one is no faster.
TEST(PairedStep, OneHardwareQueueTakesOverlapAway) {
  JobSpec job = TwoMicrobatches();
  const SimulatedStep wide = RunStepOf(job, Layers(3, 4));
  job.host.max_connections = 1;
  EXPECT_GE(RunStepOf(job, Layers(3, 4)).makespan(), wide.makespan());
}

}  // namespace
}  // namespace stepsim
