// What holds for every step, whatever the job? A few hundred random jobs each.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "models/parallel/ddp_buckets.h"
#include "models/run_step.h"
#include "models/workload/workload.h"
#include "tests/support/random_job.h"
#include "tests/support/shipped.h"

namespace stepsim {
namespace {

using testing::RandomJob;

constexpr std::uint64_t kJobs = 200;

void ForEachJob(const std::function<void(ResolvedJob)>& check) {
  for (std::uint64_t seed = 0; seed < kJobs; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ASSERT_NO_THROW(check(RandomJob(seed)));
    if (::testing::Test::HasFailure()) return;  // one job is enough to look at
  }
}

Duration StepOf(const ResolvedJob& job) { return RunStep(job).report.account().step; }

bool UsesDdp(const JobSpec& job) { return job.plan.strategy == "ddp"; }

// The sum and the number of tasks for which `counts` holds.
struct Total {
  Duration time{};
  std::int64_t tasks = 0;
  Duration rounding() const { return Duration{tasks}; }  // each is rounded up to a picosecond
};
Total TotalOf(const StepResult& result, const std::function<bool(TaskId)>& counts) {
  Total total;
  for (const TaskId t : AllIds<TaskId>(result.graph.task_count())) {
    if (!counts(t)) continue;
    total.time += result.timeline.end[t] - result.timeline.start[t];
    ++total.tasks;
  }
  return total;
}
Total OnStream(const StepResult& result, const std::string& name) {
  return TotalOf(result, [&](TaskId t) {
    return result.graph.stream(result.graph.streams(t).front()).name == name;
  });
}

TEST(Step, EveryPicosecondIsAccountedFor) {
  ForEachJob([](ResolvedJob job) {
    job.job.contention = ContentionMode::kFull;
    const StepReport report = RunStep(job).report;
    testing::ExpectIdentity(report);
    for (const RankAccount& rank : report.ranks) {
      EXPECT_LE(rank.exposed_total(), rank.profiler_exposed);
      EXPECT_LE(rank.profiler_exposed, rank.communication);
      EXPECT_LE(rank.communication, rank.step);
    }
  });
}

// The same over several steps, with a host that launches, on every rank.
TEST(Step, EveryPicosecondIsAccountedForInLongRuns) {
  for (std::uint64_t seed = 0; seed < kJobs; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ResolvedJob job = testing::RandomJobWithHost(seed);
    job.job.simulate.steps = 1 + static_cast<std::int64_t>(seed % 3);
    job.job.simulate.all_ranks = job.job.gpus() <= 4;
    const StepResult result = RunStep(job);
    testing::ExpectIdentity(result.report);
    testing::ExpectPathTilesStep(result.graph, result.timeline, result.report);
  }
}

TEST(Step, MicroStepsTileIt) {
  ForEachJob([](const ResolvedJob& job) {
    const StepReport report = RunStep(job).report;
    Duration sum{};
    for (const MicrostepReport& microstep : report.microsteps) sum += microstep.account.step;
    EXPECT_EQ(sum, report.account().step);
  });
}

// No GPU computes faster than its peak. A transformer executes at least what the "causal"
// convention counts.
TEST(Step, UtilisationStaysBelowOne) {
  ForEachJob([](const ResolvedJob& job) {
    const StepReport report = RunStep(job).report;
    EXPECT_LE(Hfu(report), 1);
    EXPECT_GE(Hfu(report), 0);
    if (std::holds_alternative<TransformerSpec>(job.job.model.network)) {
      EXPECT_LE(Mfu(report, "causal"), Hfu(report));
    }
  });
}

TEST(Step, IsTheSumOfComputeWithoutCommunication) {
  ForEachJob([](ResolvedJob job) {
    job.job.plan.strategy = "none";
    const StepResult result = RunStep(job);
    EXPECT_EQ(result.report.account().step, OnStream(result, "compute").time);
    EXPECT_EQ(result.report.account().step, result.report.account().compute);
  });
}

// The same with DDP when the network costs nothing; a hook casts back on a stream of its own, which
// may or may not overlap.
TEST(Step, IsTheSumOfComputeWhenCommunicationIsFree) {
  ForEachJob([](ResolvedJob job) {
    for (LinkSpec* link : {&job.job.hardware.intra_node, &job.job.hardware.network.link}) {
      link->bandwidth = {1e30};
      link->latency = {};
    }
    job.job.collectives.model = CollectiveModel::kAlphaBeta;  // NCCL's calls have a fixed part
    const StepResult result = RunStep(job);
    const Duration compute = OnStream(result, "compute").time;
    EXPECT_GE(result.report.account().step, compute);
    EXPECT_LE(result.report.account().step, compute + OnStream(result, "nccl dp").rounding() +
                                                OnStream(result, "comm hook").time);
  });
}

TEST(Step, IsTheCommunicationWhenComputeIsFree) {
  ForEachJob([](ResolvedJob job) {
    GpuSpec& gpu = job.job.hardware.gpu;
    gpu.peak = {{1e30}, {1e30}, {1e30}, {1e30}, {1e30}};
    gpu.hbm_bandwidth = {1e30};
    gpu.kernel_latency = {};
    const StepResult result = RunStep(job);
    const Total communication = OnStream(result, "nccl dp");
    const auto kernels = static_cast<std::int64_t>(result.graph.task_count()) - communication.tasks;
    EXPECT_EQ(result.report.account().communication, communication.time);
    EXPECT_GE(result.report.account().step, communication.time);
    EXPECT_LE(result.report.account().step, communication.time + Duration{kernels});
  });
}

TEST(Step, IsNeverSlowerOnBetterHardware) {
  struct Improvement {
    const char* name;
    void (*apply)(HardwareSpec&);
  };
  const Improvement improvements[] = {
      {"links inside the node", [](HardwareSpec& h) { h.intra_node.bandwidth.value *= 2; }},
      {"network", [](HardwareSpec& h) { h.network.link.bandwidth.value *= 2; }},
      {"adapters", [](HardwareSpec& h) { h.network.nics_per_node *= 2; }},
      {"latency inside", [](HardwareSpec& h) { h.intra_node.latency /= 2; }},
      {"latency of the network", [](HardwareSpec& h) { h.network.link.latency /= 2; }},
      {"memory", [](HardwareSpec& h) { h.gpu.hbm_bandwidth.value *= 2; }},
      {"gemm", [](HardwareSpec& h) { h.gpu.gemm_efficiency = 1; }},
      {"attention", [](HardwareSpec& h) { h.gpu.attention_efficiency = 1; }},
      {"kernels", [](HardwareSpec& h) { h.gpu.kernel_latency /= 2; }},
  };
  ForEachJob([&](const ResolvedJob& job) {
    const Duration before = StepOf(job);
    for (const Improvement& improvement : improvements) {
      ResolvedJob better = job;
      improvement.apply(better.job.hardware);
      EXPECT_LE(StepOf(better), before) << improvement.name;
    }
  });
}

// Replicas are alike: one rank tells the whole story.
TEST(Step, FoldedRankIsEveryRank) {
  ForEachJob([](ResolvedJob job) {
    if (job.job.gpus() > 8) return;
    job.job.contention = ContentionMode::kFull;
    const RankAccount folded = RunStep(job).report.account();
    job.job.simulate.all_ranks = true;
    const StepReport all = RunStep(job).report;
    ASSERT_EQ(static_cast<std::int64_t>(all.ranks.size()), job.job.gpus());
    for (const RankAccount& rank : all.ranks) {
      EXPECT_EQ(rank.step, folded.step);
      EXPECT_EQ(rank.compute, folded.compute);
      EXPECT_EQ(rank.exposed, folded.exposed);
      EXPECT_EQ(rank.communication, folded.communication);
      EXPECT_EQ(rank.peer_wait, Duration::zero());
    }
  });
}

// ---- DDP ----

DType WireType(const JobSpec& job, DType gradient) {
  switch (job.plan.ddp.comm_hook) {
    case CommHook::kFp16Compress:
      return DType::kFp16;
    case CommHook::kBf16Compress:
      return DType::kBf16;
    case CommHook::kNone:
      break;
  }
  return gradient;
}

// Every parameter crosses the wire once in each micro-step that reduces, in the hook's type.
TEST(Ddp, ReducesTheBytesOfTheParameters) {
  ForEachJob([](const ResolvedJob& job) {
    if (!UsesDdp(job.job)) return;
    const StepResult result = RunStep(job);
    Bytes sent;
    for (const TaskId t : AllIds<TaskId>(result.graph.task_count())) {
      const auto* work = std::get_if<CollectiveWork>(&result.graph.work(t));
      const bool is_gradient = work != nullptr && work->op == CollectiveOp::kAllReduce &&
                               work->dtype != DType::kInt32;  // the usage map
      if (is_gradient) sent += work->bytes;
    }
    Bytes expected;
    for (const ParameterTensor& p : BuildWorkload(job.job).parameters) {
      expected += SizeOf(WireType(job.job, p.dtype), p.elements);
    }
    const bool every_microstep = !job.job.plan.ddp.no_sync;
    EXPECT_EQ(sent,
              every_microstep ? expected * job.job.batch.gradient_accumulation_steps : expected);
  });
}

TEST(Ddp, PutsEachParameterIntoOneBucket) {
  ForEachJob([](const ResolvedJob& job) {
    const Workload workload = BuildWorkload(job.job);
    std::vector<int> seen(workload.parameters.size(), 0);
    for (const Bucket& bucket : PlanBuckets(job.job.plan.ddp, workload)) {
      EXPECT_FALSE(bucket.parameters.empty());
      Bytes bytes;
      for (const std::int32_t p : bucket.parameters) {
        const ParameterTensor& parameter = workload.parameters[static_cast<std::size_t>(p)];
        EXPECT_EQ(parameter.dtype, bucket.dtype);
        bytes += parameter.bytes();
        ++seen[static_cast<std::size_t>(p)];
      }
      EXPECT_EQ(bytes, bucket.bytes);
    }
    EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), static_cast<std::int64_t>(seen.size()));
  });
}

// A view saves at most the second copy of the gradients, and the copies back.
TEST(Ddp, ViewsSaveTheBuckets) {
  ForEachJob([](ResolvedJob job) {
    if (!UsesDdp(job.job)) return;
    job.job.plan.ddp.gradient_as_bucket_view = false;
    const StepReport copies = RunStep(job).report;
    job.job.plan.ddp.gradient_as_bucket_view = true;
    const StepReport views = RunStep(job).report;
    EXPECT_LE(views.memory.allocated, copies.memory.allocated);
    EXPECT_GE(views.memory.allocated + BuildWorkload(job.job).parameter_bytes(),
              copies.memory.allocated);
    EXPECT_LE(views.account().step, copies.account().step);
  });
}

// More micro-steps under no_sync add compute, not communication.
TEST(Ddp, NoSyncReducesOnce) {
  ForEachJob([](ResolvedJob job) {
    if (!UsesDdp(job.job)) return;
    job.job.plan.ddp.no_sync = true;
    job.job.batch.gradient_accumulation_steps = 1;
    const RankAccount one = RunStep(job).report.account();
    job.job.batch.gradient_accumulation_steps = 3;
    const StepReport three = RunStep(job).report;
    EXPECT_EQ(three.account().communication, one.communication);
    EXPECT_GE(three.account().step, one.step);
    for (const MicrostepReport& microstep : three.microsteps) {
      EXPECT_TRUE(!microstep.is_reducing || microstep.microstep == 2);
    }
  });
}

}  // namespace
}  // namespace stepsim
