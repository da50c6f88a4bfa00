// Tensor parallelism as the workload has it and the runner launches it, against the start times of
// tests/data/schedules.vec and the volumes of its reference (5.4, 5.8).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/published_models.h"
#include "tests/support/sharded_traffic.h"

namespace stepsim {
namespace {

using namespace testing_sharded;

constexpr std::int64_t kB = 4, kS = 1024, kH = 768, kLayers = 12, kRanks = 4;
constexpr std::int64_t kStream = 2 * kS * kB * kH;  // bytes of s b h

JobSpec Gpt(bool sequence = true) {
  JobSpec job = testing::JobOf(testing::Gpt2(), kB, kS);
  job.gpus_per_node = kRanks;
  job.kernels = KernelMode::kFused;
  job.plan.strategy = "megatron";
  job.plan.clip_gradients = false;
  job.plan.tensor_parallel = kRanks;
  job.plan.tensor.sequence_parallel = sequence;
  job.host.launch = Duration::zero();
  return job;
}

// A layer of the example: its operators take what the example says, others no time.
struct Priced {
  std::int64_t forward = 0, input = 0, weight = 0;
};
const std::map<std::string, Priced> kExample = {
    {"norm1", {1, 2, 0}}, {"qkv", {6, 6, 6}},      {"attention", {5, 12, 0}},
    {"proj", {3, 3, 3}},  {"dropout1", {0, 1, 0}}, {"residual1", {1, 0, 0}},
    {"norm2", {1, 1, 0}}, {"fc1", {8, 8, 8}},      {"activation", {2, 2, 0}},
    {"fc2", {8, 8, 8}},   {"dropout2", {0, 1, 0}}, {"residual2", {1, 0, 0}},
};

// The layer of the real workload, with its exchanges, priced as the example is.
Workload ExampleLayer(const JobSpec& job) {
  Workload workload = BuildWorkload(job);
  const ModelUnit layer = workload.units[1];
  workload.units = {layer};
  workload.parameters.clear();  // what happens to gradients is not part of the example
  const auto work = [](std::int64_t units) {
    return std::vector<ComputeWork>(units > 0 ? 1 : 0, {.compute_class = ComputeClass::kGemm,
                                                        .flops = {static_cast<double>(units)}});
  };
  for (Operator& op : workload.units[0].operators) {
    const Priced& priced = kExample.at(op.name);
    op.forward = {.compute_class = ComputeClass::kGemm,
                  .flops = {static_cast<double>(priced.forward)}};
    op.backward_input = work(priced.input);
    op.backward_weight = work(priced.weight);
    op.parameters_ready.clear();
  }
  return workload;
}

const Durations kDurations{
    .gather = 4,
    .reduce_scatter = 4,
    .all_reduce = 8,
    .free = {"layers.0.dropout1.forward", "layers.0.dropout2.forward", "optimizer"}};

// Lines of the example by the names of tasks here.
void ExpectStarts(const StepRun& run, const VecExample& example, std::int64_t begin,
                  const std::map<std::string, std::string>& names) {
  ASSERT_EQ(names.size(), example.lines.size());
  for (const auto& [id, name] : names) {
    EXPECT_EQ(run.Start("layers.0." + name) - begin, example.expected.start.at(id)) << name;
  }
}

TEST(TensorParallel, ForwardMatchesTheSpecification) {
  const JobSpec job = Gpt();
  const StepRun run = RunJob(job, ExampleLayer(job), kDurations);
  ExpectStarts(run, Example("megatron-tp-sp-forward"), 0,
               {{"n1", "norm1.forward"},
                {"a1", "qkv all_gather x"},
                {"qk", "qkv.forward"},
                {"at", "attention.forward"},
                {"pr", "proj.forward"},
                {"s1", "proj reduce_scatter y"},
                {"d1", "residual1.forward"},
                {"n2", "norm2.forward"},
                {"a2", "fc1 all_gather x"},
                {"f1", "fc1.forward"},
                {"ac", "activation.forward"},
                {"f2", "fc2.forward"},
                {"s2", "fc2 reduce_scatter y"},
                {"d2", "residual2.forward"}});
}

// Backward follows the 52 of forward; "x" is gathered again in it.
TEST(TensorParallel, BackwardMatchesTheSpecification) {
  const JobSpec job = Gpt();
  StepRun run = RunJob(job, ExampleLayer(job), kDurations);
  const auto is_forward = [](const auto& start) { return start.second < 52; };
  run.starts.erase(std::remove_if(run.starts.begin(), run.starts.end(), is_forward),
                   run.starts.end());
  ExpectStarts(run, Example("megatron-tp-sp-backward"), 52,
               {{"d2", "dropout2.dgrad"},
                {"g2", "fc2 all_gather dy"},
                {"f2d", "fc2.dgrad"},
                {"f2w", "fc2.wgrad"},
                {"ac", "activation.dgrad"},
                {"x2", "fc1 all_gather x"},
                {"f1d", "fc1.dgrad"},
                {"s2", "fc1 reduce_scatter dx"},
                {"f1w", "fc1.wgrad"},
                {"n2", "norm2.dgrad"},
                {"g1", "proj all_gather dy"},
                {"prd", "proj.dgrad"},
                {"prw", "proj.wgrad"},
                {"at", "attention.dgrad"},
                {"x1", "qkv all_gather x"},
                {"qkd", "qkv.dgrad"},
                {"s1", "qkv reduce_scatter dx"},
                {"qkw", "qkv.wgrad"},
                {"n1", "norm1.dgrad"}});
}

// Exposed: what nothing computes beside. With sequence parallelism 2 x (all_gather +
// reduce_scatter) in forward, and the two gathers of dy in backward; the other two pairs of
// backward hide behind products that take longer.
TEST(TensorParallel, ExposesTwoPairsInForwardAndTwoGathersInBackward) {
  const JobSpec job = Gpt();
  const StepRun run = RunJob(job, ExampleLayer(job), kDurations);
  EXPECT_EQ(ExposedUnits(run, kDurations, Site::kTensorParallel), 4 * 4 + 2 * 4);
}

// Without the overlap of Megatron's asynchronous input gradients, all of them are exposed:
// 2 x (all_gather + reduce_scatter) forward, 4 all_gathers and 2 reduce_scatters backward. Without
// sequence parallelism: two all_reduces each way.
TEST(TensorParallel, TwoCollectivesPerLayerAndDirectionExposed) {
  JobSpec job = Gpt();
  job.plan.tensor.async_input_gradient = false;
  StepRun run = RunJob(job, ExampleLayer(job), kDurations);
  EXPECT_EQ(ExposedUnits(run, kDurations, Site::kTensorParallel), (4 + 6) * 4);
  job.plan.tensor.sequence_parallel = false;
  run = RunJob(job, ExampleLayer(job), kDurations);
  EXPECT_EQ(ExposedUnits(run, kDurations, Site::kTensorParallel), (2 + 2) * 8);
}

// ---- Fused with their products ----

// A product of 20 units on four ranks beside the exchange of 12.
Workload OneProduct(ExchangePlace place, CollectiveOp collective) {
  Operator op;
  op.name = "fc";
  op.forward = {.compute_class = ComputeClass::kGemm, .flops = {20}};
  op.exchanges = {{place, ExchangeAxis::kTensor, collective, DType::kBf16, Bytes{4 * 12}, "x"}};
  Workload workload;
  workload.units = {{"unit", {op}, {}}};
  return workload;
}

JobSpec Overlapped(TensorOverlap overlap) {
  JobSpec job = Gpt();
  job.plan.tensor.overlap = overlap;
  return job;
}

// The example's: a pull and the copy of the own shard take 3, a barrier 1, the sum 2.
StepRun RunFused(const JobSpec& job, const Workload& workload) {
  TaskGraph graph = BuildStep(job, workload).graph;
  TaskCosts costs(graph.work_count());
  const auto ends_with = [](const std::string& name, const std::string& end) {
    return name.size() >= end.size() &&
           name.compare(name.size() - end.size(), end.size(), end) == 0;
  };
  for (const TaskId t : AllIds<TaskId>(graph.task_count())) {
    const std::string& name = graph.label(t).name;
    const auto* kernel = std::get_if<ComputeWork>(&graph.work(t));
    std::int64_t units = 0;
    if (ends_with(name, " barrier")) units = 1;
    if (ends_with(name, " pull") || ends_with(name, " send") || ends_with(name, " memory")) {
      units = 3;
    }
    if (ends_with(name, " sum")) units = 2;
    if (kernel != nullptr && kernel->flops.value > 0) {
      units = static_cast<std::int64_t>(kernel->flops.value);
    }
    if (ends_with(name, " x")) units = 4;
    costs[graph.work_id(t)].isolated = kVecUnit * units;
  }
  Timeline timeline = Simulate(graph, costs);
  StepRun run{std::move(graph), std::move(timeline), 0, {}};
  run.makespan = run.timeline.makespan.time_since_epoch() / kVecUnit;
  for (const TaskId t : AllIds<TaskId>(run.graph.task_count())) {
    const TaskId task = t;
    const auto* kernel = std::get_if<ComputeWork>(&run.graph.work(task));
    const bool is_optimizer = kernel != nullptr && run.graph.label(task).name == "optimizer";
    if (is_optimizer) continue;
    run.starts.emplace_back(run.graph.label(task).name,
                            run.timeline.start[task].time_since_epoch() / kVecUnit);
  }
  return run;
}

TEST(AsyncTensor, GatherMatchesTheSpecification) {
  const StepRun run = RunFused(Overlapped(TensorOverlap::kAsync),
                               OneProduct(ExchangePlace::kBeforeForward, CollectiveOp::kAllGather));
  ExpectLineByLine(run, Example("async-tp-ag-matmul-n4"));
}

TEST(AsyncTensor, ScatterMatchesTheSpecification) {
  const StepRun run =
      RunFused(Overlapped(TensorOverlap::kAsync),
               OneProduct(ExchangePlace::kAfterForward, CollectiveOp::kReduceScatter));
  ExpectLineByLine(run, Example("async-tp-matmul-rs-n4"));
}

// What backward reads again is made as well: the own shard is copied twice.
TEST(AsyncTensor, KeepsTheGatheredInputOfDTensor) {
  JobSpec job = Overlapped(TensorOverlap::kAsync);
  job.plan.tensor.regather_input = false;
  const StepRun run =
      RunFused(job, OneProduct(ExchangePlace::kBeforeForward, CollectiveOp::kAllGather));
  EXPECT_EQ(run.Count("unit.fc.forward own shard"), 1);
}

// Four parts of 5 while parts of 3 travel: the product is never kept waiting, 4 x 5.
TEST(UserBuffers, RingHidesEveryTransfer) {
  const StepRun run = RunFused(Overlapped(TensorOverlap::kUserBuffers),
                               OneProduct(ExchangePlace::kBeforeForward, CollectiveOp::kAllGather));
  EXPECT_EQ(run.Count("unit.fc.forward send"), 3);
  EXPECT_EQ(run.Start("unit.fc.forward 0"), 0);
  EXPECT_EQ(run.Start("unit.fc.forward 1"), 3);  // on the next stream, as soon as it is here
  EXPECT_EQ(run.Start("unit.fc.forward 3"), 9);
}

// Rows in four parts, three streams for the products, the collectives in order on one.
TEST(UserBuffers, PipelineReducesPartsInOrder) {
  const StepRun run =
      RunFused(Overlapped(TensorOverlap::kUserBuffers),
               OneProduct(ExchangePlace::kAfterForward, CollectiveOp::kReduceScatter));
  std::vector<std::int32_t> sms;
  std::int64_t bytes = 0;
  for (const CollectiveWork& work : CollectivesOf(run, Site::kTensorParallel)) {
    sms.push_back(work.sms);
    bytes += work.bytes.value;
  }
  EXPECT_EQ(sms, (std::vector<std::int32_t>{16, 16, 16, 32}));
  EXPECT_EQ(bytes, 4 * 12);
}

TEST(UserBuffers, BulkCollectivesHoldSixteenSms) {
  JobSpec job = Overlapped(TensorOverlap::kUserBuffers);
  const StepRun run = RunJob(job, ExampleLayer(job), kDurations);
  std::int64_t bulk = 0;
  for (const TaskId t : AllIds<TaskId>(run.graph.task_count())) {
    const auto* work = std::get_if<CollectiveWork>(&run.graph.work(t));
    const std::string& name = run.graph.label(t).name;
    const bool is_beside =
        name == "layers.0.qkv all_gather x" || name == "layers.0.qkv reduce_scatter dx" ||
        name == "layers.0.fc1 all_gather x" || name == "layers.0.fc1 reduce_scatter dx";
    if (!is_beside) continue;
    EXPECT_EQ(work->sms, 16) << name;
    ++bulk;
  }
  EXPECT_EQ(bulk, 4);
  EXPECT_EQ(run.Count("layers.0.proj reduce_scatter y"), 0);  // in four parts
}

// ---- Volumes of a whole step, as nccl-tests counts them ----

std::int64_t Sent(const StepRun& run, CollectiveOp op) {
  return BytesOf(run, op, Site::kTensorParallel);
}

// Per layer 2 + 4 gathers and 2 + 2 reduce_scatters of s b h; the embedding's one gather of its
// gradient (its position table wants the sum whole: an all_reduce); the head gathers twice and
// scatters once. Three numbers per token in fp32, and the gradients of what is replicated.
TEST(TensorParallel, VolumesOfAStepWithSequenceParallelism) {
  const JobSpec job = Gpt();
  const StepRun run = RunJob(job, BuildWorkload(job), kDurations);
  EXPECT_EQ(Sent(run, CollectiveOp::kAllGather), (6 * kLayers + 1 + 2) * kStream);
  EXPECT_EQ(Sent(run, CollectiveOp::kReduceScatter), (4 * kLayers + 1) * kStream);
  // Norms and biases: 4 h + 2 h of a layer, 2 h of the last norm; main gradients are fp32.
  const std::int64_t replicated = (6 * kLayers + 2) * kH * 4;
  EXPECT_EQ(Sent(run, CollectiveOp::kAllReduce), kStream + 3 * 4 * kS * kB + replicated);
}

TEST(TensorParallel, VolumesOfAStepWithoutIt) {
  const JobSpec job = Gpt(/*sequence=*/false);
  const StepRun run = RunJob(job, BuildWorkload(job), kDurations);
  EXPECT_EQ(Sent(run, CollectiveOp::kAllGather), 0);
  EXPECT_EQ(Sent(run, CollectiveOp::kReduceScatter), 0);
  EXPECT_EQ(Sent(run, CollectiveOp::kAllReduce), (4 * kLayers + 1 + 1) * kStream + 3 * 4 * kS * kB);
}

// Full recomputation repeats forward's 2 + 2; that of attention none.
TEST(TensorParallel, RecomputationRepeatsTheCollectivesOfForward) {
  JobSpec job = Gpt();
  job.recompute.granularity = RecomputeGranularity::kFull;
  job.recompute.early_stop = false;
  StepRun run = RunJob(job, BuildWorkload(job), kDurations);
  EXPECT_EQ(Sent(run, CollectiveOp::kAllGather), (8 * kLayers + 3) * kStream);
  EXPECT_EQ(Sent(run, CollectiveOp::kReduceScatter), (6 * kLayers + 1) * kStream);
  job.recompute.granularity = RecomputeGranularity::kSelective;
  run = RunJob(job, BuildWorkload(job), kDurations);
  EXPECT_EQ(Sent(run, CollectiveOp::kAllGather), (6 * kLayers + 3) * kStream);
}

// Replicas of the network sum each part's gradients among those that hold it: one in four GPUs.
TEST(TensorParallel, DataParallelGroupsHoldOnePart) {
  JobSpec job = Gpt();
  job.gpus_per_node = 16;
  job.plan.data_parallel = 4;
  const StepRun run = RunJob(job, BuildWorkload(job), kDurations);
  const std::vector<CollectiveWork> reductions = CollectivesOf(run, Site::kGradientReduce);
  ASSERT_FALSE(reductions.empty());
  const std::vector<std::int32_t> apart = {0, 4, 8, 12};
  EXPECT_EQ(run.graph.group(reductions[0].group).ranks, apart);
}

}  // namespace
}  // namespace stepsim
