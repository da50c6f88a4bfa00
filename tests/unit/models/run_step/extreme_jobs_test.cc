// Jobs that nobody means but somebody runs: the smallest and largest of everything.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <vector>

#include "models/run_step.h"
#include "sim/base/diagnostics.h"
#include "sim/metrics/metric_table.h"
#include "tests/support/shipped.h"

namespace stepsim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

void ExpectSane(const StepReport& report) {
  testing::ExpectIdentity(report);
  for (const Metric& metric : Metrics()) {
    EXPECT_TRUE(std::isfinite(metric.value(report))) << metric.name;
    EXPECT_GE(metric.value(report), 0) << metric.name;
  }
}

StepReport Run3b(const std::vector<std::string>& sets) {
  StepReport report = RunStep(testing::LoadShipped("llama-3.2-3b_ddp_16xa100", sets)).report;
  ExpectSane(report);
  return report;
}

// One layer of 1000 parameters on the ideal machine, plus whatever a test adds.
StepReport RunTiny(const std::string& more, const std::string& layer = "forward_flops: 1 TFLOP",
                   const std::vector<std::string>& sets = {}) {
  StepReport report =
      RunStep(testing::LoadText(
                  fmt::format(
                      "model: {{name: tiny, layers: [{{name: l, parameters: [{{name: w, elements: "
                      "1000}}], {}}}]}}\nhardware: ideal\n{}",
                      layer, more),
                  sets))
          .report;
  ExpectSane(report);
  return report;
}

std::string ErrorOf(const std::string& job, const std::vector<std::string>& sets) {
  try {
    testing::LoadShipped(job, sets);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(ExtremeJobs, OneToken) {
  EXPECT_EQ(Run3b({"batch.sequence_length=1"}).context.tokens_per_step, 16);
}

TEST(ExtremeJobs, AMillionSequences) {
  const StepReport report = Run3b({"batch.micro_batch_size=1000000"});
  EXPECT_THAT(report.context.warnings,
              ElementsAre(HasSubstr("does not fit"), HasSubstr("nothing that was tried")));
  EXPECT_GT(report.step_time_s(), 1000);
}

// Nobody to talk to: every collective is over at once. What is left are the events before and
// behind the last one.
TEST(ExtremeJobs, OneGpu) {
  const StepReport report = Run3b({"nodes=1", "gpus_per_node=1"});
  EXPECT_EQ(report.account().step, report.account().compute + report.account().host);
  EXPECT_EQ(report.account().host, 2 * std::chrono::microseconds(2));
  EXPECT_EQ(report.account().communication, Duration::zero());
}

// 8000 ranks: a plain ring pays 2 x 7999 hops of the network's 5 us for the last bucket. NCCL takes
// another algorithm: a tree grows with the logarithm of the nodes.
TEST(ExtremeJobs, AThousandNodes) {
  const StepReport nccl = Run3b({"nodes=1000"});
  const StepReport report = Run3b({"nodes=1000", "collectives.model=alpha_beta"});
  EXPECT_LT(nccl.collectives.back().exposed, report.collectives.back().exposed);
  EXPECT_EQ(report.context.gpus, 8000);
  EXPECT_GT(report.collectives.back().exposed, Duration{2LL * 7999 * 5'000'000});
}

// Ranks are counted one by one; a list of 10^10 of them would fill the memory.
TEST(ExtremeJobs, TooManyGpusAreRefused) {
  EXPECT_THAT(ErrorOf("llama-3.2-3b_ddp_16xa100",
                      {"nodes=1000000", "hardware.gpus_per_node=10000", "gpus_per_node=10000"}),
              HasSubstr("found 1000000 x 10000 GPUs, allowed: at most 10000000"));
}

TEST(ExtremeJobs, OneWord) { Run3b({"model.transformer.vocab_size=1"}); }

TEST(ExtremeJobs, OneKeyHead) { Run3b({"model.transformer.kv_heads=1"}); }

TEST(ExtremeJobs, SixtyFourRanksOneByOne) {
  const std::string job = "nodes: 8\n";
  const StepReport all = RunTiny(job + "simulate: {ranks: all}\n");
  ASSERT_EQ(all.ranks.size(), 64u);
  const Duration folded = RunTiny(job).account().step;
  for (const RankAccount& rank : all.ranks) EXPECT_EQ(rank.step, folded);
}

// 1000 micro-steps of 1 ms forward and 1 ms backward (the first layer has no input gradient).
TEST(ExtremeJobs, AThousandMicrosteps) {
  const StepReport report =
      RunTiny("batch: {gradient_accumulation_steps: 1000}\noptimizer: none\n");
  ASSERT_EQ(report.microsteps.size(), 1000u);
  EXPECT_EQ(std::count_if(report.microsteps.begin(), report.microsteps.end(),
                          [](const MicrostepReport& m) { return m.is_reducing; }),
            1);
  EXPECT_NEAR(report.step_time_s(), 2.0, 1e-4);
}

// Nothing is left over from step to step: each takes as long as the first.
TEST(ExtremeJobs, ThreeStepsAreAlike) {
  EXPECT_EQ(Run3b({"simulate.steps=3"}).account().step, Run3b({}).account().step);
  EXPECT_EQ(Run3b({"simulate.steps=3"}).account().compute, Run3b({}).account().compute);
}

// ---- Gradients that already have the type of the wire ----

// bf16 gradients under a bf16 hook: as many bytes as without it, and no cast back.
TEST(ExtremeJobs, AHookOfTheGradientsOwnType) {
  const std::vector<std::string> bf16 = {"precision.parameters=bf16"};
  const StepReport plain = Run3b(bf16);
  const StepReport hooked = Run3b({bf16[0], "plan.ddp.comm_hook=bf16_compress"});
  ASSERT_EQ(hooked.collectives.size(), plain.collectives.size());
  for (std::size_t i = 0; i < plain.collectives.size(); ++i) {
    EXPECT_EQ(hooked.collectives[i].bytes, plain.collectives[i].bytes);
  }
  const StepResult result = RunStep(testing::LoadShipped(
      "llama-3.2-3b_ddp_16xa100", {bf16[0], "plan.ddp.comm_hook=bf16_compress"}));
  for (const TaskId t : AllIds<TaskId>(result.graph.task_count())) {
    EXPECT_THAT(result.graph.label(t).name, ::testing::Not(HasSubstr("decompress")));
  }
}

// ---- The host ----

// 10 ms per launch is longer than any kernel (forward and backward take 1 ms): a step after another
// is two launches.
TEST(ExtremeJobs, AHostThatIsTheBottleneck) {
  const StepReport report = RunTiny(
      "nodes: 1\ngpus_per_node: 1\nplan: {strategy: none}\noptimizer: none\n"
      "simulate: {launch_overhead: 10 ms}\n");
  EXPECT_EQ(report.account().step, Duration{20'000'000'000});
  EXPECT_EQ(report.account().host, Duration{20'000'000'000 - 2'000'000'000});
}

// The search for unused parameters runs on the host, 0.3 us for each parameter (models/README.md,
// "DDP"), between forward and backward.
TEST(ExtremeJobs, FindUnusedParametersKeepsTheHostBusy) {
  const std::string host = "gpus_per_node: 1\nsimulate: {launch_overhead: 10 ms}\n";
  const std::vector<std::string> real = {"hardware.host_time_scale=1"};
  const StepReport plain = RunTiny(host, "forward_flops: 1 TFLOP", real);
  const StepReport search = RunTiny(host + "plan: {ddp: {find_unused_parameters: true}}\n",
                                    "forward_flops: 1 TFLOP", real);
  EXPECT_EQ(search.collectives.size(), plain.collectives.size() + 1);  // who used what
  // 0.3 us, and the launch of one collective more
  EXPECT_EQ(search.account().step - plain.account().step, Duration{300'000 + 10'000'000'000});
}

TEST(ExtremeJobs, LaunchesOfADay) {
  EXPECT_THROW(
      RunTiny("nodes: 1\nhost: {launch: 86400 s}\nbatch: {gradient_accumulation_steps: 1000}\n"),
      SimulationError);
}

// ---- Networks with something missing ----

StepReport RunLayers(const std::string& layers, const std::string& more) {
  StepReport report = RunStep(testing::LoadText("model: {name: odd, layers: " + layers +
                                                "}\nhardware: ideal\n" + more))
                          .report;
  ExpectSane(report);
  return report;
}

TEST(ExtremeJobs, NoParameters) {
  const StepReport report = RunLayers("[{name: pool, forward_bytes: 1 GB}]", "nodes: 2\n");
  EXPECT_THAT(report.collectives, IsEmpty());
  EXPECT_EQ(report.account().step, Duration{1'000'000'000});  // 1 GB at 1 TB/s, no backward
}

TEST(ExtremeJobs, BuffersAndNoParameters) {
  const StepReport report = RunLayers("[{name: pool, buffers: 1 GB}]",
                                      "gpus_per_node: 2\ncollectives: {model: alpha_beta}\n");
  // A ring of 100 GB/s, in pieces of 250 MiB.
  EXPECT_EQ(report.collectives.size(), 4u);
  EXPECT_NEAR(ToSeconds(report.account().exposed_total()), 10e-3, 4e-12);
}

TEST(ExtremeJobs, NothingToDo) {
  const StepReport report = RunLayers(
      "[{name: pool}]", "plan: {strategy: none}\noptimizer: none\nnodes: 1\ngpus_per_node: 1\n");
  EXPECT_EQ(report.account().step, Duration::zero());
}

TEST(ExtremeJobs, NoLayerAtAllIsRefused) { EXPECT_THROW(RunLayers("[]", ""), ConfigError); }

// Linears in tf32, attention in fp32: a GPU without fp32 cannot run the network.
TEST(ExtremeJobs, AttentionNeedsUnitsToo) {
  EXPECT_THAT(ErrorOf("llama-3.2-3b_ddp_16xa100",
                      {"precision.compute=tf32", "hardware.gpu.peak.fp32=0 TFLOP/s"}),
              HasSubstr("found 'tf32', for which hardware a100-80g-dgx has no peak, allowed: bf16, "
                        "fp16"));
}

// ---- Consecutive steps ----

// The usage map is reduced after the last bucket, and backward ends when it has arrived. 8000
// ranks, 40 us a hop: 640 ms for a bucket, 640 ms for the map; each micro-step computes 300 + 300
// ms.
TEST(ExtremeJobs, TheUsageMapIsWaitedFor) {
  const StepReport report = RunTiny(
      "nodes: 1000\nnetwork: {link: {latency: 40 us}}\ncollectives: {model: alpha_beta}\n"
      "plan: {ddp: {find_unused_parameters: true}}\noptimizer: none\n"
      "batch: {gradient_accumulation_steps: 2}\nsimulate: {steps: 2}\n",
      "forward_flops: 300 TFLOP");
  const double hops = 2 * 7999 * 40e-6;
  EXPECT_NEAR(report.step_time_s(), 4 * 0.3 + 2 * hops, 1e-6);
  EXPECT_NEAR(ToSeconds(report.account().compute), 4 * 0.3, 1e-6);
  ASSERT_EQ(report.microsteps.size(), 2u);
  // Without an optimizer the first kernel behind the map is the next step's.
  EXPECT_NEAR(ToSeconds(report.microsteps[0].account.step), 2 * 0.3 + hops, 1e-6);
}

}  // namespace
}  // namespace stepsim
