// Expert parallelism in a step: who talks to whom, which gradients are summed where, what each rank
// holds. Mixtral's numbers, two layers of it on 16 GPUs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "models/memory/memory.h"
#include "tests/support/published_models.h"
#include "tests/support/sharded_traffic.h"

namespace stepsim {
namespace {

using namespace testing_sharded;
using ::testing::ElementsAre;
using ::testing::Pair;

constexpr std::int64_t kS = 1024, kH = 4096, kF = 14336, kV = 32000;
constexpr std::int64_t kRanks = 16, kExpertRanks = 8, kLayers = 2;
constexpr std::int64_t kExperts = kLayers * 3 * kH * kF;  // one of a layer on each rank
constexpr std::int64_t kDense =
    2 * kV * kH + kH + kLayers * (kH * (kH + 2 * 1024) + kH * kH + 2 * kH + 8 * kH);

JobSpec Mixtral() {
  TransformerSpec spec = testing::Mixtral8x7b();
  spec.layers = kLayers;
  JobSpec job = testing::JobOf(spec, 1, kS);
  job.kernels = KernelMode::kFused;
  job.nodes = 2;
  job.gpus_per_node = 8;
  job.plan.strategy = "megatron";
  job.plan.clip_gradients = false;
  job.plan.expert_parallel = kExpertRanks;
  job.plan.megatron = {.use_distributed_optimizer = true, .overlap_grad_reduce = true};
  return job;
}

// By group, of one kind of call.
std::map<std::string, std::int64_t> BytesByGroup(const TaskGraph& graph, CollectiveOp op) {
  std::map<std::string, std::int64_t> bytes;
  for (const TaskId t : AllIds<TaskId>(graph.task_count())) {
    const auto* work = std::get_if<CollectiveWork>(&graph.work(t));
    if (work == nullptr || work->op != op) continue;
    bytes[graph.group(work->group).name] += work->bytes.value;
  }
  return bytes;
}

TEST(ExpertParallel, GradientsOfExpertsHaveAGroupOfTheirOwn) {
  const JobSpec job = Mixtral();
  const TaskGraph graph = BuildStep(job, BuildWorkload(job), HostThread::kAhead).graph;
  // fp32 gradients, bf16 parameters; sizes are multiples of what buckets are padded to
  EXPECT_THAT(BytesByGroup(graph, CollectiveOp::kReduceScatter),
              ElementsAre(Pair("dp", 4 * kDense), Pair("edp", 4 * kExperts)));
  const auto gathers = BytesByGroup(graph, CollectiveOp::kAllGather);
  EXPECT_EQ(gathers.at("dp"), 2 * kDense);
  EXPECT_EQ(gathers.at("edp"), 2 * kExperts);
}

// Ranks 0 to 7 hold the eight experts, 8 to 15 again: a node each.
TEST(ExpertParallel, ExpertsLieWithinANode) {
  const JobSpec job = Mixtral();
  const TaskGraph graph = BuildStep(job, BuildWorkload(job), HostThread::kAhead).graph;
  std::map<std::string, std::vector<std::int32_t>> ranks;
  for (const TaskId t : AllIds<TaskId>(graph.task_count())) {
    if (const auto* work = std::get_if<CollectiveWork>(&graph.work(t))) {
      ranks[graph.group(work->group).name] = graph.group(work->group).ranks;
    }
  }
  EXPECT_THAT(ranks.at("ep"), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(ranks.at("edp"), ElementsAre(0, 8));
}

// 6 + 12/d bytes per parameter, d of experts is that of their own group.
TEST(ExpertParallel, StatesAreCutOverThoseWhoHoldTheSame) {
  const JobSpec job = Mixtral();
  const auto memory = StaticMemory(job, BuildWorkload(job));
  EXPECT_THAT(
      memory,
      ElementsAre(Pair("parameters", Bytes{2 * (kDense + kExperts)}),
                  Pair("gradients", Bytes{4 * (kDense + kExperts)}), Pair("buckets", Bytes{}),
                  Pair("optimizer_states", Bytes{12 * (kDense / kRanks + kExperts / 2)}),
                  Pair("buffers", Bytes{})));
}

// A layer's two all_to_alls of tokens each way, and again with what is recomputed.
TEST(ExpertParallel, FullRecomputationDispatchesAgain) {
  JobSpec job = Mixtral();
  const std::int64_t rows = 2 * kS * kH * 2, weights = 4 * kS * 2;  // top_k 2
  const auto bytes = [&] {
    const TaskGraph graph = BuildStep(job, BuildWorkload(job), HostThread::kAhead).graph;
    return BytesByGroup(graph, CollectiveOp::kAllToAll).at("ep");
  };
  EXPECT_EQ(bytes(), kLayers * (4 * rows + 2 * weights));
  job.recompute.granularity = RecomputeGranularity::kFull;
  EXPECT_EQ(bytes(), kLayers * (6 * rows + 3 * weights));
}

}  // namespace
}  // namespace stepsim
