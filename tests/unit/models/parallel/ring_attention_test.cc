// Attention over a ring of ranks, against schedules worked out by hand from the reference (5.6): a
// step takes 10, a correction or a sum of outputs or gradients 1, keys and values of one rank
// `keys` on their way, with their gradients twice that.
#include "models/parallel/ring_attention.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/support/published_models.h"
#include "tests/support/sharded_traffic.h"

namespace stepsim {
namespace {

using namespace testing_sharded;
using Times = std::vector<std::int64_t>;

struct RingRun {
  std::int64_t makespan = 0;
  Times steps, transfers;  // begins
};

AttentionSteps Attention(std::int64_t ring, bool gathers = false, bool is_balanced = true) {
  const AttentionShape shape{1, 64 * ring, 4, 4, 64, true};
  return {{1, ring, gathers}, is_balanced, shape, DType::kBf16};
}

std::int64_t TimeOf(const Work& work, const AttentionSteps& attention, std::int64_t keys) {
  if (const auto* kernel = std::get_if<ComputeWork>(&work)) {
    return kernel->compute_class == ComputeClass::kAttention ? 10 : 1;
  }
  return std::get<CollectiveWork>(work).bytes.value / attention.keys().value * keys;
}

RingRun RunRing(const AttentionSteps& attention, std::int64_t keys, bool is_forward,
                std::int64_t place) {
  TaskGraphBuilder builder;
  Meetings meetings(std::vector<std::int32_t>{0});
  const GroupId group = builder.AddGroup({"cp", "context parallel", {0, 1, 2, 3}});
  RankProgram rank(builder, meetings, builder.AddRank({}), {});
  RingAttention ring(rank, rank.AddStream("nccl cp"), group, place);
  if (is_forward) {
    ring.Forward(attention, "attention", ".forward");
  } else {
    ring.Backward(attention, "attention");
  }
  const TaskGraph graph = std::move(builder).Build();
  TaskCosts costs(graph.work_count());
  for (const WorkId w : AllIds<WorkId>(graph.work_count())) {
    costs[w].isolated = kVecUnit * TimeOf(graph.work(w), attention, keys);
  }
  const Timeline timeline = Simulate(graph, costs);
  RingRun run;
  run.makespan = timeline.makespan.time_since_epoch() / kVecUnit;
  for (const TaskId t : AllIds<TaskId>(graph.task_count())) {
    const std::int64_t start = timeline.start[t].time_since_epoch() / kVecUnit;
    const auto* kernel = std::get_if<ComputeWork>(&graph.work(t));
    if (kernel == nullptr) {
      run.transfers.push_back(start);
    } else if (kernel->compute_class == ComputeClass::kAttention) {
      run.steps.push_back(start);
    }
  }
  return run;
}

RingRun Forward(std::int64_t ring, std::int64_t keys) {
  return RunRing(Attention(ring), keys, true, 0);
}
RingRun Backward(std::int64_t ring, std::int64_t keys) {
  return RunRing(Attention(ring), keys, false, 0);
}

// Two steps, the last correction, two sums of outputs: 10 + 10 + 1 + 2.
TEST(RingAttention, OfTwoHidesKeysBehindAStep) {
  const RingRun hidden = Forward(2, 10);
  EXPECT_EQ(hidden.steps, (Times{0, 10}));
  EXPECT_EQ(hidden.transfers, (Times{0}));
  EXPECT_EQ(hidden.makespan, 23);
  const RingRun exposed = Forward(2, 15);
  EXPECT_EQ(exposed.steps, (Times{0, 15}));
  EXPECT_EQ(exposed.makespan, 28);
}

// The second transfer is posted once the first has come, beside a step that has not begun; the
// third on the first stream, behind the correction of step 0.
TEST(RingAttention, OfFour) {
  const RingRun hidden = Forward(4, 6);
  EXPECT_EQ(hidden.steps, (Times{0, 10, 20, 30}));
  EXPECT_EQ(hidden.transfers, (Times{0, 6, 12}));
  EXPECT_EQ(hidden.makespan, 45);
  EXPECT_EQ(Forward(4, 1).transfers, (Times{0, 1, 11}));
  const RingRun exposed = Forward(4, 12);
  EXPECT_EQ(exposed.steps, (Times{0, 12, 24, 36}));
  EXPECT_EQ(exposed.transfers, (Times{0, 12, 24}));
  EXPECT_EQ(exposed.makespan, 51);
}

// Hidden if and only if a transfer takes no longer than a step.
TEST(RingAttention, HidesUpToTheLengthOfAStep) {
  for (const std::int64_t ring : {2, 4, 8}) {
    const std::int64_t alone = 10 * ring + 1 + ring;
    EXPECT_EQ(Forward(ring, 10).makespan, alone) << ring;
    EXPECT_EQ(Forward(ring, 11).makespan, alone + ring - 1) << ring;
  }
}

// Step, sum of dq, wait, sum of dk and dv: keys alone first, gradients alone last.
TEST(RingAttention, BackwardOfTwo) {
  const RingRun hidden = Backward(2, 4);
  EXPECT_EQ(hidden.steps, (Times{0, 12}));
  EXPECT_EQ(hidden.transfers, (Times{0, 12}));
  EXPECT_EQ(hidden.makespan, 24);
  const RingRun exposed = Backward(2, 15);
  EXPECT_EQ(exposed.transfers, (Times{0, 16}));
  EXPECT_EQ(exposed.makespan, 32);
}

// In between both travel: 12 for keys and gradients against 11 of compute.
TEST(RingAttention, BackwardOfFour) {
  const RingRun run = Backward(4, 6);
  EXPECT_EQ(run.transfers, (Times{0, 12, 25, 38}));
  EXPECT_EQ(run.steps, (Times{0, 12, 25, 38}));
  EXPECT_EQ(run.makespan, 50);
}

// Two pieces on two streams. Forward: the first one's copy runs beside the second. Backward: the
// sums of dk and dv follow each other.
TEST(RingAttention, OfGatheredKeysIsTwoPieces) {
  const RingRun forward = RunRing(Attention(4, /*gathers=*/true), 0, true, 0);
  EXPECT_EQ(forward.steps, (Times{0, 10}));
  EXPECT_TRUE(forward.transfers.empty());
  EXPECT_EQ(forward.makespan, 21);
  const RingRun backward = RunRing(Attention(4, /*gathers=*/true), 0, false, 0);
  EXPECT_EQ(backward.steps, (Times{0, 10}));
  EXPECT_EQ(backward.makespan, 22);
}

// Not balanced: rank 0 of four has one step to compute, and sends on what it gets all the same.
TEST(RingAttention, EarlyRanksSkipStepsWithoutBalance) {
  const RingRun first = RunRing(Attention(4, false, false), 6, true, 0);
  EXPECT_EQ(first.steps, (Times{0}));
  EXPECT_EQ(first.transfers, (Times{0, 6, 12}));
  const RingRun last = RunRing(Attention(4, false, false), 6, true, 3);
  EXPECT_EQ(last.steps, (Times{0, 10, 20, 30}));
}

// ---- Whole steps ----

JobSpec Job(ContextExchange type) {
  TransformerSpec spec = testing::Gpt2();
  spec.layers = 3;
  spec.positions = PositionKind::kRotary;
  spec.dropout = 0;
  spec.heads = 8;
  spec.kv_heads = 4;
  spec.head_dim = 64;
  spec.hidden_size = 512;
  JobSpec job = testing::JobOf(spec, 2, 2048);
  job.precision = {DType::kBf16, DType::kBf16};
  job.gpus_per_node = 8;
  job.plan.strategy = "ddp";
  job.plan.context_parallel = 4;
  job.plan.context.comm_type = type;
  job.plan.clip_gradients = false;
  job.host.launch = Duration::zero();
  return job;
}

constexpr std::int64_t kKeys = 2 * (2 * 2 * 512 * 4 * 64);  // k and v of a rank's 512 tokens

std::int64_t SentInRing(const JobSpec& job) {
  return BytesOf(RunJob(job, BuildWorkload(job)), CollectiveOp::kSendRecv, Site::kContextParallel);
}

// (cp - 1) times keys and values forward; backward the same for them and for their gradients.
TEST(ContextParallel, RingVolume) {
  EXPECT_EQ(SentInRing(Job(ContextExchange::kP2p)), 3 * (3 + 6) * kKeys);
}

// Recomputation repeats forward's exchange.
TEST(ContextParallel, RecomputationRepeatsTheExchange) {
  for (const auto granularity : {RecomputeGranularity::kFull, RecomputeGranularity::kSelective}) {
    JobSpec job = Job(ContextExchange::kP2p);
    job.recompute.granularity = granularity;
    EXPECT_EQ(SentInRing(job), 3 * (2 * 3 + 6) * kKeys);
  }
}

// Parameters are the same on all: gradients are summed over data and context parallel ranks.
TEST(ContextParallel, GradientsAreSummedOverAllCopies) {
  const JobSpec job = Job(ContextExchange::kAllToAll);
  const StepRun run = RunJob(job, BuildWorkload(job));
  for (const CollectiveWork& work : CollectivesOf(run, Site::kGradientReduce)) {
    EXPECT_EQ(run.graph.group(work.group).ranks.size(), 8u);
  }
  for (const CollectiveWork& work : CollectivesOf(run, Site::kContextParallel)) {
    EXPECT_EQ(run.graph.group(work.group).ranks, (std::vector<std::int32_t>{0, 1, 2, 3}));
  }
}

TEST(ContextParallel, MemoryReturns) {
  for (const auto type : {ContextExchange::kP2p, ContextExchange::kAllGather,
                          ContextExchange::kAllToAll, ContextExchange::kAllToAllP2p}) {
    const JobSpec job = Job(type);
    ExpectMemoryReturns(RunJob(job, BuildWorkload(job)));
  }
}

}  // namespace
}  // namespace stepsim
