#include "models/workload/layer_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stepsim {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

LayerSpec Layer(std::string name, double flops, std::int64_t bytes,
                std::vector<ParameterSpec> parameters) {
  LayerSpec layer;
  layer.name = std::move(name);
  layer.forward_flops = Flops{flops};
  layer.forward_bytes = Bytes{bytes};
  layer.parameters = std::move(parameters);
  return layer;
}

// conv (10 parameters) - pool (none) - fc (20 + 2), micro-batch 4
JobSpec SmallNet() {
  LayerListSpec list;
  list.layers = {Layer("conv", 100, 8, {{"conv.weight", 10, {}}}), Layer("pool", 0, 6, {}),
                 Layer("fc", 40, 2, {{"fc.weight", 20, {}}, {"fc.bias", 2, {}}})};
  list.tokens_per_sample = 3;
  JobSpec job;
  job.model.network = list;
  job.batch.micro_batch_size = 4;
  job.batch.sequence_length = 1000;  // means nothing to a list
  return job;
}

LayerListSpec& ListOf(JobSpec& job) { return std::get<LayerListSpec>(job.model.network); }

TEST(LayerList, ScalesEveryLayerByTheMicroBatch) {
  const Workload workload = BuildWorkload(SmallNet());
  ASSERT_THAT(workload.units, SizeIs(3));
  EXPECT_EQ(workload.units[0].name, "conv");
  const ComputeWork& conv = workload.units[0].operators[0].forward;
  EXPECT_EQ(conv.flops, Flops{4 * 100.0});
  EXPECT_EQ(conv.bytes, Bytes{4 * 8});
  EXPECT_EQ(conv.compute_class, ComputeClass::kGemm);
  EXPECT_EQ(conv.dtype, DType::kBf16);
  EXPECT_EQ(workload.samples, 4);
  EXPECT_EQ(workload.tokens, 12);
}

TEST(LayerList, LayerWithoutFlopsIsBoundByMemory) {
  const Workload workload = BuildWorkload(SmallNet());
  EXPECT_EQ(workload.units[1].operators[0].forward.compute_class, ComputeClass::kMemory);
}

TEST(LayerList, FirstLayerHasOnlyItsWeightGradient) {
  const Workload workload = BuildWorkload(SmallNet());
  const Operator& conv = workload.units[0].operators[0];
  EXPECT_THAT(conv.backward_input, IsEmpty());
  ASSERT_THAT(conv.backward_weight, SizeIs(1));
  EXPECT_EQ(conv.backward_weight[0].flops, Flops{4 * 100.0});
  EXPECT_EQ(conv.backward_weight[0].bytes, Bytes{4 * 8});
}

TEST(LayerList, FirstLayerTakesAStatedBackwardAsGiven) {
  JobSpec job = SmallNet();
  ListOf(job).layers[0].backward_flops = Flops{150};
  const Workload workload = BuildWorkload(job);
  const Operator& conv = workload.units[0].operators[0];
  EXPECT_THAT(conv.backward_input, IsEmpty());
  EXPECT_EQ(conv.backward_weight[0].flops, Flops{4 * 150.0});
}

TEST(LayerList, LayerWithoutParametersHasOnlyAnInputGradient) {
  const Workload workload = BuildWorkload(SmallNet());
  const Operator& pool = workload.units[1].operators[0];
  EXPECT_THAT(pool.backward_weight, IsEmpty());
  ASSERT_THAT(pool.backward_input, SizeIs(1));
  EXPECT_EQ(pool.backward_input[0].bytes, Bytes{4 * 2 * 6});
  EXPECT_EQ(pool.backward_input[0].compute_class, ComputeClass::kMemory);
}

TEST(LayerList, BackwardIsHalfInputHalfWeightGradient) {
  JobSpec job = SmallNet();
  ListOf(job).layers[2].backward_bytes = Bytes{5};  // odd: nothing may get lost
  const Workload workload = BuildWorkload(job);
  const Operator& fc = workload.units[2].operators[0];
  ASSERT_THAT(fc.backward_input, SizeIs(1));
  ASSERT_THAT(fc.backward_weight, SizeIs(1));
  EXPECT_EQ(fc.backward_input[0].flops, Flops{4 * 40.0});
  EXPECT_EQ(fc.backward_weight[0].flops, Flops{4 * 40.0});
  EXPECT_EQ(fc.backward_input[0].bytes + fc.backward_weight[0].bytes, Bytes{4 * 5});
}

TEST(LayerList, NoGradientFlowsBelowTheFirstParameter) {
  JobSpec job = SmallNet();
  auto& layers = ListOf(job).layers;
  layers.insert(layers.begin(), Layer("normalise", 0, 9, {}));
  const Workload workload = BuildWorkload(job);
  const Operator& normalise = workload.units[0].operators[0];
  EXPECT_THAT(normalise.backward_input, IsEmpty());
  EXPECT_THAT(normalise.backward_weight, IsEmpty());
  EXPECT_THAT(workload.units[1].operators[0].backward_input, IsEmpty());  // conv
}

TEST(LayerList, ALinearDeliversItsBiasFirst) {
  const Workload workload = BuildWorkload(SmallNet());
  EXPECT_EQ(workload.parameters[1].name, "fc.weight");
  EXPECT_THAT(workload.ArrivalOrder(), ElementsAre(2, 1, 0));
}

// Recorded with torch 1.13.1: a batch norm's gradients arrive in registration order.
TEST(LayerList, ANormDeliversItsWeightFirst) {
  JobSpec job = SmallNet();
  auto& layers = ListOf(job).layers;
  layers.insert(layers.begin() + 1, Layer("bn", 0, 9, {{"bn.weight", 1, {}}, {"bn.bias", 1, {}}}));
  const Workload workload = BuildWorkload(job);
  EXPECT_EQ(workload.parameters[1].name, "bn.weight");
  EXPECT_THAT(workload.ArrivalOrder(), ElementsAre(4, 3, 1, 2, 0));
}

TEST(LayerList, ParametersTakeTheirOwnTypeOrTheJobs) {
  JobSpec job = SmallNet();
  job.precision.parameters = DType::kFp32;
  ListOf(job).layers[2].parameters[0].dtype = DType::kFp16;
  const Workload workload = BuildWorkload(job);
  EXPECT_EQ(workload.parameters[0].bytes(), Bytes{40});
  EXPECT_EQ(workload.parameters[1].bytes(), Bytes{40});  // 20 x 2
  EXPECT_EQ(workload.parameter_bytes(), Bytes{40 + 40 + 8});
  EXPECT_EQ(workload.parameter_count(), 32);
}

TEST(LayerList, SumsSavedActivationsAndBuffers) {
  JobSpec job = SmallNet();
  ListOf(job).layers[0].saved_bytes = Bytes{7};
  ListOf(job).layers[0].buffers = Bytes{16};
  ListOf(job).layers[2].buffers = Bytes{8};
  const Workload workload = BuildWorkload(job);
  EXPECT_EQ(workload.saved_bytes(), Bytes{4 * 7});
  EXPECT_EQ(workload.buffers, Bytes{24});  // statistics do not grow with the batch
}

// The profiled time is of the micro-batch as it is; backward is twice the forward where only that
// is given, half of it the input gradient's.
TEST(LayerList, ProfiledTimesTakeThePlaceOfFlops) {
  JobSpec job = SmallNet();
  LayerSpec& fc = ListOf(job).layers[2];
  fc.forward_time = Duration{1000};
  const Workload twice = BuildWorkload(job);
  const Operator& op = twice.units[2].operators[0];
  EXPECT_EQ(op.forward.measured, 1000);
  EXPECT_EQ(op.forward.flops, Flops{4 * 40.0});
  ASSERT_THAT(op.backward_input, SizeIs(1));
  EXPECT_EQ(op.backward_input[0].measured, 1000);
  EXPECT_EQ(op.backward_weight[0].measured, 1000);
  EXPECT_EQ(twice.units[0].operators[0].forward.measured, 0);

  ListOf(job).layers[2].backward_time = Duration{777};
  const Workload given = BuildWorkload(job);
  EXPECT_EQ(given.units[2].operators[0].backward_input[0].measured, 388);
  EXPECT_EQ(given.units[2].operators[0].backward_weight[0].measured, 389);
}

// Without FLOPs it is no memory-bound kernel either: contention may slow it.
TEST(LayerList, ProfiledLayerWithoutFlopsIsAProduct) {
  JobSpec job = SmallNet();
  ListOf(job).layers[1].forward_time = Duration{1};
  const Workload workload = BuildWorkload(job);
  EXPECT_EQ(workload.units[1].operators[0].forward.compute_class, ComputeClass::kGemm);
}

}  // namespace
}  // namespace stepsim
