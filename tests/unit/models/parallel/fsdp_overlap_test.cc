// Which gathers and reductions does FSDP hide, and what decides it? Exact durations, no contention.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/sharded_step.h"

namespace stepsim {
namespace {

using namespace testing_sharded;

JobSpec Fsdp2(Fsdp2Plan plan = {}, int microsteps = 1) {
  JobSpec job = JobWith("fsdp2");
  job.plan.fsdp2 = std::move(plan);
  job.batch.gradient_accumulation_steps = microsteps;
  return job;
}

// Copies cost nothing, so that what is left are gathers, reductions and layers.
Durations WithFreeCopies(std::int64_t gather, std::int64_t reduce_scatter) {
  Durations durations;
  durations.gather = gather;
  durations.reduce_scatter = reduce_scatter;
  durations.free = {"divide", "copy_in", "copy_out", "pack", "reshard"};
  return durations;
}

std::vector<std::int64_t> StartsOf(const StepRun& run, const std::string& name) {
  std::vector<std::int64_t> starts;
  for (const auto& [label, start] : run.starts) {
    if (label == name) starts.push_back(start);
  }
  return starts;
}

// Of the second pass: a group is gathered once for each.
std::int64_t StartInBackward(const StepRun& run, const std::string& name) {
  return StartsOf(run, name).back();
}

// Between the end of one layer's backward, which takes 20, and the start of the next one's.
std::int64_t GapBehind(const StepRun& run, int layer) {
  const auto backward = [&](int l) {
    return run.Start("layers." + std::to_string(l) + ".op.wgrad");
  };
  return backward(layer - 1) - (backward(layer) + 20);
}

// Backward without prefetch: kernels, reduction, gather, kernels, ... one after the other.
TEST(FsdpOverlap, DepthZeroAlternates) {
  constexpr std::int64_t kGather = 7, kReduce = 9;
  const StepRun run =
      RunJob(Fsdp2({.backward_prefetch = 0}), ThreeLayers(), WithFreeCopies(kGather, kReduce));
  for (int layer = 2; layer > 0; --layer) {
    const std::string name = "layers." + std::to_string(layer);
    const std::string next = "layers." + std::to_string(layer - 1);
    const std::int64_t end = run.Start(name + ".op.wgrad") + 20;
    EXPECT_EQ(run.Start("reduce_scatter " + name), end);
    EXPECT_EQ(StartInBackward(run, "all_gather " + next), end + kReduce);
    EXPECT_EQ(run.Start(next + ".op.wgrad"), end + kReduce + kGather);
  }
  // The last layer's second gather runs under forward. Before backward: the root's gather, 2, the
  // first gather's rest, 30, 4, 8. Bare: two reductions and gathers, layers.0's reduction, which
  // the root's waits for, and the root's.
  EXPECT_EQ(run.makespan, (7 + 2 + 5 + 30 + 4 + 8) + 3 * 20 + 2 * (9 + 7) + 9 + 9 + 5);
}

TEST(FsdpOverlap, Fsdp1WithoutPrefetchAlternates) {
  JobSpec job = JobWith("fsdp1");
  job.plan.fsdp1.backward_prefetch = BackwardPrefetch::kNone;
  const StepRun run = RunJob(job, ThreeLayers(), WithFreeCopies(7, 9));
  for (int layer = 2; layer > 0; --layer) EXPECT_EQ(GapBehind(run, layer), 9 + 7);
}

// One group ahead: the gather starts with the backward before and is hidden if that takes as long.
TEST(FsdpOverlap, DepthOneHidesWhatFitsUnderOneLayer) {
  for (std::int64_t gather = 15; gather <= 25; ++gather) {
    const StepRun run =
        RunJob(Fsdp2({.separate_reduce_group = true}), ThreeLayers(), WithFreeCopies(gather, 3));
    for (int layer = 2; layer > 0; --layer) {
      EXPECT_EQ(GapBehind(run, layer), std::max<std::int64_t>(0, gather - 20)) << gather;
    }
  }
}

// On one communicator the reduction of the layer before goes first: both have to fit.
TEST(FsdpOverlap, OnOneCommunicatorTheReductionGoesFirst) {
  for (std::int64_t gather = 5; gather <= 15; ++gather) {
    const StepRun run = RunJob(Fsdp2(), ThreeLayers(), WithFreeCopies(gather, 10));
    EXPECT_EQ(GapBehind(run, 1), std::max<std::int64_t>(0, 10 + gather - 20)) << gather;
  }
}

// A reduction longer than the next layer's backward stops compute: one input in flight.
TEST(FsdpOverlap, ComputeWaitsForTheReductionBefore) {
  for (const std::int64_t reduce : {19, 20, 21, 30}) {
    const StepRun run =
        RunJob(Fsdp2({.separate_reduce_group = true}), ThreeLayers(), WithFreeCopies(1, reduce));
    const std::int64_t between =
        run.Start("reduce_scatter layers.1") - run.Start("reduce_scatter layers.2");
    EXPECT_EQ(between, std::max<std::int64_t>(20, reduce));
  }
}

// Layers of 30 and 5 in turn, gathers of 10: one ahead leaves 5 bare behind each short layer; two
// ahead none, for one more gathered buffer.
TEST(FsdpOverlap, DepthTradesMemoryForExposure) {
  const Workload uneven = WorkloadOf({{"embedding", 1, 1},
                                      {"layers.0", 30, 30},
                                      {"layers.1", 30, 5},
                                      {"layers.2", 30, 30},
                                      {"layers.3", 30, 5},
                                      {"layers.4", 30, 30}});
  const auto run = [&](std::int64_t depth) {
    return RunJob(Fsdp2({.backward_prefetch = depth, .separate_reduce_group = true}), uneven,
                  WithFreeCopies(10, 1));
  };
  const StepRun one = run(1), two = run(2);
  EXPECT_EQ(one.makespan - two.makespan, 2 * (10 - 5));
  const auto buffers = [](const StepRun& step) {
    const std::int64_t at = step.Start("layers.2.op.wgrad") + 25;  // its gathers are done
    return MemoryOf(step).At(at, "gather_buffers") / (kElements * 4);
  };
  EXPECT_EQ(buffers(one), 1);
  EXPECT_EQ(buffers(two), 2);
}

// Forward needs no prefetch on a host that is ahead; gathering further ahead only holds more. What
// is issued before layer i waits for the copy-out of layer i - 1: so in the forward of i there are
// the outputs of the two layers behind it, and with n named ahead, of n + 1; one named is no
// change.
TEST(FsdpOverlap, ForwardPrefetchHoldsMoreOnAFastHost) {
  const Workload six = WorkloadOf({{"embedding", 2, 4},
                                   {"layers.0", 10, 20},
                                   {"layers.1", 10, 20},
                                   {"layers.2", 10, 20},
                                   {"layers.3", 10, 20},
                                   {"layers.4", 10, 20},
                                   {"layers.5", 10, 20},
                                   {"head", 4, 8}});
  const auto outputs = [](const StepRun& run) {
    const std::int64_t at = run.Start("layers.1.op.forward") + 9;
    return MemoryOf(run).At(at, "gather_buffers") / (kElements * 4);
  };
  const Durations durations = WithFreeCopies(3, 3);
  const StepRun none = RunJob(Fsdp2(), six, durations);
  EXPECT_EQ(outputs(none), 2);
  for (const std::int64_t named : {1, 2, 3}) {
    const StepRun ahead = RunJob(Fsdp2({.forward_prefetch = named}), six, durations);
    EXPECT_EQ(ahead.makespan, none.makespan) << named;
    EXPECT_EQ(outputs(ahead), named + 1) << named;
  }
}

// Through the process group's own stream a gather waits for all that compute was given before: it
// runs behind the layer that it could have run beside (nccl-async-from-compute).
TEST(FsdpOverlap, AsyncUnshardStandsBehindCompute) {
  const StepRun run =
      RunJob(Fsdp2({.unshard_async_op = true}), ThreeLayers(), WithFreeCopies(6, 1));
  for (const int layer : {1, 2}) {
    const std::string name = "layers." + std::to_string(layer);
    const std::int64_t before =
        run.Start("layers." + std::to_string(layer - 1) + ".op.forward") + 10;
    EXPECT_EQ(StartsOf(run, "all_gather " + name).front(), before);
    EXPECT_EQ(run.Start(name + ".op.forward"), before + 6);
  }
  // Gathers launched ahead of the layer's kernels run beside them again.
  const StepRun ahead = RunJob(Fsdp2({.forward_prefetch = 1, .unshard_async_op = true}),
                               ThreeLayers(), WithFreeCopies(6, 1));
  EXPECT_EQ(ahead.Start("layers.2.op.forward"), ahead.Start("layers.1.op.forward") + 10);
}

// A copy kept over 4 of 8 ranks has a communicator of its own: its gathers do not queue behind the
// reductions, so that even without prefetch they run under the layer before.
TEST(FsdpOverlap, ReshardOverFewRanksHasItsOwnCommunicator) {
  const StepRun run = RunJob(Fsdp2({.reshard_after_forward = "4", .backward_prefetch = 0}),
                             ThreeLayers(), WithFreeCopies(6, 9));
  for (int layer = 2; layer > 0; --layer) EXPECT_EQ(GapBehind(run, layer), 0);
}

// is_last_backward=False: the next forward begins beside the root's reduction (of 9).
TEST(FsdpOverlap, OnlyTheLastBackwardHasToWait) {
  const Fsdp2Plan kept{.reshard_after_forward = "false", .reshard_after_backward = false};
  Fsdp2Plan early = kept;
  early.is_last_backward = false;
  const Durations durations = WithFreeCopies(6, 9);
  const StepRun waits = RunJob(Fsdp2(kept, 2), ThreeLayers(), durations);
  const StepRun goes_on = RunJob(Fsdp2(early, 2), ThreeLayers(), durations);
  EXPECT_EQ(waits.makespan - goes_on.makespan, 9);
}

// A checkpoint of one layer recomputes inside its group: parameters are there. One of two layers
// runs the earlier one's forward with its hooks: gathered, freed, and gathered again for its
// backward.
TEST(FsdpOverlap, RecomputationGathersOnlyAcrossGroups) {
  const auto checkpoint = [](Workload workload, std::int32_t first, std::int32_t last) {
    Rerun rerun{{last, 0}, {}};
    for (std::int32_t unit = first; unit <= last; ++unit) rerun.steps.push_back({{unit, 0}, {}});
    workload.reruns.push_back(rerun);
    return workload;
  };
  for (const std::string strategy : {"fsdp1", "fsdp2"}) {
    JobSpec job = Fsdp2();
    job.plan.strategy = strategy;
    const StepRun inside = RunJob(job, checkpoint(ThreeLayers(), 2, 2));
    EXPECT_EQ(inside.Count("layers.1.op.recompute"), 1);
    EXPECT_EQ(inside.Count("all_gather"), 2 * 3 + 1) << strategy;
    ExpectMemoryReturns(inside);
    const StepRun across = RunJob(job, checkpoint(ThreeLayers(), 1, 2));
    EXPECT_EQ(across.Count("all_gather layers.0"), 3) << strategy;
    EXPECT_EQ(across.Count("all_gather"), 2 * 3 + 1 + 1) << strategy;
    ExpectMemoryReturns(across);
    job.plan.ideal = true;
    const StepRun ideal = RunJob(job, checkpoint(ThreeLayers(), 1, 2));
    EXPECT_LE(ideal.makespan, across.makespan) << strategy;
    EXPECT_EQ(ideal.Count("all_gather"), 2 * 3 + 1) << strategy;
    ExpectMemoryReturns(ideal);
  }
}

// All the gathers of the step stand in one row from its begin: compute waits for the first only.
TEST(FsdpOverlap, IdealWaitsForNothingButTheLinks) {
  JobSpec job = Fsdp2();
  job.plan.ideal = true;
  const StepRun run = RunJob(job, ThreeLayers(), WithFreeCopies(6, 6));
  const std::vector<std::string> order = {"root",     "layers.0", "layers.1", "layers.2",
                                          "layers.2", "layers.1", "layers.0"};
  std::vector<std::string> gathers;
  for (const auto& [label, start] : run.starts) {
    if (label.rfind("all_gather ", 0) != 0) continue;
    EXPECT_EQ(start, 6 * static_cast<std::int64_t>(gathers.size())) << label;
    gathers.push_back(label.substr(11));
  }
  EXPECT_EQ(gathers, order);
  // The root's gather, then 2; layer 0's is there at 12. Then no gap but the root's reduction.
  EXPECT_EQ(run.makespan, 12 + 30 + 4 + 8 + 60 + 4 + 6 + 5 + /*layers.0's reduction goes first*/ 2);
}

}  // namespace
}  // namespace stepsim
