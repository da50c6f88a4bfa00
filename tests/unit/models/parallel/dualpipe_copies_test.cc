// DualPipe: each stage lies on two ranks of a pipeline, r and p-1-r. Who sums its gradients, how
// much, and who holds which part of its optimizer states?
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "models/memory/memory.h"
#include "models/parallel/build_step.h"
#include "models/spec/pipeline_rules.h"
#include "models/spec/sharding.h"
#include "models/workload/stages.h"

namespace stepsim {
namespace {

using ::testing::ElementsAre;

// Eight GPUs: four stages of two replicas, ranks {0, 1}, {2, 3}, {4, 5}, {6, 7}.
JobSpec Job(const std::string& strategy, const std::string& schedule = "dualpipe") {
  JobSpec job;
  job.gpus_per_node = 8;
  job.plan.strategy = strategy;
  job.plan.pipeline_parallel = 4;
  job.plan.pipeline.schedule = schedule;
  job.plan.clip_gradients = false;
  job.batch.sequence_length = 128;
  job.batch.gradient_accumulation_steps = 8;
  job.precision.compute = strategy == "megatron" ? DType::kBf16 : DType::kFp32;
  job.model.network = TransformerSpec{.layers = 8,
                                      .hidden_size = 64,
                                      .heads = 4,
                                      .kv_heads = 4,
                                      .head_dim = 16,
                                      .ffn_size = 256,
                                      .gated_mlp = true,
                                      .vocab_size = 1024};
  return job;
}

std::vector<Workload> StagesOf(const JobSpec& job) {
  const Workload whole = BuildWorkload(job);
  return SplitWorkload(job, whole, SplitLayers(job, whole, ScheduleOf(job).stages()));
}

struct Sums {
  std::int64_t bytes = 0;
  std::vector<std::int32_t> ranks;
};

// Of the first rank's calls of one kind, by group.
std::map<std::string, Sums> SumsOf(const JobSpec& job, CollectiveOp op) {
  const TaskGraph graph = BuildStep(job, BuildWorkload(job)).graph;
  std::map<std::string, Sums> sums;
  for (const TaskId t : AllIds<TaskId>(graph.task_count())) {
    const auto* work = std::get_if<CollectiveWork>(&graph.work(t));
    if (work == nullptr || work->op != op || graph.rank(t) != RankId{}) continue;
    Sums& sum = sums[graph.group(work->group).name];
    sum.bytes += work->bytes.value;
    sum.ranks = graph.group(work->group).ranks;
  }
  return sums;
}

// fp32 gradients of the first stage and of the last, of which rank 0 has a copy each.
TEST(DualPipeCopies, GradientsOfBothCopiesAreSummedTogether) {
  const JobSpec job = Job("ddp");
  const std::vector<Workload> stages = StagesOf(job);
  const auto sums = SumsOf(job, CollectiveOp::kAllReduce);
  EXPECT_THAT(sums.at("dp").ranks, ElementsAre(0, 1, 6, 7));
  EXPECT_EQ(sums.at("dp").bytes,
            4 * (stages.front().parameter_count() + stages.back().parameter_count()));
  EXPECT_THAT(SumsOf(Job("ddp", "1f1b"), CollectiveOp::kAllReduce).at("dp").ranks,
              ElementsAre(0, 1));
}

// 12 bytes of states per parameter over 2 replicas x 2 copies; parameters and gradients of both
// stages whole: 2 + 4. Every stage's elements divide by what buckets are padded to (4 x 128).
TEST(DualPipeCopies, OptimizerStatesAreCutOverBothCopies) {
  JobSpec job = Job("megatron");
  job.plan.megatron.use_distributed_optimizer = true;
  EXPECT_EQ(job.gradient_ranks(), 4);
  EXPECT_EQ(ShardingOf(job).optimizer_shards, 4);
  const std::vector<Workload> stages = StagesOf(job);
  for (const Workload& stage : stages) {
    const std::int64_t count = stage.parameter_count();
    std::map<std::string, Bytes> memory;
    for (const auto& [category, bytes] : StaticMemory(job, stage)) memory[category] = bytes;
    EXPECT_EQ(memory.at("parameters"), Bytes{2 * count});
    EXPECT_EQ(memory.at("gradients"), Bytes{4 * count});
    EXPECT_EQ(memory.at("optimizer_states"), Bytes{12 * ((count + 3) / 4)});
  }
  const auto scattered = SumsOf(job, CollectiveOp::kReduceScatter);
  EXPECT_THAT(scattered.at("dp").ranks, ElementsAre(0, 1, 6, 7));
  const std::int64_t held = stages.front().parameter_count() + stages.back().parameter_count();
  EXPECT_GE(scattered.at("dp").bytes, 4 * held);
  EXPECT_LE(scattered.at("dp").bytes, 4 * (held + 2 * 4 * 128));  // a bucket of padding each
}

// Two experts over a stage's two ranks: the other copy of rank 0's is on rank 6 alone.
TEST(DualPipeCopies, ExpertsHaveTwoCopiesToo) {
  JobSpec job = Job("megatron");
  job.plan.megatron.use_distributed_optimizer = true;
  job.plan.expert_parallel = 2;
  std::get<TransformerSpec>(job.model.network).experts = {.count = 2, .top_k = 1, .ffn_size = 256};
  EXPECT_EQ(job.expert_gradient_ranks(), 2);
  const auto scattered = SumsOf(job, CollectiveOp::kReduceScatter);
  EXPECT_THAT(scattered.at("edp").ranks, ElementsAre(0, 6));
  EXPECT_THAT(scattered.at("dp").ranks, ElementsAre(0, 1, 6, 7));
}

}  // namespace
}  // namespace stepsim
