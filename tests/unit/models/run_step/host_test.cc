// The host in whole steps: a tiny network is launch-bound, a large one does not notice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "models/cost/host_cost.h"
#include "models/parallel/build_step.h"
#include "models/parallel/ddp_buckets.h"
#include "models/run_step.h"
#include "models/workload/workload.h"
#include "sim/base/diagnostics.h"
#include "sim/base/units.h"
#include "sim/report/writer.h"
#include "tests/support/shipped.h"

namespace stepsim {
namespace {

using std::chrono::microseconds;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// Kernels of a few microseconds: 32 tokens through four narrow layers.
ResolvedJob Tiny(const std::vector<std::string>& sets = {}) {
  return testing::LoadText(
      "model: {name: tiny, transformer: {layers: 4, hidden_size: 64, heads: 2, ffn_size: 256, "
      "vocab_size: 1000, tied_embeddings: true, positions: rotary, norm: layer_norm}}\n"
      "hardware: a100-80g-dgx\n"
      "batch: {micro_batch_size: 1, sequence_length: 32}\n"
      "precision: {compute: bf16, parameters: bf16}\n",
      sets);
}
ResolvedJob TinyAlone(std::vector<std::string> sets = {}) {
  sets.insert(sets.begin(), {"plan.strategy=none", "gpus_per_node=1"});
  return Tiny(sets);
}

StepReport ReportOf(const ResolvedJob& job) {
  StepReport report = RunStep(job).report;
  testing::ExpectIdentity(report);
  return report;
}
Duration StepOf(const ResolvedJob& job) { return ReportOf(job).account().step; }

// Every kernel of forward and backward, counted from the network's description.
std::int64_t NetworkKernels(const JobSpec& job) {
  std::int64_t kernels = 0;
  for (const ModelUnit& unit : BuildWorkload(job).units) {
    for (const Operator& op : unit.operators) {
      kernels += op.forward.kernels;
      for (const ComputeWork& work : op.backward_input) kernels += work.kernels;
      for (const ComputeWork& work : op.backward_weight) kernels += work.kernels;
    }
  }
  return kernels;
}

std::int64_t OptimizerKernels(const JobSpec& job) {
  const TaskGraph graph = BuildStep(job, BuildWorkload(job)).graph;
  std::int64_t kernels = 0;
  for (const TaskId t : AllIds<TaskId>(graph.task_count())) {
    if (graph.label(t).phase != Phase::kOptimizer) continue;
    kernels += std::get<ComputeWork>(graph.work(t)).kernels;
  }
  return kernels;
}

std::int64_t Kernels(const JobSpec& job) { return NetworkKernels(job) + OptimizerKernels(job); }

// The last stage of a pipeline has the head and the loss: where its host is late, all ranks are.
TEST(Host, OfTheBusiestStageSetsThePace) {
  const ResolvedJob job =
      Tiny({"plan.strategy=ddp", "plan.pipeline_parallel=4", "batch.gradient_accumulation_steps=8",
            "host.event_handover=0 us", "contention=off"});
  const BuiltStep built = BuildStep(job.job, BuildWorkload(job.job));
  ASSERT_EQ(built.host_work.size(), 4u);
  const Duration last = HostDuration(built.host_work.back(), TimesOf(job.job));
  EXPECT_GT(last, HostDuration(built.host_work[1], TimesOf(job.job)));
  // The device is faster than any of them.
  EXPECT_EQ(StepOf(job), last);
  EXPECT_THAT(ReportOf(job).context.warnings,
              Contains(HasSubstr("launch-bound: the host takes " + FormatTime(last))));
}

// A host that waits for the device in every layer cannot run ahead: whatever its speed, one that
// takes a little longer costs at most that. (Nothing beside each other, so that this is exact.)
TEST(Host, ALittleSlowerCostsALittle) {
  const std::vector<std::string> experts = {"model.transformer.experts.count=4",
                                            "model.transformer.experts.top_k=2",
                                            "plan.strategy=megatron",
                                            "plan.expert_parallel=2",
                                            "host.event_handover=0 us",
                                            "contention=off"};
  Duration step{}, host{};
  int slower = 0;
  for (double launch = 2; launch < 100; launch *= 1.25) {
    std::vector<std::string> sets = experts;
    sets.push_back("host.launch=" + std::to_string(launch) + " us");
    sets.push_back("host.collective_call=" + std::to_string(launch) + " us");
    const JobSpec job = Tiny(sets).job;
    const Duration time =
        HostDuration(BuildStep(job, BuildWorkload(job)).host_work.front(), TimesOf(job));
    const Duration now = StepOf(Tiny(sets));
    if (step > Duration::zero()) {
      EXPECT_GE(now, step) << launch;
      EXPECT_LE(now - step, time - host) << launch;
      slower += now > step ? 1 : 0;
    }
    step = now;
    host = time;
  }
  EXPECT_GT(slower, 10);
}

// Nobody is told to capture what the host interrupts.
TEST(Host, GraphsAreNoRemedyWhereTheHostWaits) {
  const auto warnings = [](const std::vector<std::string>& sets) {
    return ReportOf(Tiny(sets)).context.warnings;
  };
  EXPECT_THAT(warnings({"plan.strategy=fsdp2"}), Contains(HasSubstr("host.cuda_graphs: true")));
  for (const std::vector<std::string>& sets : {std::vector<std::string>{"plan.strategy=fsdp1"},
                                               {"plan.strategy=zero", "plan.zero.stage=3"},
                                               {"plan.ddp.find_unused_parameters=true"}}) {
    EXPECT_THAT(warnings(sets), Contains(HasSubstr("launch-bound"))) << sets.front();
    EXPECT_THAT(warnings(sets), Not(Contains(HasSubstr("cuda_graphs")))) << sets.front();
  }
}

// ---- The tiny job ----

TEST(Host, ATinyStepTakesItsLaunches) {
  const ResolvedJob job = TinyAlone();
  const StepReport report = ReportOf(job);
  EXPECT_EQ(report.account().step, microseconds(10) * Kernels(job.job));
  EXPECT_GT(report.account().host, report.account().compute);
  EXPECT_EQ(report.account().idle, Duration::zero());
  EXPECT_EQ(StepOf(TinyAlone({"kernels=compiled"})),
            microseconds(6) * Kernels(TinyAlone({"kernels=compiled"}).job));
  EXPECT_EQ(StepOf(TinyAlone({"host.launch=40 us"})), microseconds(40) * Kernels(job.job));
}

// DDP adds a scale and a copy back for each gradient, and a call for each bucket.
TEST(Host, ATinyStepWithDdpTakesItsLaunchesAndCalls) {
  const ResolvedJob job = Tiny();
  const Workload workload = BuildWorkload(job.job);
  const auto gradients = static_cast<std::int64_t>(workload.parameters.size());
  const auto buckets = static_cast<std::int64_t>(PlanBuckets(job.job.plan.ddp, workload).size());
  ASSERT_GT(buckets, 0);
  EXPECT_EQ(StepOf(job),
            microseconds(10) * (Kernels(job.job) + 2 * gradients) + microseconds(15) * buckets);
}

// Each micro-step but the first adds to every gradient; the optimizer and the reduction come once.
TEST(Host, AccumulationLaunchesEveryMicrostep) {
  const ResolvedJob once = TinyAlone();
  const ResolvedJob four = TinyAlone({"batch.gradient_accumulation_steps=4"});
  const auto gradients = static_cast<std::int64_t>(BuildWorkload(once.job).parameters.size());
  EXPECT_EQ(StepOf(four), microseconds(10) * (4 * NetworkKernels(once.job) + 3 * gradients +
                                              OptimizerKernels(once.job)));
}

TEST(Host, CudaGraphsGiveTheDeviceItsPaceBack) {
  const StepReport graphs = ReportOf(TinyAlone({"host.cuda_graphs=true"}));
  EXPECT_EQ(graphs.account().step, StepOf(TinyAlone({"host.launch=0 us"})));
  EXPECT_EQ(graphs.account().host, Duration::zero());
  EXPECT_LT(graphs.account().step, StepOf(TinyAlone()));
  // A graph that takes longer to launch than to run, once for each of the two micro-steps.
  EXPECT_EQ(StepOf(TinyAlone({"host.cuda_graphs=true", "host.graph_launch=50 ms",
                              "batch.gradient_accumulation_steps=2"})),
            microseconds(100'000));
}

// The more steps are simulated, the more the same: the second is steady.
TEST(Host, TheLaunchBoundStepIsSteady) {
  EXPECT_EQ(StepOf(Tiny({"simulate.steps=5"})), StepOf(Tiny()));
  EXPECT_EQ(StepOf(Tiny({"simulate.ranks=all"})), StepOf(Tiny()));
}

// With a wait at the end of each step the last kernel comes on top of all launches.
TEST(Host, ASynchronizedStepEndsWithItsLastKernel) {
  const ResolvedJob job = TinyAlone({"host.synchronize=true"});
  const StepResult result = RunStep(job);
  TaskId last{};
  for (const TaskId t : AllIds<TaskId>(result.graph.task_count())) {
    if (result.graph.kind(t) == TaskKind::kCompute) last = t;
  }
  EXPECT_EQ(result.report.account().step,
            microseconds(10) * Kernels(job.job) +
                (result.timeline.end[last] - result.timeline.start[last]));
  EXPECT_EQ(StepOf(TinyAlone({"host.synchronize=true", "simulate.steps=3"})),
            result.report.account().step);
}

// Nothing is offered that the job would be refused with: ZeRO-3 cannot be captured, and a list of
// layers has no kernels to compile.
TEST(Host, OffersOnlyWhatIsPossible) {
  const std::vector<std::string> slow = {"host.launch=5 ms"};
  const auto warnings = [](const std::string& name, const std::vector<std::string>& sets) {
    return RunStep(testing::LoadShipped(name, sets)).report.context.warnings;
  };
  EXPECT_THAT(warnings("llama-2-7b_zero3_16xa100", slow),
              Contains(HasSubstr("what helps: kernels: compiled, a larger micro-batch")));
  EXPECT_THAT(warnings("resnet-50_ddp_8xv100", slow),
              Contains(HasSubstr("what helps: host.cuda_graphs: true without host.launch, a "
                                 "larger micro-batch")));
}

TEST(Host, TheReportSaysThatTheStepIsLaunchBound) {
  const StepReport report = ReportOf(Tiny());
  EXPECT_THAT(report.context.warnings, Contains(HasSubstr("launch-bound")));
  const std::string summary = TerminalSummary(report, /*use_colour=*/false, 110);
  EXPECT_THAT(summary, HasSubstr("launch-bound"));
  EXPECT_THAT(summary, HasSubstr("host.cuda_graphs: true, kernels: compiled"));
  // Nobody is told to do what is done.
  const StepReport compiled = ReportOf(Tiny({"kernels=compiled"}));
  EXPECT_THAT(compiled.context.warnings, Not(Contains(HasSubstr("kernels: compiled"))));
  EXPECT_THAT(ReportOf(Tiny({"host.cuda_graphs=true"})).context.warnings, IsEmpty());
  EXPECT_THAT(ReportOf(Tiny({"host.synchronize=true"})).context.warnings,
              Contains(HasSubstr("host.synchronize: false")));
}

// Without a collective the step is as long: its launches remain.
TEST(Host, NoCeilingLiesBelowTheLaunches) {
  for (const CollectiveReport& c : ReportOf(Tiny()).collectives) {
    EXPECT_EQ(c.saved.value_or(Duration::zero()), Duration::zero()) << c.name;
  }
  // A slow network holds a step of 3 ms of launches up; what can be won ends there.
  const ResolvedJob slow = Tiny({"nodes=2", "network.link.bandwidth=100 Mb/s"});
  const StepReport report = ReportOf(slow);
  const Duration launches = StepOf(Tiny());
  ASSERT_GT(report.account().step, launches);
  for (const CollectiveReport& c : report.collectives) {
    EXPECT_LE(c.saved.value_or(Duration::zero()), report.account().step - launches) << c.name;
  }
}

// ---- Large jobs ----

// Two events: before the last bucket and behind it.
TEST(Host, ALargeStepHardlyNotices) {
  const std::string llama = "llama-3.2-3b_ddp_16xa100";
  const StepReport report = ReportOf(testing::LoadShipped(llama));
  const Duration ideal = StepOf(testing::LoadShipped(llama, {"host.launch=0 us"}));
  EXPECT_EQ(report.account().host, 2 * microseconds(2));
  EXPECT_NEAR(report.step_time_s(), ToSeconds(ideal), 1e-4 * ToSeconds(ideal));
  const StepReport waiting = ReportOf(testing::LoadShipped(llama, {"host.synchronize=true"}));
  EXPECT_NEAR(waiting.step_time_s(), ToSeconds(ideal), 1e-4 * ToSeconds(ideal));
}

// Experts: a launch in every layer and direction comes behind the host's wait.
TEST(Host, NoShippedJobIsLaunchBound) {
  for (const std::string& name : testing::ShippedConfigs().Names(ConfigKind::kJobs)) {
    const StepReport report = ReportOf(testing::LoadShipped(name));
    EXPECT_LT(ToSeconds(report.account().host), 5e-3 * report.step_time_s()) << name;
  }
}

// ---- The keys ----

TEST(HostKeys, LaunchOverheadIsAnotherSpelling) {
  const ResolvedJob spelled = Tiny({"simulate.launch_overhead=33 us"});
  EXPECT_EQ(spelled.job.host.launch, microseconds(33));
  EXPECT_EQ(StepOf(spelled), StepOf(Tiny({"host.launch=33 us"})));
  // The resolved job reads back as the same.
  const ResolvedJob again =
      LoadJobText(spelled.resolved_json, "again.json", {}, testing::ShippedConfigs());
  EXPECT_EQ(again.job.host.launch, microseconds(33));
  const auto times = TimesOf(Tiny({"simulate.launch_overhead=0 us"}).job);
  EXPECT_EQ(times.launch + times.collective_call + times.event_handover + times.graph_launch,
            Duration::zero());
}

TEST(HostKeys, TimesFollowFromWhatIsGiven) {
  EXPECT_EQ(TimesOf(Tiny().job).launch, microseconds(10));
  EXPECT_EQ(TimesOf(Tiny({"kernels=fused"}).job).launch, microseconds(10));
  EXPECT_EQ(TimesOf(Tiny({"kernels=compiled"}).job).launch, microseconds(6));
  EXPECT_EQ(TimesOf(Tiny().job).collective_call, microseconds(15));
  EXPECT_EQ(TimesOf(Tiny({"host.launch=20 us"}).job).collective_call, microseconds(20));
  EXPECT_EQ(TimesOf(Tiny({"hardware.host_time_scale=2"}).job).launch, microseconds(20));
  EXPECT_EQ(TimesOf(Tiny({"hardware.host_time_scale=2", "host.launch=3 us"}).job).launch,
            microseconds(3));
  EXPECT_EQ(TimesOf(testing::LoadShipped("lesson_serial").job).launch, Duration::zero());
}

std::string ErrorOf(const std::vector<std::string>& sets) {
  try {
    Tiny(sets);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(HostKeys, ContradictionsAreReported) {
  EXPECT_THAT(ErrorOf({"host.launch=5 us", "simulate.launch_overhead=6 us"}),
              HasSubstr("found beside host.launch"));
  EXPECT_THAT(ErrorOf({"host.cuda_graphs=true", "plan.ddp.find_unused_parameters=true"}),
              HasSubstr("cannot be captured"));
  EXPECT_THAT(ErrorOf({"host.cuda_graphs=true", "host.launch=5 us"}),
              HasSubstr("host.launch: has no effect with host.cuda_graphs: true"));
  EXPECT_THAT(ErrorOf({"host.graph_launch=5 us"}), HasSubstr("has no effect"));
  EXPECT_THAT(ErrorOf({"host.max_connections=0"}), HasSubstr("from 1 to 32"));
}

// Megatron-LM's host waits for the device after every exchange of a pipeline, so that each
// micro-batch begins with launches that nothing hides: slower than without the wait, whatever a
// launch costs.
TEST(Host, OfAPipelineThatWaitsNeverRunsAhead) {
  const std::vector<std::string> pipeline = {
      "plan.strategy=megatron", "gpus_per_node=2", "plan.pipeline_parallel=2",
      "batch.gradient_accumulation_steps=4", "batch.sequence_length=4096"};
  const auto step = [&](const std::string& launch, const std::string& waits) {
    std::vector<std::string> sets = pipeline;
    sets.push_back("host.launch=" + launch);
    sets.push_back("plan.pipeline.batch_p2p_sync=" + waits);
    return StepOf(Tiny(sets));
  };
  EXPECT_GT(step("2us", "true"), step("2us", "false"));
  // At least the first launch of each of the eight passes of a rank.
  EXPECT_GE(step("100us", "true") - step("2us", "true"), 8 * microseconds(98));
}

// Megatron-LM's launcher asserts CUDA_DEVICE_MAX_CONNECTIONS=1 for tensor or context parallelism on
// GPUs before Blackwell, and refuses it for FSDP.
TEST(Host, MegatronsExchangesShareOneHardwareQueue) {
  const auto connections = [](std::vector<std::string> sets) {
    return ConnectionsOf(Tiny(sets).job);
  };
  EXPECT_EQ(connections({"plan.strategy=megatron"}), 8);
  EXPECT_EQ(connections({"plan.strategy=megatron", "plan.tensor_parallel=2"}), 1);
  EXPECT_EQ(connections({"plan.strategy=megatron", "plan.context_parallel=2"}), 1);
  EXPECT_EQ(connections({"plan.strategy=fsdp2", "plan.tensor_parallel=2"}), 8);
  EXPECT_EQ(connections({"plan.strategy=megatron", "plan.tensor_parallel=2", "hardware=b200-dgx"}),
            8);
  EXPECT_EQ(
      connections({"plan.strategy=megatron", "plan.tensor_parallel=2", "host.max_connections=4"}),
      4);
}

}  // namespace
}  // namespace stepsim
