// FSDP2 with experts on ranks of their own, as torchtitan wraps them: who gathers what from whom,
// in which order, and what each rank holds. Mixtral's numbers, two layers of it on 16 GPUs.
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
constexpr std::int64_t kRanks = 16, kExpertRanks = 4, kCount = 8, kTopK = 2, kLayers = 2;
constexpr std::int64_t kRoot = 2 * kV * kH + kH;
constexpr std::int64_t kLayer = kH * (kH + 2 * 1024) + kH * kH + 2 * kH + kCount * kH;
constexpr std::int64_t kExperts = kCount / kExpertRanks * 3 * kH * kF;  // of a layer on each rank
constexpr std::int64_t kRows = kS * kTopK * kH * 2;                     // bf16

JobSpec Mixtral(const std::string& strategy = "fsdp2") {
  TransformerSpec spec = testing::Mixtral8x7b();
  spec.layers = kLayers;
  JobSpec job = testing::JobOf(spec, 1, kS);
  job.kernels = KernelMode::kFused;
  job.nodes = 2;
  job.gpus_per_node = 8;
  job.plan.strategy = strategy;
  job.plan.expert_parallel = kExpertRanks;
  job.plan.fsdp2.reduce_dtype = DType::kFp32;
  job.precision.compute = DType::kBf16;
  job.precision.parameters = DType::kFp32;
  return job;
}

struct Call {
  std::string name, op, group;
  std::vector<std::int32_t> ranks;
  std::int64_t bytes = 0;
};

// In the order of the launches.
std::vector<Call> CallsOf(const JobSpec& job) {
  const TaskGraph graph = BuildStep(job, BuildWorkload(job), HostThread::kAhead).graph;
  std::vector<Call> calls;
  for (const TaskId t : AllIds<TaskId>(graph.task_count())) {
    const auto* work = std::get_if<CollectiveWork>(&graph.work(t));
    if (work == nullptr) continue;
    const auto& group = graph.group(work->group);
    calls.push_back({graph.label(t).name, std::string(ToString(work->op)), group.name, group.ranks,
                     work->bytes.value});
  }
  return calls;
}

// By kind of call and group.
std::map<std::string, std::int64_t> BytesOf(const JobSpec& job) {
  std::map<std::string, std::int64_t> bytes;
  for (const Call& call : CallsOf(job)) bytes[call.op + " " + call.group] += call.bytes;
  return bytes;
}

std::vector<std::string> Sharding(const JobSpec& job) {
  std::vector<std::string> names;
  for (const Call& call : CallsOf(job)) {
    if (call.group != "ep") names.push_back(call.name);
  }
  return names;
}

// Layers and their experts are gathered for forward and for backward, in bf16, the root once; all
// gradients are scattered in fp32. Each rank's experts are cut over the 16 / 4 ranks that hold the
// same. Tokens travel four times, counts of 8 bytes for each expert once a layer.
TEST(Fsdp2Experts, BytesFollowFromTheMesh) {
  EXPECT_THAT(BytesOf(Mixtral()),
              ElementsAre(Pair("all_gather dp", 2 * (2 * kLayers * kLayer + kRoot)),
                          Pair("all_gather edp", 2 * 2 * kLayers * kExperts),
                          Pair("all_to_all ep", kLayers * (4 * kRows + 8 * kCount)),
                          Pair("reduce_scatter dp", 4 * (kLayers * kLayer + kRoot)),
                          Pair("reduce_scatter edp", 4 * kLayers * kExperts)));
}

TEST(Fsdp2Experts, GroupsAreThoseOfTheMesh) {
  std::map<std::string, std::vector<std::int32_t>> ranks;
  for (const Call& call : CallsOf(Mixtral())) ranks[call.group] = call.ranks;
  EXPECT_THAT(ranks.at("ep"), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(ranks.at("edp"), ElementsAre(0, 4, 8, 12));
  EXPECT_EQ(ranks.at("dp").size(), std::size_t{kRanks});
}

// apply_fsdp's lists: a block names the next block and its experts, what is no block names a block
// alone. So nobody names the experts that come first in a direction.
TEST(Fsdp2Experts, LayersNameTheNextLayerAndItsExperts) {
  EXPECT_THAT(
      Sharding(Mixtral()),
      ElementsAre("all_gather root", "all_gather layers.0", "all_gather layers.1",
                  "all_gather layers.1.experts", "all_gather layers.0.experts",
                  // backward
                  "all_gather layers.1", "all_gather layers.0", "all_gather layers.0.experts",
                  "all_gather layers.1.experts", "reduce_scatter layers.1.experts",
                  "reduce_scatter layers.1", "reduce_scatter layers.0.experts",
                  "reduce_scatter layers.0", "reduce_scatter root"));
}

// FSDP2 by itself: in forward at need, in backward the one before in the order of the ends of
// forward, in which experts come before their layer.
TEST(Fsdp2Experts, ImplicitPrefetchFollowsTheOrderOfForward) {
  JobSpec job = Mixtral();
  job.plan.fsdp2.layer_prefetch = false;
  EXPECT_THAT(
      Sharding(job),
      ElementsAre("all_gather root", "all_gather layers.0", "all_gather layers.0.experts",
                  "all_gather layers.1", "all_gather layers.1.experts",
                  // backward
                  "all_gather layers.1", "all_gather layers.1.experts", "all_gather layers.0",
                  "reduce_scatter layers.1.experts", "reduce_scatter layers.1",
                  "all_gather layers.0.experts", "reduce_scatter layers.0.experts",
                  "reduce_scatter layers.0", "reduce_scatter root"));
}

// The experts' gather is launched before the host waits for the counts, their reduction behind the
// gradients' way back.
TEST(Fsdp2Experts, ExchangesLieWithinTheGroup) {
  std::vector<std::string> names;
  for (const Call& call : CallsOf(Mixtral())) {
    if (call.name.find("layers.0.") != std::string::npos) names.push_back(call.name);
  }
  EXPECT_THAT(names,
              ElementsAre("all_gather layers.0.experts", "layers.0.moe.dispatch all_to_all counts",
                          "layers.0.moe.dispatch all_to_all tokens",
                          "layers.0.moe.unsort all_to_all tokens", "all_gather layers.0.experts",
                          "layers.0.moe.unsort all_to_all token gradients",
                          "layers.0.moe.dispatch all_to_all token gradients",
                          "reduce_scatter layers.0.experts"));
}

// As many ranks as shards: every rank has its experts whole. Nothing is gathered, and what
// reduce_scatter would divide a kernel divides.
TEST(Fsdp2Experts, WholeExpertsAreNotGathered) {
  JobSpec job = Mixtral();
  std::get<TransformerSpec>(job.model.network).experts.count = kRanks;
  job.plan.expert_parallel = kRanks;
  const auto bytes = BytesOf(job);
  EXPECT_EQ(bytes.count("all_gather edp") + bytes.count("reduce_scatter edp"), 0u);
  const TaskGraph graph = BuildStep(job, BuildWorkload(job), HostThread::kAhead).graph;
  std::int64_t divided = 0;
  for (const TaskId t : AllIds<TaskId>(graph.task_count())) {
    if (graph.label(t).name.rfind("divide ", 0) != 0) continue;
    EXPECT_EQ(std::get<ComputeWork>(graph.work(t)).bytes.value, 4 * 4 * 3 * kH * kF);  // fp32
    ++divided;
  }
  EXPECT_EQ(divided, kLayers);
}

// Two copies of 8 ranks: experts over 2 of each, and summed with the same shard of the other.
TEST(Fsdp2Experts, HybridShardsExpertsWithinACopy) {
  JobSpec job = Mixtral();
  job.plan.fsdp2.shard_size = 8;
  std::map<std::string, std::vector<std::int32_t>> ranks;
  for (const Call& call : CallsOf(job)) ranks[call.group] = call.ranks;
  EXPECT_THAT(ranks.at("shard"), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(ranks.at("replicate"), ElementsAre(0, 8));
  EXPECT_THAT(ranks.at("edp shard"), ElementsAre(0, 4));
  EXPECT_THAT(ranks.at("edp replicate"), ElementsAre(0, 8));
  const auto bytes = BytesOf(job);
  EXPECT_EQ(bytes.at("reduce_scatter edp shard"), 4 * kLayers * kExperts);
  EXPECT_EQ(bytes.at("all_reduce edp replicate"), 4 * kLayers * kExperts / 2);
}

// fp32 shards and two states: 12 bytes a parameter over the ranks that hold it.
TEST(Fsdp2Experts, StatesAreCutOverThoseWhoHoldTheSame) {
  const JobSpec job = Mixtral();
  const std::int64_t dense = (kLayers * kLayer + kRoot) / kRanks;
  const std::int64_t experts = kLayers * kExperts / (kRanks / kExpertRanks);
  EXPECT_THAT(
      StaticMemory(job, BuildWorkload(job)),
      ElementsAre(Pair("parameters", Bytes{4 * (dense + experts)}), Pair("gradients", Bytes{}),
                  Pair("buckets", Bytes{}), Pair("optimizer_states", Bytes{8 * (dense + experts)}),
                  Pair("buffers", Bytes{})));
}

// A checkpoint around the layer runs the experts' hooks again; PyTorch does not reshard behind a
// forward that runs in backward. So full recomputation gathers no more, but sends tokens again;
// torchtitan's `op` keeps what was sent.
TEST(Fsdp2Experts, RecomputationGathersNoMore) {
  JobSpec job = Mixtral();
  const auto before = BytesOf(job);
  job.recompute.granularity = RecomputeGranularity::kFull;
  const auto full = BytesOf(job);
  EXPECT_EQ(full.at("all_gather edp"), before.at("all_gather edp"));
  EXPECT_EQ(full.at("all_to_all ep"), kLayers * (6 * kRows + 2 * 8 * kCount));
  job.recompute.granularity = RecomputeGranularity::kSelective;
  job.recompute.policy = RecomputePolicy::kOp;
  EXPECT_EQ(BytesOf(job), before);
}

// DTensor gathers a layer's tokens over the tensor parallel ranks and scatters the sums, as around
// a dense layer's MLP. Each rank sends its part of the rows to whole experts, or all of them to its
// part of each expert.
TEST(Fsdp2Experts, TensorParallelRanksShareRowsOrExperts) {
  JobSpec job = Mixtral();
  job.plan.tensor_parallel = 2;
  JobSpec dense = job;
  std::get<TransformerSpec>(dense.model.network).experts = {};
  dense.plan.expert_parallel = 1;
  const auto of_dense = BytesOf(dense);
  const auto expect = [&](std::int64_t rows, std::int64_t experts) {
    const auto bytes = BytesOf(job);
    EXPECT_EQ(bytes.at("all_gather tp"), of_dense.at("all_gather tp"));
    EXPECT_EQ(bytes.at("reduce_scatter tp"), of_dense.at("reduce_scatter tp"));
    EXPECT_EQ(bytes.count("all_gather etp") + bytes.count("reduce_scatter etp"), 0u);
    EXPECT_EQ(bytes.at("all_to_all ep"), kLayers * (4 * rows + 8 * kCount));
    EXPECT_EQ(bytes.at("all_gather edp"), 2 * 2 * kLayers * experts);
  };
  job.plan.expert.tensor_parallel = 1;
  expect(kRows / 2, kExperts);
  job.plan.expert.tensor_parallel = 2;
  expect(kRows, kExperts / 2);
}

// With all experts on every rank they belong to their layer.
TEST(Fsdp2Experts, ExpertsOnEveryRankAreTheLayers) {
  JobSpec job = Mixtral();
  job.plan.expert_parallel = 1;
  const std::int64_t all = kLayers * (kLayer + kExpertRanks * kExperts);
  EXPECT_THAT(BytesOf(job), ElementsAre(Pair("all_gather dp", 2 * (2 * all + kRoot)),
                                        Pair("reduce_scatter dp", 4 * (all + kRoot))));
}

// Experts are a module of their own, whose gradients the ranks with the same ones sum.
TEST(DdpExperts, GradientsHaveAGroupOfTheirOwn) {
  const auto bytes = BytesOf(Mixtral("ddp"));
  EXPECT_EQ(bytes.at("all_reduce dp"), 4 * (kLayers * kLayer + kRoot));
  EXPECT_EQ(bytes.at("all_reduce edp"), 4 * kLayers * kExperts);
  EXPECT_THAT(BytesOf(Mixtral("none")),
              ElementsAre(Pair("all_to_all ep", kLayers * (4 * kRows + 8 * kCount))));
}

// Two copies of the optimizer states: each over half of the ranks that hold the same experts.
TEST(MegatronExperts, InstancesShareTheExpertsOut) {
  JobSpec job = Mixtral("megatron");
  job.precision.parameters = DType::kBf16;
  job.plan.clip_gradients = false;
  job.plan.megatron = {.use_distributed_optimizer = true,
                       .overlap_grad_reduce = true,
                       .num_distributed_optimizer_instances = 2};
  std::map<std::string, std::vector<std::int32_t>> ranks;
  for (const Call& call : CallsOf(job)) ranks[call.group] = call.ranks;
  EXPECT_THAT(ranks.at("edp instance"), ElementsAre(0, 4));
  EXPECT_THAT(ranks.at("edp instances"), ElementsAre(0, 8));
  const auto bytes = BytesOf(job);
  EXPECT_EQ(bytes.at("reduce_scatter edp instance"), 4 * kLayers * kExperts);
  EXPECT_EQ(bytes.at("all_reduce edp instances"), 4 * kLayers * kExperts / 2);
  const auto memory = StaticMemory(job, BuildWorkload(job));
  const std::int64_t states = (kLayers * kLayer + kRoot) / 8 + kLayers * kExperts / 2;
  EXPECT_EQ(memory[3].second, Bytes{12 * states});
}

}  // namespace
}  // namespace stepsim
