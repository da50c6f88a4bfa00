#include "models/workload/stages.h"

#include <gmock/gmock.h>

#include <variant>

namespace stepsim {
namespace {

using ::testing::ElementsAre;

JobSpec Job(std::int64_t layers) {
  JobSpec job;
  job.plan.pipeline_parallel = 4;
  job.batch.sequence_length = 128;
  job.model.network = TransformerSpec{.layers = layers,
                                      .hidden_size = 64,
                                      .heads = 4,
                                      .kv_heads = 4,
                                      .head_dim = 16,
                                      .ffn_size = 256,
                                      .vocab_size = 1000,
                                      .tied_embeddings = true};
  return job;
}

StageSplit Split(const JobSpec& job, std::int64_t stages) {
  return SplitLayers(job, BuildWorkload(job), stages);
}

TEST(Stages, LayersGoEvenlyAndTheRestToTheFirst) {
  EXPECT_THAT(Split(Job(8), 4), ElementsAre(2, 2, 2, 2));
  EXPECT_THAT(Split(Job(10), 4), ElementsAre(3, 3, 2, 2));
}

TEST(Stages, EndsCanCountAsLayers) {
  JobSpec job = Job(10);
  job.plan.pipeline.balance = StageBalance::kEnds;
  EXPECT_THAT(Split(job, 4), ElementsAre(2, 3, 3, 2));
  EXPECT_THAT(Split(Job(2), 2), ElementsAre(1, 1));
}

TEST(Stages, CanBeGiven) {
  JobSpec job = Job(10);
  job.plan.pipeline.layers_per_stage = {1, 4, 4, 1};
  EXPECT_THAT(Split(job, 4), ElementsAre(1, 4, 4, 1));
}

// The head is as much work as layers x 1000 x 64 / (12 x 64^2): here about 1.3 of them.
TEST(Stages, AreBalancedByWork) {
  JobSpec job = Job(11);
  job.plan.pipeline.balance = StageBalance::kTime;
  const StageSplit split = Split(job, 4);
  EXPECT_EQ(split.size(), 4u);
  EXPECT_LT(split.back(), split.front());
  std::int64_t sum = 0;
  for (const std::int64_t layers : split) sum += layers;
  EXPECT_EQ(sum, 11);
}

// Embedding and head have 2000 x 64 parameters each, a layer about 12 x 64^2: 2.6 of them. One
// layer beside each makes 3.7 of them at most, every other split has a stage of 4 or more.
TEST(Stages, AreBalancedByParameters) {
  JobSpec job = Job(8);
  std::get<TransformerSpec>(job.model.network).vocab_size = 2000;
  job.plan.pipeline.balance = StageBalance::kParameters;
  EXPECT_THAT(Split(job, 4), ElementsAre(1, 3, 3, 1));
}

// Parameters, work and activations are those of the whole, but for the second copy of a tied table.
TEST(Stages, HoldTheNetworkBetweenThem) {
  const JobSpec job = Job(8);
  const Workload whole = BuildWorkload(job);
  const std::vector<Workload> stages = SplitWorkload(job, whole, {2, 2, 2, 2});
  std::int64_t parameters = 0;
  Bytes saved;
  std::size_t units = 0;
  for (const Workload& stage : stages) {
    parameters += stage.parameter_count();
    saved += stage.saved_bytes();
    units += stage.units.size();
    // Every parameter of a stage is completed in it, once.
    EXPECT_EQ(stage.ArrivalOrder().size(), stage.parameters.size());
  }
  EXPECT_EQ(parameters, whole.parameter_count() + 1000 * 64);
  EXPECT_EQ(saved, whole.saved_bytes());
  EXPECT_EQ(units, whole.units.size());
  EXPECT_EQ(stages.front().units.front().name, "embedding");
  EXPECT_EQ(stages.back().units.back().name, "loss");
  EXPECT_TRUE(stages.back().parameters.front().name.ends_with("(tied)"));
}

// Checkpoints of two layers do not reach over the end of a stage of three.
TEST(Stages, CheckpointsEndWithThem) {
  JobSpec job = Job(6);
  job.recompute.granularity = RecomputeGranularity::kFull;
  job.recompute.num_layers = 2;
  for (const Workload& stage : SplitWorkload(job, BuildWorkload(job), {3, 3})) {
    for (const Rerun& rerun : stage.reruns) {
      for (const Rerun::Step& step : rerun.steps) {
        EXPECT_GE(step.place.unit, 0);
        EXPECT_LT(step.place.unit, static_cast<std::int32_t>(stage.units.size()));
      }
    }
    EXPECT_EQ(stage.reruns.size(), 2u);  // of two layers, and of one
  }
}

}  // namespace
}  // namespace stepsim
