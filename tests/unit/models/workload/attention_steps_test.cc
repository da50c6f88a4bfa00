// What each context parallel rank computes and exchanges. Expected values: pairs of queries and
// keys counted one by one, and the volumes of the reference (5.6): keys and values of a rank, sent
// by it to every other.
#include "models/workload/attention_steps.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "models/workload/workload.h"
#include "tests/support/published_models.h"

namespace stepsim {
namespace {

AttentionShape Shape(std::int64_t sequence, bool causal = true) {
  return {.batch = 2,
          .sequence = sequence,
          .heads = 8,
          .kv_heads = 2,
          .head_dim = 64,
          .causal = causal};
}

struct Steps {
  std::string name;
  ContextSplit split;
  bool is_balanced = true;
  bool causal = true;
};

std::vector<Steps> AllKinds(std::int64_t ring) {
  return {{"ring", {1, ring, false}},
          {"ring, not balanced", {1, ring, false}, false},
          {"ring, all pairs", {1, ring, false}, true, false},
          {"gathered", {1, ring, true}},
          {"gathered, not balanced", {1, ring, true}, false},
          {"gathered, all pairs", {1, ring, true}, true, false}};
}

double ForwardFlops(const AttentionSteps& steps, std::int64_t place) {
  double flops = 0;
  for (const AttentionStep& step : steps.At(place)) {
    if (!step.is_skipped) flops += step.forward.flops.value;
  }
  return flops;
}

TEST(AttentionSteps, OfAllRanksAddUpToTheWholeSequence) {
  for (const std::int64_t ring : {2, 4, 8}) {
    for (const Steps& kind : AllKinds(ring)) {
      const AttentionShape shape = Shape(64 * ring, kind.causal);
      const AttentionSteps steps(kind.split, kind.is_balanced, shape, DType::kBf16);
      double forward = 0, backward = 0;
      for (std::int64_t place = 0; place < ring; ++place) {
        forward += ForwardFlops(steps, place);
        for (const AttentionStep& step : steps.At(place)) {
          if (!step.is_skipped) backward += step.backward.flops.value;
        }
      }
      const double whole = shape.forward_flops().value;
      EXPECT_DOUBLE_EQ(forward, whole) << kind.name << " " << ring;
      EXPECT_DOUBLE_EQ(backward, 2.5 * whole) << kind.name << " " << ring;
      // As one kernel, the mean.
      EXPECT_DOUBLE_EQ(steps.Forward().flops.value * static_cast<double>(ring), whole);
      EXPECT_DOUBLE_EQ(steps.Backward().flops.value * static_cast<double>(ring), 2.5 * whole);
    }
  }
}

// Pieces r and 2 ring - 1 - r: an early one and a late one.
TEST(AttentionSteps, BalancedRanksDoTheSame) {
  for (const bool gathers : {false, true}) {
    const AttentionSteps steps({1, 4, gathers}, true, Shape(256), DType::kBf16);
    for (std::int64_t place = 1; place < 4; ++place) {
      EXPECT_DOUBLE_EQ(ForwardFlops(steps, place), ForwardFlops(steps, 0)) << gathers << place;
    }
  }
}

// One piece each, l tokens: rank r sees its own l (l + 1) / 2 pairs and r l^2 more; the last one
// of 4 has 7/4 of the mean for long pieces.
TEST(AttentionSteps, WithoutBalanceTheLastRankDoesMost) {
  const double l = 64, pair = 2 * 2 * 2 * 8 * 64;  // FLOPs of a pair over batch and heads
  for (const bool gathers : {false, true}) {
    const AttentionSteps steps({1, 4, gathers}, false, Shape(256), DType::kBf16);
    for (std::int64_t place = 0; place < 4; ++place) {
      EXPECT_DOUBLE_EQ(ForwardFlops(steps, place),
                       pair * (l * (l + 1) / 2 + static_cast<double>(place) * l * l));
    }
  }
}

// Rank 1 of 4: its own keys under the mask, half of the keys of one rank before it, and for half of
// its queries the keys of two behind it.
TEST(AttentionSteps, OfABalancedRing) {
  const std::vector<AttentionStep> steps =
      AttentionSteps({1, 4}, true, Shape(256), DType::kBf16).At(1);
  ASSERT_EQ(steps.size(), 4u);
  EXPECT_TRUE(steps[0].forward.causal);
  EXPECT_EQ(steps[0].forward.m, 64);
  EXPECT_EQ(steps[0].forward.n, 64);
  EXPECT_EQ(steps[1].forward.m, 64);
  EXPECT_EQ(steps[1].forward.n, 32);
  for (const std::size_t i : {std::size_t{2}, std::size_t{3}}) {
    EXPECT_FALSE(steps[i].forward.causal);
    EXPECT_EQ(steps[i].forward.m, 32);
    EXPECT_EQ(steps[i].forward.n, 64);
  }
}

// The queries are the last of the keys' tokens.
TEST(AttentionShape, CountsPairsBehindEarlierKeys) {
  AttentionShape shape = Shape(5);
  shape.keys = 12;
  double pairs = 0;
  for (int query = 12 - 5; query < 12; ++query) {
    for (int key = 0; key < 12; ++key) pairs += key <= query ? 1 : 0;
  }
  EXPECT_EQ(shape.pairs(), pairs);
}

JobSpec Job(ContextExchange type, std::int64_t ranks, std::int64_t per_node = 8) {
  TransformerSpec spec = testing::Gpt2();
  spec.positions = PositionKind::kRotary;
  spec.heads = 16;
  spec.kv_heads = 8;
  spec.head_dim = 64;
  spec.hidden_size = 1024;
  JobSpec job = testing::JobOf(spec, 2, 4096);
  job.precision = {DType::kBf16, DType::kBf16};
  job.gpus_per_node = per_node;
  job.nodes = ranks > per_node ? ranks / per_node : 1;
  job.plan.context_parallel = ranks;
  job.plan.context.comm_type = type;
  return job;
}

const Operator& AttentionOf(const Workload& workload) {
  for (const Operator& op : workload.units[1].operators) {
    if (op.name == "attention") return op;
  }
  throw std::logic_error("a layer without attention");
}

// Bytes of a rank's q and of its k (two a number, 4096 tokens of 2 samples over the ranks).
std::int64_t QueryBytes(std::int64_t ranks) { return 2 * 2 * 4096 / ranks * 16 * 64; }
std::int64_t KeyBytes(std::int64_t ranks) { return 2 * 2 * 4096 / ranks * 8 * 64; }

using Sent = std::map<ExchangePlace, std::vector<std::int64_t>>;
Sent SentBy(const Operator& op) {
  Sent sent;
  for (const Exchange& exchange : op.exchanges) {
    sent[exchange.place].push_back(exchange.bytes.value);
  }
  return sent;
}

TEST(ContextExchanges, RingSendsKeysAndValues) {
  const Workload workload = BuildWorkload(Job(ContextExchange::kP2p, 4));
  const Operator& op = AttentionOf(workload);
  EXPECT_TRUE(op.exchanges.empty());
  ASSERT_NE(op.steps, nullptr);
  EXPECT_EQ(op.steps->keys().value, 2 * KeyBytes(4));
  EXPECT_EQ(op.saved.value, QueryBytes(4) + 2 * KeyBytes(4));
}

// Counted as nccl-tests does: the gathered tensor.
TEST(ContextExchanges, GatheredKeysAreTheWholeSequences) {
  const Workload workload = BuildWorkload(Job(ContextExchange::kAllGather, 4));
  const std::vector<std::int64_t> both(2, 4 * KeyBytes(4));
  EXPECT_EQ(SentBy(AttentionOf(workload)), (Sent{{ExchangePlace::kBeforeForward, both},
                                                 {ExchangePlace::kBeforeBackward, both},
                                                 {ExchangePlace::kAfterInputGradient, both}}));
}

TEST(ContextExchanges, SwappedTensorsKeepTheirSize) {
  const Workload workload = BuildWorkload(Job(ContextExchange::kAllToAll, 4));
  const Operator& op = AttentionOf(workload);
  const std::int64_t q = QueryBytes(4), k = KeyBytes(4);
  EXPECT_EQ(SentBy(op), (Sent{{ExchangePlace::kBeforeForward, {q, k, k}},
                              {ExchangePlace::kAfterForward, {q}},
                              {ExchangePlace::kBeforeBackward, {q}},
                              {ExchangePlace::kAfterInputGradient, {q, k, k}}}));
  EXPECT_EQ(op.steps, nullptr);
  // All 4096 tokens for a fourth of the heads.
  const AttentionShape shape{2, 4096, 4, 2, 64, true};
  EXPECT_EQ(op.forward, AttentionForwardWork(shape, DType::kBf16));
}

// 16 ranks on two nodes: heads are swapped within a node, keys travel between two.
TEST(ContextExchanges, HierarchicalSwapsWithinANode) {
  const Workload workload = BuildWorkload(Job(ContextExchange::kAllToAllP2p, 16));
  const Operator& op = AttentionOf(workload);
  EXPECT_EQ(op.exchanges.size(), 8u);
  ASSERT_NE(op.steps, nullptr);
  EXPECT_EQ(op.steps->places(), 2);
  // 8 times the tokens, an eighth of the heads.
  EXPECT_EQ(op.steps->keys().value, 2 * KeyBytes(16));
}

// Every kind computes what one rank would, and each rank has its share of all other operators.
TEST(ContextExchanges, RanksShareAllWork) {
  const auto flops = [](const JobSpec& job) {
    double sum = 0;
    for (const ModelUnit& unit : BuildWorkload(job).units) {
      for (const Operator& op : unit.operators) {
        sum += op.forward.flops.value;
        for (const ComputeWork& work : op.backward_input) sum += work.flops.value;
        for (const ComputeWork& work : op.backward_weight) sum += work.flops.value;
      }
    }
    return sum;
  };
  const double whole = flops(Job(ContextExchange::kP2p, 1));
  for (const auto type : {ContextExchange::kP2p, ContextExchange::kAllGather,
                          ContextExchange::kAllToAll, ContextExchange::kAllToAllP2p}) {
    EXPECT_DOUBLE_EQ(flops(Job(type, 8)) * 8, whole);
  }
}

}  // namespace
}  // namespace stepsim
