// Public questions of practitioners that sharded and accumulated data parallelism answers: what the
// simulator must say, and when it would be wrong. Each test names its case ("UC010") and thread;
// the measured figures are theirs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "models/cost/collective_cost.h"
#include "models/run_step.h"
#include "tests/support/shipped.h"

namespace stepsim {
namespace {

using Sets = std::vector<std::string>;

StepReport RunSets(const std::string& job, Sets sets) {
  StepReport report = RunStep(testing::LoadShipped(job, sets)).report;
  testing::ExpectIdentity(report);
  return report;
}

Sets With(Sets sets, const Sets& more) {
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

double ExposedShare(const StepReport& report) {
  return ToSeconds(report.account().exposed_total()) / report.step_time_s();
}

// The x for which a falling f is `target`, by halving on a logarithmic scale.
double Solve(double low, double high, double target, const std::function<double(double)>& f) {
  for (int i = 0; i < 24; ++i) {
    const double middle = std::sqrt(low * high);
    (f(middle) > target ? low : high) = middle;
  }
  return std::sqrt(low * high);
}

std::string Network(double gigabits) {
  return "hardware.network.link.bandwidth=" + std::to_string(gigabits) + " Gb/s";
}

constexpr const char* kFsdp2 = "llama-3-8b_fsdp2_16xh100";

// UC003, pytorch/pytorch#61353: a cap larger than the model still gives two all_reduces, and the
// second cannot hide: it is ready with the last gradient.
TEST(UserCases, Uc003_ACapAboveTheModelGivesTwoBuckets) {
  const StepReport report =
      RunSets("gpt2_ddp_8xa100",
              {"plan.ddp.bucket_cap_mb=100000", "plan.ddp.first_bucket_mb=1",
               "plan.ddp.broadcast_buffers=false", "plan.ddp.gradient_as_bucket_view=true"});
  ASSERT_EQ(report.collectives.size(), 2u);
  EXPECT_EQ(report.collectives[1].hidden, Duration::zero());
}

// UC010, pytorch/torchtitan#292 and #1710: accumulation flavours of HSDP. Time: none <=
// reduce_scatter only <= reduce_scatter and all_reduce in each micro-step; memory the other way
// round.
TEST(UserCases, Uc010_AccumulationFlavoursOfHsdp) {
  const Sets base = {"plan.fsdp2.shard_size=8", "batch.gradient_accumulation_steps=4"};
  const StepReport both = RunSets(kFsdp2, base);
  const StepReport scatter = RunSets(kFsdp2, With(base, {"plan.fsdp2.requires_all_reduce=false"}));
  const StepReport none = RunSets(kFsdp2, With(base, {"plan.fsdp2.requires_gradient_sync=false"}));
  EXPECT_LE(none.step_time_s(), scatter.step_time_s());
  EXPECT_LE(scatter.step_time_s(), both.step_time_s());
  EXPECT_GE(none.memory.total, scatter.memory.total);
  EXPECT_GE(scatter.memory.total, both.memory.total);
  EXPECT_GT(none.memory.total, both.memory.total);
}

// The same without copies: reduce each time, or keep unsharded gradients.
TEST(UserCases, Uc010_AccumulationFlavoursOfFsdp) {
  const Sets base = {"batch.gradient_accumulation_steps=4", Network(50)};
  const StepReport each = RunSets(kFsdp2, base);
  const StepReport once = RunSets(kFsdp2, With(base, {"plan.fsdp2.requires_gradient_sync=false"}));
  EXPECT_LT(once.step_time_s(), each.step_time_s());
  EXPECT_GT(once.memory.total, each.memory.total);
}

// UC028, facebookresearch/fairscale#793: communication is more than 90% of the run on 1 GbE. Where
// nothing overlaps and 90% is exposed, a link ten times as fast gives at most 1 / (0.1 + 0.9 / 10)
// = 5.3x, one a hundred times as fast at most 10x.
TEST(UserCases, Uc028_AFasterLinkHasACeiling) {
  const Sets base = {"plan.fsdp2=null", "plan.strategy=zero", "plan.zero.stage=2",
                     "contention=off"};
  const auto run = [&](double gigabits) {
    return RunSets(kFsdp2, With(base, {Network(gigabits)}));
  };
  const double at_90 = Solve(0.001, 400, 0.9, [&](double g) { return ExposedShare(run(g)); });
  const double slow = run(at_90).step_time_s();
  const double ten = slow / run(10 * at_90).step_time_s();
  const double hundred = slow / run(100 * at_90).step_time_s();
  EXPECT_LE(ten, 5.3);
  EXPECT_GE(ten, 4.5);  // and it is worth nearly that: latency and the node's links are the rest
  EXPECT_LE(hundred, 10);
  EXPECT_GT(hundred, ten);
}

// UC046, Tencent-Hunyuan/UniRL#467: NCCL runs in 0.48% of the region, so no change of communication
// can win more than 0.5%.
TEST(UserCases, Uc046_NothingToWinWhereLittleIsSent) {
  const Sets base = {"nodes=1", "network=null", "contention=off"};
  const auto run = [&](double gigabytes) {
    return RunSets(
        kFsdp2,
        With(base, {"hardware.intra_node.bandwidth=" + std::to_string(gigabytes) + " GB/s"}));
  };
  const double bandwidth = Solve(100, 1e6, 0.0048, [&](double g) {
    const StepReport report = run(g);
    return ToSeconds(report.account().communication) / report.step_time_s();
  });
  const StepReport report = run(bandwidth);
  double ceiling = 0;
  for (const CollectiveReport& c : report.collectives) {
    if (c.saved) ceiling = std::max(ceiling, ToSeconds(*c.saved) / report.step_time_s());
  }
  EXPECT_LE(ceiling, 0.005);
  EXPECT_GE(run(1000 * bandwidth).step_time_s(), report.step_time_s() * 0.995);
}

// UC058, pytorch/pytorch#186335: reduce_scatters on a communicator of their own. Nothing to win
// when the link is busy all the time; something when gathers queue behind reductions that compute
// does not wait for.
TEST(UserCases, Uc058_ASecondCommunicator) {
  const auto gain = [](const Sets& sets) {
    const double shared = RunSets(kFsdp2, sets).step_time_s();
    const double separate =
        RunSets(kFsdp2, With(sets, {"plan.fsdp2.separate_reduce_group=true"})).step_time_s();
    return (shared - separate) / shared;
  };
  const Sets busy = {Network(5)};
  const StepReport report = RunSets(kFsdp2, busy);
  EXPECT_GT(ToSeconds(report.account().communication), 0.95 * report.step_time_s());
  EXPECT_NEAR(gain(busy), 0, 0.002);
  EXPECT_GT(gain({"plan.fsdp2.backward_prefetch=0", Network(100)}), 0.01);
}

// UC067, deepspeedai/DeepSpeed#1174: BERT with 5B parameters on 8 x A100; the forward takes 480 ms
// with ZeRO-3 and 60 ms with ZeRO-2. The floor of its gathers is 10 GB x 7/8 / 230 GB/s = 38 ms. So
// is ours, in one call; gathered module by module, all of it exposed, it comes to a fraction of the
// 420 ms: the links do not explain them.
TEST(UserCases, Uc067_TheGathersDoNotExplainTheForward) {
  // 64 x 12 x 2560^2 = 5.03e9 parameters.
  const ResolvedJob job = testing::LoadText(R"({
      model: {name: bert-5b, transformer: {layers: 64, hidden_size: 2560, heads: 40, ffn_size: 10240,
              vocab_size: 30522, tied_embeddings: true, positions: learned, max_positions: 512,
              norm: layer_norm, causal: false}},
      hardware: a100-40g-efa, nodes: 1,
      plan: {strategy: zero, zero: {stage: 3, stage3_prefetch_bucket_size: 0,
                                    stage3_max_reuse_distance: 0}},
      batch: {micro_batch_size: 1, sequence_length: 128},
      precision: {compute: fp16}, contention: off})");
  const CollectivePricer price(job.job.hardware, job.job.collectives);
  const double floor = price({CollectiveOp::kAllGather,
                              Bytes{10'000'000'000},
                              DType::kFp16,
                              {.ranks = 8, .nodes = 1, .ranks_per_node = 8}})
                           .seconds;
  EXPECT_GE(floor, 0.035);
  EXPECT_LE(floor, 0.045);
  Duration gathers{};
  for (const CollectiveReport& c : RunStep(job).report.collectives) {
    if (c.site == Site::kParameterGather) gathers += c.end - c.transfer_start;
  }
  const double forward = ToSeconds(gathers) / 2;  // backward gathers the same again
  EXPECT_GE(forward, floor);
  EXPECT_LE(forward, 0.42 / 4);
}

// UC008, oumi-ai/oumi#205: two runs fix two numbers: 23.9 samples/s on 1 x 4 GPUs (compute), 18.7
// on 2 x 4 with 4 micro-steps (the link). With 128 micro-steps 43.7 samples/s were measured; the
// bound is 8%. Two samples per GPU and micro-step, about 2e9 parameters.
TEST(UserCases, Uc008_AccumulationFromTwoRuns) {
  const auto samples_per_second = [](double tflop, double gigabits, int nodes, int microsteps) {
    const StepReport report =
        RunStep(testing::LoadText(
                    R"({model: {name: two-billion, layers: [)" +
                        [&] {
                          std::string layers;
                          for (int i = 0; i < 24; ++i) {
                            layers += "{name: l" + std::to_string(i) +
                                      ", forward_flops: " + std::to_string(tflop / 24 * 1e6) +
                                      " MFLOP, parameters: [{name: w" + std::to_string(i) +
                                      ", elements: 83000000}]},";
                          }
                          return layers;
                        }() +
                        R"(]}, hardware: a100-40g-dgx, gpus_per_node: 4, plan: {strategy: ddp},
                    batch: {micro_batch_size: 2}, precision: {compute: bf16}, contention: off,
                    nodes: )" +
                        std::to_string(nodes) + "}",
                    {"batch.gradient_accumulation_steps=" + std::to_string(microsteps),
                     nodes > 1 ? Network(gigabits) : "name=one node"}))
            .report;
    return report.context.samples_per_step / report.step_time_s();
  };
  const double tflop =
      Solve(0.1, 1000, 23.9, [&](double x) { return samples_per_second(x, 1, 1, 128); });
  const double link = 1 / Solve(0.001, 10, 18.7, [&](double slowness) {
                        return samples_per_second(tflop, 1 / slowness, 2, 4);
                      });
  EXPECT_NEAR(samples_per_second(tflop, link, 2, 128), 43.7, 0.08 * 43.7);
}

}  // namespace
}  // namespace stepsim
