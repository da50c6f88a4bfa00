#include "models/spec/job_field.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "sim/config/read_config.h"

namespace stepsim {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(const std::string& path) {
  try {
    FindJobField(path, {"--vary x", 0, 0});
  } catch (const ConfigError& error) {
    return error.diagnostics().front().ToString();
  }
  return "";
}

TEST(JobField, ReadsTheMemberOfAJob) {
  JobSpec job;
  job.nodes = 4;
  job.plan.ddp.bucket_cap_mb = 100;
  job.hardware.network.link.bandwidth = Bandwidth{5e10};
  job.hardware.name = "box";
  job.model.network.emplace<TransformerSpec>().layers = 12;
  EXPECT_EQ(FindJobField("nodes", {}).ValueIn(job), FieldValue(std::int64_t{4}));
  EXPECT_EQ(FindJobField("plan.ddp.bucket_cap_mb", {}).ValueIn(job), FieldValue(100.0));
  EXPECT_EQ(FindJobField("plan.ddp.first_bucket_mb", {}).ValueIn(job), FieldValue());
  EXPECT_EQ(FindJobField("network.link.bandwidth", {}).ValueIn(job), FieldValue(5e10));
  EXPECT_EQ(FindJobField("hardware", {}).ValueIn(job), FieldValue(std::string("box")));
  EXPECT_EQ(FindJobField("model.transformer.layers", {}).ValueIn(job),
            FieldValue(std::int64_t{12}));
  EXPECT_EQ(FindJobField("model.layers.0.name", {}).ValueIn(job), FieldValue());
}

TEST(JobField, OtherSpellingsLeadToTheSamePath) {
  EXPECT_EQ(FindJobField("plan.dp", {}).path(), "plan.data_parallel");
  EXPECT_EQ(FindJobField("batch.mbs", {}).path(), "batch.micro_batch_size");
  EXPECT_EQ(FindJobField("network.link.latency", {}).path(), "hardware.network.link.latency");
}

TEST(JobField, UnknownPathsAreNamedWithTheNearest) {
  EXPECT_THAT(ErrorOf("plan.ddp.bucket_cap_md"), HasSubstr("'plan.ddp.bucket_cap_mb'?"));
  EXPECT_THAT(ErrorOf("parallel.data.bucket_cap_mb"), HasSubstr("'plan.ddp.bucket_cap_mb'?"));
  EXPECT_THAT(ErrorOf("plan.ddp"), HasSubstr("found no field 'plan.ddp'"));
  EXPECT_THAT(ErrorOf("nodes.x"), HasSubstr("found no field"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("found no field"));
  EXPECT_THAT(ErrorOf("model.layers.x.name"), HasSubstr("found no field"));
}

FieldValue Read(const std::string& path, const std::string& text, std::string* problem = nullptr) {
  Diagnostics problems;
  const FieldValue value =
      FindJobField(path, {}).Read(ReadSetValue(text, {"--vary", 0, 0}), problems);
  if (problem != nullptr && !problems.empty()) *problem = problems.list().front().ToString();
  return value;
}

TEST(JobField, ReadsValuesAsAJobsFileDoes) {
  EXPECT_EQ(Read("nodes", "4"), FieldValue(std::int64_t{4}));
  EXPECT_EQ(Read("hardware.gpu.memory", "80 GiB"), FieldValue(85899345920.0));
  EXPECT_EQ(Read("plan.ddp.comm_hook", "bf16_compress"), FieldValue(std::string("bf16_compress")));
  EXPECT_EQ(Read("plan.ddp.bucket_cap_mb", "null"), FieldValue());
  std::string problem;
  EXPECT_EQ(Read("plan.ddp.bucket_cap_mb", "0", &problem), FieldValue());
  EXPECT_THAT(problem, HasSubstr("--vary: plan.ddp.bucket_cap_mb: found '0', allowed"));
  Read("plan.ddp.comm_hook", "bf16_compres", &problem);
  EXPECT_THAT(problem, HasSubstr("did you mean 'bf16_compress'?"));
}

TEST(JobField, EveryScalarFieldIsFoundByItsPath) {
  const JobSpec job;
  std::size_t numbers = 0;
  for (const JobField& field : ScalarJobFields()) {
    EXPECT_EQ(FindJobField(field.path(), {}).path(), field.path());
    if (std::holds_alternative<std::int64_t>(field.ValueIn(job))) ++numbers;
  }
  EXPECT_GT(numbers, 20u);
}

}  // namespace
}  // namespace stepsim
