// DDP's steps, built by the strategy and run by the engine, against the start times of the worked
// schedules of tests/data/schedules.vec and the rules of models/README.md, "DDP".
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "models/parallel/build_step.h"
#include "sim/engine/simulate.h"
#include "sim/metrics/accounting.h"
#include "tests/support/vec.h"

namespace stepsim {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

struct LayerOfTest {
  std::string name;
  std::int64_t gradient_mib = 0;  // 0: no parameter
  int forward = 0;
  int backward = 0;
};

// One unit and one operator a layer; FLOPs count the units of time.
Workload WorkloadOf(const std::vector<LayerOfTest>& layers) {
  Workload workload;
  for (const LayerOfTest& layer : layers) {
    Operator op;
    op.name = "op";
    op.forward = {.compute_class = ComputeClass::kGemm, .flops = {double(layer.forward)}};
    if (layer.backward > 0) {
      op.backward_weight = {
          {.compute_class = ComputeClass::kGemm, .flops = {double(layer.backward)}}};
    }
    if (layer.gradient_mib > 0) {
      op.parameters_ready = {static_cast<std::int32_t>(workload.parameters.size())};
      workload.parameters.push_back({layer.name, layer.gradient_mib * kMiB / 4, DType::kFp32});
    }
    workload.units.push_back({layer.name, {op}});
  }
  return workload;
}

// L0, L1, L2 with gradients of 10, 30, 2 MiB and the loss.
Workload ThreeLayers() {
  return WorkloadOf({{"L0", 10, 10, 20}, {"L1", 30, 10, 20}, {"L2", 2, 10, 20}, {"loss", 0, 5, 0}});
}

JobSpec JobOf(DdpPlan plan) {
  JobSpec job;
  job.gpus_per_node = 2;
  job.host.launch = Duration{};  // the schedules have no host
  job.plan.ddp = std::move(plan);
  job.optimizer = OptimizerKind::kSgd;
  return job;
}

// Compute takes its FLOPs, a copy or cast 1, the optimizer 5, a collective its MiB (rounded up).
TaskCosts CostsOf(const TaskGraph& graph) {
  TaskCosts costs(graph.work_count());
  for (const TaskId t : AllIds<TaskId>(graph.task_count())) {
    std::int64_t units = 1;
    if (const auto* work = std::get_if<ComputeWork>(&graph.work(t)); work != nullptr) {
      if (work->flops.value > 0) units = static_cast<std::int64_t>(work->flops.value);
      if (graph.label(t).name == "optimizer") units = 5;
    } else if (const auto* collective = std::get_if<CollectiveWork>(&graph.work(t))) {
      units = (collective->bytes.value + kMiB - 1) / kMiB;
    }
    costs[graph.work_id(t)].isolated = kVecUnit * units;
  }
  return costs;
}

struct StepRun {
  TaskGraph graph;
  Timeline timeline;
  std::int64_t makespan = 0;
  std::vector<std::pair<std::string, std::int64_t>> starts;  // by label, in host order
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& [name, start] : starts) names.push_back(name);
    return names;
  }
  std::int64_t Start(const std::string& name) const {
    const auto found = std::find_if(starts.begin(), starts.end(),
                                    [&](const auto& entry) { return entry.first == name; });
    EXPECT_NE(found, starts.end()) << name;
    return found == starts.end() ? -1 : found->second;
  }
};

StepRun RunJob(const JobSpec& job, const Workload& workload) {
  TaskGraph graph = BuildStep(job, workload).graph;
  const TaskCosts costs = CostsOf(graph);
  Timeline timeline = Simulate(graph, costs);
  for (const RankId r : AllIds<RankId>(graph.rank_count())) {  // the identity, in every run
    AccountRank(graph, costs, timeline, r, {kStepBegin, timeline.makespan});
  }
  StepRun run{std::move(graph), std::move(timeline), 0, {}};
  run.makespan = run.timeline.makespan.time_since_epoch() / kVecUnit;
  for (const TaskId t : AllIds<TaskId>(run.graph.task_count())) {
    run.starts.emplace_back(run.graph.label(t).name,
                            run.timeline.start[t].time_since_epoch() / kVecUnit);
  }
  return run;
}

VecExample Example(const std::string& name) {
  return ReadVecExample(STEPSIM_SOURCE_DIR "/tests/data/schedules.vec", name);
}

// Compares a run with an example whose lines are the run's tasks, in host order.
void ExpectLineByLine(const StepRun& run, const VecExample& example) {
  ASSERT_EQ(run.starts.size(), example.lines.size());
  for (std::size_t i = 0; i < run.starts.size(); ++i) {
    EXPECT_EQ(run.starts[i].second, example.expected.start.at(example.lines[i].id))
        << run.starts[i].first << " is line " << example.lines[i].op;
  }
  EXPECT_EQ(run.makespan, example.expected.makespan);
}

TEST(Ddp, SteadyStateMatchesTheSpecification) {
  ExpectLineByLine(RunJob(JobOf({.bucket_cap_mb = 1}), ThreeLayers()), Example("ddp-steady"));
}

TEST(Ddp, FirstIterationMatchesTheSpecification) {
  ExpectLineByLine(RunJob(JobOf({.iteration = TrainingIteration::kFirst}), ThreeLayers()),
                   Example("ddp-first-iteration"));
}

// L1's gradient arrives before L2's although L2 was registered later: built as at construction
// (find_unused_parameters), bucket 1 is complete but must wait for bucket 0. The example's forward
// is one line; the usage map comes on top of it and is left out of the comparison.
TEST(Ddp, BucketsLaunchStrictlyInOrder) {
  Workload workload = ThreeLayers();
  std::swap(workload.units[1], workload.units[2]);  // executed L0 L2 L1: L1 arrives first
  const DdpPlan plan{.bucket_cap_mb = 1, .find_unused_parameters = true};
  const StepRun run = RunJob(JobOf(plan), workload);
  const auto expected = Example("ddp-strict-order").expected.start;
  EXPECT_EQ(run.Start("L1.op.wgrad"), expected.at("b1"));
  EXPECT_EQ(run.Start("scale_copy L1"), expected.at("k1"));
  EXPECT_EQ(run.Start("L2.op.wgrad"), expected.at("b2"));
  EXPECT_EQ(run.Start("scale_copy L2"), expected.at("k2"));
  EXPECT_EQ(run.Start("all_reduce bucket 1/3 (L2)"), expected.at("r2"));
  EXPECT_EQ(run.Start("all_reduce bucket 2/3 (L1)"), expected.at("r1"));
  EXPECT_EQ(run.Start("all_reduce bucket 3/3 (L0)"), expected.at("r0"));
  EXPECT_EQ(run.Start("copy_back L2"), expected.at("u2"));
  EXPECT_EQ(run.Start("copy_back L1"), expected.at("u1"));
  EXPECT_EQ(run.Start("copy_back L0"), expected.at("u0"));
  EXPECT_EQ(run.Start("optimizer"), expected.at("op"));
}

// "micro-step 1 is forward, loss, B2, B1, B0 on C with no copy kernels and no traffic; micro-step 2
// is ddp-steady", plus autograd's own addition into .grad (one unit a gradient here).
TEST(Ddp, NoSyncReducesInTheLastMicrostepOnly) {
  JobSpec job = JobOf({.bucket_cap_mb = 1});
  job.batch.gradient_accumulation_steps = 2;
  const StepRun run = RunJob(job, ThreeLayers());
  const auto collectives =
      std::count_if(run.starts.begin(), run.starts.end(),
                    [](const auto& entry) { return entry.first.rfind("all_reduce", 0) == 0; });
  EXPECT_EQ(collectives, 3);
  for (const TaskId t : AllIds<TaskId>(run.graph.task_count())) {
    if (run.graph.kind(t) == TaskKind::kTransfer) {
      EXPECT_EQ(run.graph.position(t).microstep, 1);
    }
  }
  // 95 = one forward, loss and backward; 123 = ddp-steady; 2 additions before the last all_reduce
  // of the critical path (g2 and g1; g0's precedes a bucket that is queued until 30 + 2 later).
  EXPECT_EQ(run.makespan, 95 + 123 + 2);
}

TEST(Ddp, WithoutNoSyncEveryMicrostepReduces) {
  JobSpec job = JobOf({.bucket_cap_mb = 1, .no_sync = false});
  job.batch.gradient_accumulation_steps = 2;
  const StepRun run = RunJob(job, ThreeLayers());
  EXPECT_EQ(std::count_if(run.starts.begin(), run.starts.end(),
                          [](const auto& e) { return e.first.rfind("all_reduce", 0) == 0; }),
            6);
}

// With the view .grad is the bucket: no copies back, the optimizer follows the last all_reduce.
TEST(Ddp, BucketViewSavesTheCopyBack) {
  const StepRun run =
      RunJob(JobOf({.bucket_cap_mb = 1, .gradient_as_bucket_view = true}), ThreeLayers());
  for (const auto& [name, start] : run.starts) EXPECT_NE(name.rfind("copy_back", 0), 0u) << name;
  EXPECT_EQ(run.Start("optimizer"), 107 + 10);  // r0 of ddp-steady ends at 117
}

// Cast on the compute stream, half the bytes on the wire, cast back on the hook's stream.
// Gradients of L2, L1 and L0 arrive 21 units apart (backward of 20, one copy); their all_reduces
// take 2, 30 and 10. With two threads the third bucket goes to the first one, which is free; in one
// queue it waits for the second bucket, 9 units more.
TEST(Ddp, GlooTakesBucketsInTurn) {
  JobSpec job = JobOf({.bucket_cap_mb = 1, .gradient_as_bucket_view = true});
  job.collectives.model = CollectiveModel::kGloo;
  const StepRun two = RunJob(job, ThreeLayers());
  job.collectives.gloo_threads = 1;
  const StepRun one = RunJob(job, ThreeLayers());
  const std::string second = "all_reduce bucket 2/3 (L1)", third = "all_reduce bucket 3/3 (L0)";
  EXPECT_EQ(two.Start(second), one.Start(second));
  EXPECT_EQ(two.Start(third), two.Start(second) + 21);
  EXPECT_EQ(one.Start(third), one.Start(second) + 30);
  job.collectives.model = CollectiveModel::kNccl;
  EXPECT_EQ(RunJob(job, ThreeLayers()).starts, one.starts);
}

TEST(Ddp, CompressHookHalvesTheWire) {
  const StepRun run =
      RunJob(JobOf({.bucket_cap_mb = 1, .comm_hook = CommHook::kBf16Compress}), ThreeLayers());
  std::vector<std::int64_t> bytes;
  for (const TaskId t : AllIds<TaskId>(run.graph.task_count())) {
    if (const auto* work = std::get_if<CollectiveWork>(&run.graph.work(t))) {
      EXPECT_EQ(work->dtype, DType::kBf16);
      bytes.push_back(work->bytes.value);
    }
  }
  EXPECT_THAT(bytes, testing::ElementsAre(kMiB, 15 * kMiB, 5 * kMiB));
  // b2 35..55, k2 55, compress 56, all_reduce of 1 at 57, decompress at 58 beside b1.
  EXPECT_EQ(run.Start("all_reduce bucket 1/3 (L2)"), 57);
  EXPECT_EQ(run.Start("decompress bucket 1/3 (L2)"), 58);
  EXPECT_EQ(run.Start("L1.op.wgrad"), 57);
}

// The hook casts 2 MiB of fp32 (read 2, write 1) and divides the result in place (read 1, write 1).
// The 16-bit copy is there until it has been cast back.
TEST(Ddp, CompressHookCastsThenDivides) {
  const StepRun run =
      RunJob(JobOf({.comm_hook = CommHook::kFp16Compress}), WorkloadOf({{"L", 2, 10, 20}}));
  Bytes transient;
  for (const TaskId t : AllIds<TaskId>(run.graph.task_count())) {
    if (run.graph.label(t).name != "compress bucket 1/1 (L)") continue;
    const auto& work = std::get<ComputeWork>(run.graph.work(t));
    EXPECT_EQ(work.bytes, Bytes{5 * kMiB});
    EXPECT_EQ(work.kernels, 2);
  }
  for (const MemoryEvent& event : run.graph.memory_events()) {
    if (run.graph.memory_categories()[event.category] != "compressed_buckets") continue;
    if (event.delta.value > 0) {
      EXPECT_EQ(event.delta, Bytes{kMiB});
    }
    transient += event.delta;
  }
  EXPECT_EQ(transient, Bytes{0});
}

// A bf16 gradient needs no cast for bf16_compress: one division in place, nothing to cast back.
TEST(Ddp, CompressHookLeavesTheTypeOfTheWireAlone) {
  Workload workload = WorkloadOf({{"L", 2, 10, 20}});
  workload.parameters[0].dtype = DType::kBf16;
  const StepRun run = RunJob(JobOf({.comm_hook = CommHook::kBf16Compress}), workload);
  EXPECT_THAT(run.Names(), testing::Not(testing::Contains(testing::HasSubstr("decompress"))));
  for (const TaskId t : AllIds<TaskId>(run.graph.task_count())) {
    if (run.graph.label(t).name != "compress bucket 1/1 (L)") continue;
    EXPECT_EQ(std::get<ComputeWork>(run.graph.work(t)).bytes, Bytes{2 * kMiB});  // 1 MiB in bf16
  }
}

// Copies back and casts behind a collective belong to no phase of the network.
TEST(Ddp, WhatFollowsACollectiveIsNoBackward) {
  const StepRun run =
      RunJob(JobOf({.bucket_cap_mb = 1, .comm_hook = CommHook::kFp16Compress}), ThreeLayers());
  int count = 0;
  for (const TaskId t : AllIds<TaskId>(run.graph.task_count())) {
    const Label& label = run.graph.label(t);
    const bool follows =
        label.name.rfind("copy_back", 0) == 0 || label.name.rfind("decompress", 0) == 0;
    if (!follows) continue;
    EXPECT_EQ(label.phase, Phase::kOther) << label.name;
    ++count;
  }
  EXPECT_EQ(count, 6);
}

// Iteration 1 of a static graph: usage map, all copies, all buckets, after the whole backward.
TEST(Ddp, StaticGraphDelaysTheFirstIteration) {
  const StepRun run =
      RunJob(JobOf({.static_graph = true, .iteration = TrainingIteration::kFirst}), ThreeLayers());
  EXPECT_EQ(run.Start("all_reduce usage map"), 95);  // end of backward
  EXPECT_EQ(run.Start("scale_copy L0"), 95);         // copies run beside it
  EXPECT_EQ(run.Start("all_reduce bucket 1/1 (L1 +2)"), 98);
}

// One extra int32 all_reduce, a number per parameter, follows the last bucket.
TEST(Ddp, UsageMapFollowsTheLastBucket) {
  const StepRun run =
      RunJob(JobOf({.bucket_cap_mb = 1, .find_unused_parameters = true}), ThreeLayers());
  std::string last;
  for (const TaskId t : AllIds<TaskId>(run.graph.task_count())) {
    if (const auto* work = std::get_if<CollectiveWork>(&run.graph.work(t))) {
      last = run.graph.label(t).name;
      if (last == "all_reduce usage map") {
        EXPECT_EQ(work->bytes, Bytes{12});  // three parameters
      }
    }
  }
  EXPECT_EQ(last, "all_reduce usage map");
}

// The map is issued with the last bucket, not at the end of backward: L0's gradient is the last
// one, but an input layer without parameters computes on behind it. The optimizer waits for the
// map.
TEST(Ddp, UsageMapDoesNotWaitForTheRestOfBackward) {
  const Workload workload = WorkloadOf({{"in", 0, 10, 20}, {"L0", 2, 10, 20}});
  JobSpec job = JobOf({.gradient_as_bucket_view = true, .find_unused_parameters = true});
  const StepRun run = RunJob(job, workload);
  // forward 20, L0 backward 20..40, copy 40, bucket 41..43, map (rounded up to 1) 43..44
  EXPECT_EQ(run.Start("all_reduce bucket 1/1 (L0)"), 41);
  EXPECT_EQ(run.Start("all_reduce usage map"), 43);
  EXPECT_EQ(run.Start("optimizer"), 61);  // backward of "in" ends
}

TEST(Ddp, TheOptimizerWaitsForTheUsageMap) {
  const StepRun run = RunJob(
      JobOf({.bucket_cap_mb = 1, .gradient_as_bucket_view = true, .find_unused_parameters = true}),
      ThreeLayers());
  EXPECT_EQ(run.Start("all_reduce usage map"), 117);  // r0 of ddp-steady ends
  EXPECT_EQ(run.Start("optimizer"), 118);
}

// One bucket sequence per dtype, launched over the common list in closing order.
TEST(Ddp, MixedDtypesShareOneLaunchOrder) {
  Workload workload = ThreeLayers();
  workload.parameters[1].dtype = DType::kBf16;  // L1: half the bytes
  const StepRun run = RunJob(JobOf({.bucket_cap_mb = 100}), workload);
  std::vector<std::string> collectives;
  for (const std::string& name : run.Names()) {
    if (name.rfind("all_reduce", 0) == 0) collectives.push_back(name);
  }
  // Both stay open to the end of backward and follow in order of first use: fp32 (L2), bf16 (L1).
  EXPECT_THAT(collectives,
              testing::ElementsAre("all_reduce bucket 1/2 (L0 +1)", "all_reduce bucket 2/2 (L1)"));
}

// Buffers go out before the forward in pieces of 250 MiB, and compute waits for them.
TEST(Ddp, BuffersAreBroadcastBeforeTheForward) {
  Workload workload = ThreeLayers();
  workload.buffers = Bytes{300 * kMiB};
  const StepRun run = RunJob(JobOf({.bucket_cap_mb = 1}), workload);
  EXPECT_EQ(run.Start("L0.op.forward"), 300);
  const StepRun without = RunJob(JobOf({.bucket_cap_mb = 1, .broadcast_buffers = false}), workload);
  EXPECT_EQ(without.Start("L0.op.forward"), 0);
}

// "The forward after a no_sync forward skips the buffer broadcast."
TEST(Ddp, AccumulationBroadcastsBuffersOnce) {
  Workload workload = ThreeLayers();
  workload.buffers = Bytes{kMiB};
  JobSpec job = JobOf({.bucket_cap_mb = 1});
  job.batch.gradient_accumulation_steps = 3;
  const auto names = RunJob(job, workload).Names();
  EXPECT_EQ(std::count(names.begin(), names.end(), "broadcast buffers"), 1);
  job.plan.ddp.no_sync = false;
  const auto synced = RunJob(job, workload).Names();
  EXPECT_EQ(std::count(synced.begin(), synced.end(), "broadcast buffers"), 3);
}

// Unfolded, every replica is there and meets the others; identical replicas change no time.
TEST(Ddp, UnfoldedReplicasAgreeWithTheFoldedRank) {
  JobSpec job = JobOf({.bucket_cap_mb = 1});
  const StepRun folded = RunJob(job, ThreeLayers());
  EXPECT_EQ(folded.graph.rank_info(RankId{0}).stands_for, 2);
  job.simulate.all_ranks = true;
  const StepRun all = RunJob(job, ThreeLayers());
  EXPECT_EQ(all.graph.rank_count(), 2u);
  EXPECT_EQ(all.graph.rendezvous_count(), 3u);
  EXPECT_EQ(all.graph.task_count(), 2 * folded.graph.task_count());
  EXPECT_EQ(all.makespan, folded.makespan);
}

// A second step follows the first on the same streams.
TEST(Ddp, ConsecutiveStepsRepeat) {
  JobSpec job = JobOf({.bucket_cap_mb = 1});
  job.simulate.steps = 2;
  EXPECT_EQ(RunJob(job, ThreeLayers()).makespan, 2 * 123);
}

// A launch of 40 units a kernel starves the stream: the step is bound by the host.
TEST(Ddp, SlowLaunchesMakeTheStepHostBound) {
  JobSpec job = JobOf({.bucket_cap_mb = 1});
  const TaskGraph graph = BuildStep(job, ThreeLayers(), HostThread::kLaunches).graph;
  TaskCosts costs = CostsOf(graph);
  std::int64_t launches = 0;
  for (const TaskId t : AllIds<TaskId>(graph.task_count())) {
    if (graph.kind(t) != TaskKind::kHost) continue;
    costs[graph.work_id(t)].isolated = kVecUnit * 40;
    ++launches;
  }
  const Timeline timeline = Simulate(graph, costs);
  // Every kernel is shorter than 40: the last one (the optimizer, 5) starts when it is launched.
  EXPECT_EQ(timeline.makespan, kStepBegin + kVecUnit * (40 * launches + 5));
  const RankAccount account =
      AccountRank(graph, costs, timeline, RankId{0}, {kStepBegin, timeline.makespan});
  EXPECT_GT(account.host, account.compute);
  EXPECT_EQ(account.idle, Duration::zero());
}

}  // namespace
}  // namespace stepsim
