// What a job says about tensor parallelism is wrong where the ranks could not have equal parts: the
// message names the place, what was found and the nearest that is valid.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/shipped.h"

namespace stepsim {
namespace {

using ::testing::HasSubstr;

constexpr const char* kJob =
    "{model: llama-3-8b, hardware: h100-sxm-dgx, plan: {tensor_parallel: 8}, "
    "batch: {sequence_length: 8192}}";

std::string ProblemsOf(const std::vector<std::string>& sets, const std::string& job = kJob) {
  try {
    testing::LoadText(job, sets);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

TEST(TensorRules, AdmitsPowersOfTwo) {
  EXPECT_EQ(ProblemsOf({}), "");
  EXPECT_EQ(ProblemsOf({"nodes=2", "plan.tensor_parallel=16"}), "");  // two ranks on a key head
}

TEST(TensorRules, DivideHeadsAndWidth) {
  const std::string problems =
      ProblemsOf({"nodes=3", "plan.tensor_parallel=12", "batch.sequence_length=12288"});
  EXPECT_THAT(problems, HasSubstr("tensor_parallel (12) must divide heads (32) of model "
                                  "llama-3-8b; nearest valid: 8 or 16"));
  EXPECT_THAT(problems, HasSubstr("must divide ffn_size (14336)"));
}

// 6 of 12 heads of keys: neither divides the other's number at 8 ranks.
TEST(TensorRules, KeyHeadsDivideOrAreRepeated) {
  EXPECT_THAT(ProblemsOf({"model.transformer.heads=24", "model.transformer.kv_heads=12"},
                         "{model: {base: llama-3-8b}, hardware: h100-sxm-dgx, plan: "
                         "{tensor_parallel: 8}, batch: {sequence_length: 8192}}"),
              HasSubstr("tensor_parallel (8) must divide kv_heads (12)"));
}

TEST(TensorRules, SequenceParallelismCutsTheSequence) {
  EXPECT_THAT(ProblemsOf({"batch.sequence_length=8190"}),
              HasSubstr("sequence parallelism cuts sequence_length (8190) into 8 equal parts; "
                        "nearest valid: 8184 or 8192"));
  EXPECT_EQ(ProblemsOf({"batch.sequence_length=8190", "plan.tensor.sequence_parallel=false"}), "");
}

TEST(TensorRules, ALayerListCannotBeCut) {
  EXPECT_THAT(ProblemsOf({},
                         "{model: resnet-18, hardware: h100-sxm-dgx, plan: {tensor_parallel: "
                         "8}, precision: {compute: bf16}}"),
              HasSubstr("found 8 with a model that is a list of layers, allowed: 1"));
}

TEST(TensorRules, OverlapNeedsSequenceParallelismAndOneNode) {
  EXPECT_THAT(ProblemsOf({"plan.tensor.overlap=async_tp", "plan.tensor.sequence_parallel=false"}),
              HasSubstr("found 'async_tp' with sequence_parallel: false"));
  EXPECT_THAT(ProblemsOf({"nodes=2", "plan.tensor_parallel=16", "plan.tensor.overlap=async_tp"}),
              HasSubstr("tensor_parallel (16) ranks must share a node of 8 GPUs"));
  EXPECT_THAT(
      ProblemsOf({"nodes=8", "plan.mesh_order=dp-tp-cp-pp", "plan.tensor.overlap=user_buffers"}),
      HasSubstr("innermost in mesh_order 'dp-tp-cp-pp'"));
}

}  // namespace
}  // namespace stepsim
