// Two accounts of what a layer keeps: the simulator's operators and the closed form's tensors,
// written independently. They differ by row statistics, which the operators leave out.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "models/memory/formula_activations.h"
#include "models/workload/workload.h"
#include "tests/support/shipped.h"

namespace stepsim {
namespace {

struct Case {
  const char* name;
  LayerKernels kernels;
  KeptActivations kept;
  std::vector<std::string> sets;
};

class KeptBytes : public ::testing::TestWithParam<Case> {};

// Two sequences of 8192 tokens of Llama 3 8B under FSDP2, as torchtitan trains it.
TEST_P(KeptBytes, OfOneLayerAgreeWithTheSimulator) {
  std::vector<std::string> sets = GetParam().sets;
  sets.emplace_back("batch.micro_batch_size=2");
  const ResolvedJob resolved = testing::LoadShipped("llama-3-8b_fsdp2_16xh100", sets);
  const Workload workload = BuildWorkload(resolved.job);
  Bytes simulated;
  for (const Operator& op : workload.units[1].operators) simulated += op.kept();

  FormulaJob job;
  job.model = {
      .layers = 32, .hidden = 4096, .heads = 32, .kv_heads = 8, .ffn = 14336, .vocab = 128256};
  job.states = StateLayout::kFsdp2;
  job.kernels = GetParam().kernels;
  job.kept = GetParam().kept;
  job.sequence = 8192;
  job.micro_batch = 2;
  const double closed = KeptLayerBytes(job, LayerKind::kDense);
  EXPECT_LE(ToDouble(simulated), closed);
  EXPECT_NEAR(ToDouble(simulated) / closed, 1, 0.004);
}

INSTANTIATE_TEST_SUITE_P(
    Llama, KeptBytes,
    ::testing::Values(
        Case{"EagerOp",
             LayerKernels::kEager,
             KeptActivations::kEverySecondProduct,
             {"recompute.granularity=selective", "recompute.policy=op"}},
        Case{"Full",
             LayerKernels::kFused,
             KeptActivations::kLayerInputs,
             {"kernels=compiled", "recompute.granularity=full"}},
        Case{"FusedNone", LayerKernels::kFused, KeptActivations::kAll, {"kernels=fused"}}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace stepsim
