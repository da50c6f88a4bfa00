// batch.global_batch_size = micro_batch_size x gradient_accumulation_steps x GPUs; any two of the
// three say the third, and DeepSpeed's rule where it stands alone: no accumulation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "models/spec/load_job.h"
#include "sim/base/diagnostics.h"
#include "tests/support/imported.h"

namespace stepsim {
namespace {

using ::testing::HasSubstr;

ResolvedJob Load(const std::string& batch, const std::vector<std::string>& sets = {}) {
  return LoadJobText(
      "{model: tiny, hardware: box, nodes: 2, batch: {sequence_length: 8, " + batch + "}}",
      "job.yaml", sets, testing::ImportConfigs());  // 8 GPUs
}

std::string ErrorOf(const std::string& batch) {
  try {
    Load(batch);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(GlobalBatch, SaysTheAccumulation) {
  const ResolvedJob job = Load("micro_batch_size: 2, global_batch_size: 64");
  EXPECT_EQ(job.job.batch.gradient_accumulation_steps, 4);
  EXPECT_EQ(testing::ValueOf(job, "batch.gradient_accumulation_steps"),
            "4 (batch.global_batch_size)");
}

TEST(GlobalBatch, SaysTheMicroBatch) {
  EXPECT_EQ(
      Load("gradient_accumulation_steps: 2, global_batch_size: 64").job.batch.micro_batch_size, 4);
  EXPECT_EQ(Load("train_batch_size: 64").job.batch.micro_batch_size, 8);
}

TEST(GlobalBatch, FollowsWhatIsSet) {
  const std::string batch = "micro_batch_size: 2, global_batch_size: 64";
  EXPECT_EQ(Load(batch, {"batch.micro_batch_size=8"}).job.batch.gradient_accumulation_steps, 1);
  EXPECT_EQ(Load(batch, {"nodes=4"}).job.batch.gradient_accumulation_steps, 2);
}

TEST(GlobalBatch, MustFit) {
  EXPECT_THAT(ErrorOf("micro_batch_size: 3, global_batch_size: 64"),
              HasSubstr("global_batch_size (64) must be a multiple of micro_batch_size x GPUs (3 x "
                        "8); nearest valid: 48, 72"));
  EXPECT_THAT(ErrorOf("global_batch_size: 4"), HasSubstr("nearest valid: 8"));
  EXPECT_THAT(ErrorOf("micro_batch_size: 2, gradient_accumulation_steps: 2, global_batch_size: 64"),
              HasSubstr("(2 x 2 x 8); nearest valid: 32"));
  EXPECT_THAT(ErrorOf("micro_batch_size: 1, global_batch_size: 80000"),
              HasSubstr("allowed: at most 32768"));
  EXPECT_EQ(ErrorOf("micro_batch_size: 2, gradient_accumulation_steps: 4, global_batch_size: 64"),
            "no error");
}

// It is gone from the job that is written out: the two others say it.
TEST(GlobalBatch, IsNotPartOfTheResolvedJob) {
  const ResolvedJob job = Load("micro_batch_size: 2, global_batch_size: 64");
  EXPECT_EQ(job.resolved_json.find("global_batch_size"), std::string::npos);
  EXPECT_NE(job.resolved_json.find("\"gradient_accumulation_steps\": 4"), std::string::npos);
}

}  // namespace
}  // namespace stepsim
