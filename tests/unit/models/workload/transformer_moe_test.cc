// A layer with a mixture of experts on one rank: order, sizes, volumes and memory, from the
// formulas of models/README.md ("Mixtures of experts", "Expert parallel").
#include "models/workload/transformer_moe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "models/workload/model_flops.h"
#include "models/workload/workload.h"
#include "tests/support/published_models.h"

namespace stepsim {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::JobOf;

constexpr std::int64_t kS = 4096, kH = 4096, kF = 14336, kE = 8, kK = 2;  // Mixtral
constexpr std::int64_t kRows = kS * kK;

JobSpec Mixtral(std::int64_t expert_parallel = 1) {
  JobSpec job = JobOf(testing::Mixtral8x7b(), 1, kS);
  job.kernels = KernelMode::kFused;
  job.plan.strategy = "megatron";
  job.gpus_per_node = 8;
  job.plan.expert_parallel = expert_parallel;
  return job;
}

JobSpec WithShared(JobSpec job) {
  std::get<TransformerSpec>(job.model.network).experts.shared_ffn_size = kF;
  return job;
}

const ModelUnit& Layer(const Workload& workload) { return workload.units[1]; }

std::vector<std::string> Names(const Workload& workload) {
  std::vector<std::string> names;
  bool is_inside = false;
  for (const Operator& op : Layer(workload).operators) {
    if (op.name == "residual2") break;
    if (is_inside) names.push_back(op.name);
    is_inside = is_inside || op.name == "norm2";
  }
  return names;
}

const Operator& Named(const Workload& workload, const std::string& name) {
  const auto& operators = Layer(workload).operators;
  const auto found = std::find_if(operators.begin(), operators.end(),
                                  [&](const Operator& op) { return op.name == name; });
  EXPECT_NE(found, operators.end()) << name;
  return *found;
}

// "<operator> <before|after>: <exchange> <bytes>"
std::vector<std::string> Exchanges(const Workload& workload, ExchangeAxis axis) {
  std::vector<std::string> all;
  for (const Operator& op : Layer(workload).operators) {
    for (const Exchange& e : op.exchanges) {
      if (e.axis != axis) continue;
      const bool is_forward = e.place == ExchangePlace::kAfterForward;
      EXPECT_TRUE(is_forward || e.place == ExchangePlace::kBeforeBackward);
      all.push_back(op.name + (is_forward ? " forward: " : " backward: ") + e.name + " " +
                    std::to_string(e.bytes.value));
    }
  }
  return all;
}

std::string Of(std::int64_t bytes) { return " " + std::to_string(bytes); }

TEST(Experts, OrderOnOneRank) {
  EXPECT_THAT(Names(BuildWorkload(Mixtral())),
              ElementsAre("moe.router", "moe.routing", "moe.permute", "moe.fc1", "moe.activation",
                          "moe.fc2", "moe.unpermute"));
}

// Several experts of a rank get rows from several ranks: sorted, and back.
TEST(Experts, OrderOfDispatchAndCombine) {
  EXPECT_THAT(Names(BuildWorkload(Mixtral(4))),
              ElementsAre("moe.router", "moe.routing", "moe.permute", "moe.sort", "moe.fc1",
                          "moe.activation", "moe.fc2", "moe.unsort", "moe.unpermute"));
  EXPECT_THAT(Names(BuildWorkload(Mixtral(8))),
              ElementsAre("moe.router", "moe.routing", "moe.permute", "moe.fc1", "moe.activation",
                          "moe.fc2", "moe.unpermute"));
}

TEST(Experts, OneRankExchangesNothing) {
  const Workload workload = BuildWorkload(Mixtral());
  for (const ModelUnit& unit : workload.units) {
    for (const Operator& op : unit.operators) EXPECT_THAT(op.exchanges, IsEmpty()) << op.name;
  }
}

// Of T tokens and top_k experts: T k h values and T k fp32 probabilities there, T k h back, and the
// gradients the other way.
TEST(Experts, VolumesOfAllToAll) {
  const Workload workload = BuildWorkload(Mixtral(8));
  const std::string rows = Of(kRows * kH * 2), weights = Of(kRows * 4);
  EXPECT_THAT(Exchanges(workload, ExchangeAxis::kExpert),
              ElementsAre("moe.permute forward: all_to_all tokens" + rows,
                          "moe.permute forward: all_to_all probabilities" + weights,
                          "moe.permute backward: all_to_all token gradients" + rows,
                          "moe.permute backward: all_to_all probability gradients" + weights,
                          "moe.fc2 backward: all_to_all token gradients" + rows,
                          "moe.fc2 forward: all_to_all tokens" + rows));
  EXPECT_THAT(Exchanges(workload, ExchangeAxis::kExperts),
              ElementsAre("moe.routing forward: all_gather counts" + Of(kE * 8 * 8)));
  EXPECT_TRUE(Named(workload, "moe.routing").host_reads);
}

// Every rank gets the tokens of all eight and the probabilities of every expert.
TEST(Experts, VolumesOfAllGather) {
  JobSpec job = Mixtral(8);
  job.plan.expert.dispatcher = ExpertDispatcher::kAllGather;
  const std::string tokens = Of(8 * kS * kH * 2), weights = Of(8 * kS * kE * 4);
  EXPECT_THAT(Exchanges(BuildWorkload(job), ExchangeAxis::kExperts),
              ElementsAre("moe.routing forward: all_gather tokens" + tokens,
                          "moe.routing forward: all_gather probabilities" + weights,
                          "moe.routing backward: reduce_scatter token gradients" + tokens,
                          "moe.routing backward: reduce_scatter probability gradients" + weights,
                          "moe.unpermute forward: reduce_scatter tokens" + tokens,
                          "moe.unpermute backward: all_gather token gradients" + tokens));
}

// tensor_parallel 2 with sequence parallelism: half the tokens, then those of both for half of each
// expert's width.
TEST(Experts, TensorParallelExpertsShareTheirRows) {
  JobSpec job = Mixtral(4);
  job.plan.tensor_parallel = 2;
  const Workload workload = BuildWorkload(job);
  const std::string rows = Of(kRows * kH * 2), weights = Of(kRows * 4);
  EXPECT_THAT(Exchanges(workload, ExchangeAxis::kExpertTensor),
              ElementsAre("moe.permute forward: all_gather tokens" + rows,
                          "moe.permute forward: all_gather probabilities" + weights,
                          "moe.permute backward: reduce_scatter token gradients" + rows,
                          "moe.permute backward: reduce_scatter probability gradients" + weights,
                          "moe.unsort backward: all_gather token gradients" + rows,
                          "moe.unsort forward: reduce_scatter tokens" + rows));
  const ComputeWork& fc1 = Named(workload, "moe.fc1").forward;
  EXPECT_EQ(fc1.m, kRows / 2);  // 4 ranks x 2 experts, rows of 2 x 4 ranks
  EXPECT_EQ(fc1.n, kF);         // gate and up, half of each
  EXPECT_EQ(fc1.batch, 2);
}

// However the experts are dealt out, a rank multiplies k rows for each of its tokens.
TEST(Experts, ProductsAreTheSameOnAnyNumberOfRanks) {
  for (const std::int64_t ranks : {1, 2, 4, 8}) {
    const Workload workload = BuildWorkload(Mixtral(ranks));
    EXPECT_EQ(Named(workload, "moe.fc1").forward.flops.value, 2.0 * kRows * 2 * kF * kH);
    EXPECT_EQ(Named(workload, "moe.fc2").forward.flops.value, 2.0 * kRows * kF * kH);
    EXPECT_EQ(Named(workload, "moe.fc1").forward.batch, kE / ranks);
    EXPECT_EQ(Named(workload, "moe.router").forward.flops.value, 2.0 * kS * kH * kE);
  }
}

TEST(Experts, TheBusiestRankHasMoreRows) {
  JobSpec job = Mixtral(8);
  job.plan.expert.imbalance = 1.5;
  EXPECT_EQ(ExpertRowsOf(job, kS).sent, kRows);
  EXPECT_EQ(ExpertRowsOf(job, kS).received, kRows * 3 / 2);
  job.plan.expert.capacity_factor = 1.25;  // drops what is above
  EXPECT_EQ(ExpertRowsOf(job, kS).received, kRows * 5 / 4);
  job.plan.expert.capacity_factor = 2;
  EXPECT_EQ(ExpertRowsOf(job, kS).received, kRows * 3 / 2);
  job.plan.expert.pad_to_capacity = true;  // whatever the router says
  EXPECT_EQ(ExpertRowsOf(job, kS).sent, kRows * 2);
  EXPECT_EQ(ExpertRowsOf(job, kS).received, kRows * 2);
  EXPECT_FALSE(Named(BuildWorkload(job), "moe.routing").host_reads);
}

// What 5.3 of the same reference counts for SwiGLU, for T k rows: router input, each row's place
// and weight, rows, gate and up, their product; probabilities and map of T E.
TEST(Experts, KeptForBackward) {
  const Workload workload = BuildWorkload(Mixtral());
  std::int64_t kept = 0;
  for (const Operator& op : Layer(workload).operators) {
    if (op.name.rfind("moe.", 0) == 0) kept += op.kept().value;
  }
  EXPECT_EQ(kept,
            2 * kS * kH + kS * kE * (4 + 1) + kRows * (8 + 4) + 2 * kRows * (kH + 2 * kF + kF));
}

TEST(Experts, RecomputationDropsTheMixtureAndRunsItAgain) {
  JobSpec job = Mixtral(8);
  job.recompute.granularity = RecomputeGranularity::kSelective;
  job.recompute.modules = {.core_attn = false, .moe = true};
  const Workload workload = BuildWorkload(job);
  ASSERT_EQ(workload.reruns.size(), 32u);
  const Rerun& rerun = workload.reruns.front();
  std::vector<std::string> names;
  for (const Rerun::Step& step : rerun.steps) {
    names.push_back(workload.OperatorAt(step.place).name);
  }
  EXPECT_EQ(names, Names(workload));  // with its exchanges, which belong to the operators
}

// Gradients of the shared expert (gate and up are one of Megatron-LM's) wait for both streams to
// meet.
TEST(Experts, SharedExpertBesideTheDispatch) {
  JobSpec job = WithShared(Mixtral(8));
  EXPECT_THAT(Names(BuildWorkload(job)),
              ElementsAre("moe.router", "moe.routing", "moe.permute", "moe.fc1", "moe.activation",
                          "moe.fc2", "moe.unpermute", "shared.up", "shared.activation",
                          "shared.down", "moe.add"));
  job.plan.expert.shared_expert_overlap = true;
  const Workload workload = BuildWorkload(job);
  EXPECT_THAT(Names(workload),
              ElementsAre("moe.router", "moe.routing", "moe.permute", "shared.up",
                          "shared.activation", "shared.down", "moe.fc1", "moe.activation",
                          "moe.fc2", "moe.unpermute", "moe.add"));
  EXPECT_EQ(Named(workload, "moe.routing").side, SideStream::kOpens);
  EXPECT_EQ(Named(workload, "moe.routing").parameters_ready.size(), 2u);
  EXPECT_EQ(Named(workload, "shared.up").side, SideStream::kRuns);
  EXPECT_THAT(Named(workload, "shared.up").parameters_ready, IsEmpty());
  EXPECT_EQ(Named(workload, "moe.add").side, SideStream::kJoins);
  EXPECT_EQ(workload.ArrivalOrder().size(), workload.parameters.size());
}

// Qwen3-30B-A3B is named after 3.3 billion: 3,353,032,704 of the published 30,532,122,624 are met
// by a token (8 of 128 experts).
TEST(Experts, ActiveParameters) {
  EXPECT_EQ(ActiveParameterCount(testing::Qwen3Of30bA3b()), 3353032704);
  EXPECT_EQ(ActiveParameterCount(testing::Mixtral8x7b()),
            46702792704 - 6 * std::int64_t{32} * 3 * kH * kF);
}

// 6 x the active parameters that are multiplied and full attention; Megatron-LM leaves the router
// out, halves attention, and multiplies the head.
TEST(Experts, ModelFlopsOfEveryConvention) {
  const double tokens = kS, table = 32000.0 * kH;
  const double attention = 12.0 * 32 * 32 * 128 * kS * tokens;
  const auto active = static_cast<double>(ActiveParameterCount(testing::Mixtral8x7b()));
  const double layer = 4096.0 * (4096 + 2 * 1024) + 4096.0 * 4096 + 2 * 3.0 * kH * kF;
  const auto flops = ModelFlops(Mixtral());
  EXPECT_EQ(flops[0].second.value, 6 * active * tokens + attention);
  EXPECT_EQ(flops[1].second.value, 6 * tokens * (32 * layer + table) + attention / 2);
  EXPECT_EQ(flops[2].second.value, 6 * (active - table) * tokens + attention);
  EXPECT_EQ(flops[3].second.value,
            6 * tokens * (32 * (layer + kH * 8) + table) + attention / 2 * (kS + 1) / kS);
}

}  // namespace
}  // namespace stepsim
