// What is summed between the last gradient and the optimizer, and over whom?
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "models/parallel/build_step.h"

namespace stepsim {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Eight GPUs; a Llama of four layers, h 64, V 1000.
JobSpec Job(std::int64_t tensor, std::int64_t pipeline) {
  JobSpec job;
  job.gpus_per_node = 8;
  job.plan.strategy = "none";
  job.plan.tensor_parallel = tensor;
  job.plan.pipeline_parallel = pipeline;
  job.batch.sequence_length = 128;
  job.batch.gradient_accumulation_steps = 2;
  job.precision.compute = DType::kFp32;
  job.model.network = TransformerSpec{.layers = 4,
                                      .hidden_size = 64,
                                      .heads = 4,
                                      .kv_heads = 4,
                                      .head_dim = 16,
                                      .ffn_size = 256,
                                      .vocab_size = 1000,
                                      .tied_embeddings = true};
  return job;
}

struct Call {
  std::uint32_t rank = 0;
  std::int64_t bytes = 0;
  std::vector<std::int32_t> group;
  bool operator==(const Call&) const = default;
};

std::vector<Call> CallsOf(const JobSpec& job, const std::string& name) {
  const TaskGraph graph = BuildStep(job, BuildWorkload(job)).graph;
  std::vector<Call> calls;
  for (const TaskId t : AllIds<TaskId>(graph.task_count())) {
    const auto* work = std::get_if<CollectiveWork>(&graph.work(t));
    if (work == nullptr || graph.label(t).name != name) continue;
    calls.push_back({static_cast<std::uint32_t>(Index(graph.rank(t))), work->bytes.value,
                     graph.group(work->group).ranks});
  }
  return calls;
}

// Two norms per layer and the last one, h elements of 4 bytes each.
TEST(FinishGradients, NormsAreSummedOverTheTensorGroup) {
  EXPECT_THAT(CallsOf(Job(2, 1), "all_reduce layer norms"),
              ElementsAre(Call{0, 9 * 64 * 4, {0, 1}}));
  JobSpec whole = Job(2, 1);
  whole.plan.tensor.sequence_parallel = false;
  EXPECT_THAT(CallsOf(whole, "all_reduce layer norms"), IsEmpty());
  EXPECT_THAT(CallsOf(Job(1, 1), "all_reduce layer norms"), IsEmpty());
}

TEST(FinishGradients, TiedEmbeddingsMeetBetweenFirstAndLastStage) {
  EXPECT_THAT(CallsOf(Job(1, 4), "all_reduce tied embedding"),
              ElementsAre(Call{0, 1000 * 64 * 4, {0, 6}}, Call{3, 1000 * 64 * 4, {0, 6}}));
  EXPECT_THAT(CallsOf(Job(1, 1), "all_reduce tied embedding"), IsEmpty());
  JobSpec sharded = Job(1, 4);  // two shards of each gradient
  sharded.plan.strategy = "fsdp2";
  EXPECT_EQ(CallsOf(sharded, "all_reduce tied embedding").front().bytes, 1000 * 64 * 4 / 2);
  JobSpec untied = Job(1, 4);
  std::get<TransformerSpec>(untied.model.network).tied_embeddings = false;
  EXPECT_THAT(CallsOf(untied, "all_reduce tied embedding"), IsEmpty());
  // In a V both ends lie on one rank, which needs no call.
  JobSpec folded = Job(1, 2);
  folded.plan.pipeline.schedule = "zbv";
  folded.batch.gradient_accumulation_steps = 4;
  EXPECT_THAT(CallsOf(folded, "all_reduce tied embedding"), IsEmpty());
}

// Without sharding every replica knows its own norm: one number over the ranks of one copy.
TEST(FinishGradients, TheNormIsOneNumber) {
  EXPECT_THAT(CallsOf(Job(2, 2), "all_reduce gradient norm"),
              ElementsAre(Call{0, 4, {0, 1, 4, 5}}, Call{1, 4, {0, 1, 4, 5}}));
  EXPECT_THAT(CallsOf(Job(1, 1), "all_reduce gradient norm"), IsEmpty());
  JobSpec never = Job(2, 2);
  never.plan.clip_gradients = false;
  EXPECT_THAT(CallsOf(never, "all_reduce gradient norm"), IsEmpty());
}

std::vector<std::vector<std::int32_t>> NormGroupsOf(const JobSpec& job) {
  std::vector<std::vector<std::int32_t>> groups;
  for (const Call& call : CallsOf(job, "all_reduce gradient norm")) {
    if (call.rank == 0) groups.push_back(call.group);
  }
  return groups;
}

using Ranks = std::vector<std::int32_t>;
const Ranks kAll = {0, 1, 2, 3, 4, 5, 6, 7};

// tp 2, dp 2, pp 2, in this order of the mesh. PyTorch's norm of DTensors is summed along each axis
// that cuts gradients, then over the stages; copies of HSDP know it already.
TEST(FinishGradients, PytorchSumsTheNormAlongEveryAxis) {
  JobSpec job = Job(2, 2);
  job.plan.strategy = "fsdp2";
  EXPECT_THAT(NormGroupsOf(job), ElementsAre(Ranks{0, 2}, Ranks{0, 1}, Ranks{0, 4}));
  job.plan.fsdp2.shard_size = 1;
  EXPECT_THAT(NormGroupsOf(job), ElementsAre(Ranks{0, 1, 4, 5}));
}

// DeepSpeed's scaled_global_norm: over the data parallel ranks, then over the model parallel ones.
TEST(FinishGradients, DeepSpeedSumsTheNormTwice) {
  JobSpec job = Job(2, 2);
  job.plan.strategy = "zero";
  EXPECT_THAT(NormGroupsOf(job), ElementsAre(Ranks{0, 2}, Ranks{0, 1, 4, 5}));
}

// Megatron-LM's grad_stats_parallel_group: all ranks of one instance of the distributed optimizer;
// without it the model parallel ranks, and those of the experts' mesh for experts.
TEST(FinishGradients, MegatronSumsTheNormOverOneCopyOfTheStates) {
  JobSpec job = Job(2, 2);
  job.plan.strategy = "megatron";
  job.precision.compute = DType::kBf16;
  EXPECT_THAT(NormGroupsOf(job), ElementsAre(Ranks{0, 1, 4, 5}));
  job.plan.megatron.use_distributed_optimizer = true;
  EXPECT_THAT(NormGroupsOf(job), ElementsAre(kAll));
  job.plan.megatron.num_distributed_optimizer_instances = 2;
  EXPECT_THAT(NormGroupsOf(job), ElementsAre(Ranks{0, 1, 4, 5}));

  JobSpec experts = Job(1, 2);
  experts.plan.strategy = "megatron";
  experts.precision.compute = DType::kBf16;
  auto& spec = std::get<TransformerSpec>(experts.model.network);
  spec.gated_mlp = true;
  spec.experts = {.count = 4, .top_k = 2, .ffn_size = 64};
  experts.plan.expert_parallel = 2;
  EXPECT_THAT(NormGroupsOf(experts), ElementsAre(Ranks{0, 4}, Ranks{0, 1, 4, 5}));
  experts.plan.megatron.use_distributed_optimizer = true;
  EXPECT_THAT(NormGroupsOf(experts), ElementsAre(kAll));
}

}  // namespace
}  // namespace stepsim
