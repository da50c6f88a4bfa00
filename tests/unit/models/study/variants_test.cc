// Variants of a job are what the same job with --set would be, read once.
#include "models/study/variants.h"

#include <gtest/gtest.h>

#include "models/run_step.h"
#include "models/spec/remembering_source.h"
#include "models/study/try_step.h"
#include "sim/base/diagnostics.h"
#include "sim/metrics/metric_table.h"
#include "tests/support/shipped.h"

namespace stepsim {
namespace {

constexpr const char* kJob = "llama-3.2-3b_ddp_16xa100";

JobVariants Shipped(const RememberingSource& source, const std::string& job = kJob) {
  return JobVariants(
      [&source, job](const Changes& changes) { return LoadJob(job, changes, source); });
}

TEST(Variants, AreTheJobWithTheseSettings) {
  const DirectoryConfigSource disk = testing::ShippedConfigs();
  const RememberingSource source(disk);
  const JobVariants variants = Shipped(source);
  for (const Changes& changes :
       {Changes{}, Changes{"nodes=4"}, Changes{"network=ethernet-25g"},
        Changes{"plan.ddp.bucket_cap_mb=100", "nodes=1", "network=null"}}) {
    const ResolvedJob variant = variants.With(changes);
    EXPECT_EQ(variant.resolved_json, testing::LoadShipped(kJob, changes).resolved_json);
  }
}

// The base job's plan.ddp means nothing under FSDP2: that is no mistake of the variant.
TEST(Variants, LeaveOutKeysOfTheBaseWithoutEffect) {
  const DirectoryConfigSource disk = testing::ShippedConfigs();
  const RememberingSource source(disk);
  const JobVariants variants([&](const Changes& changes) {
    Changes all = {"plan.ddp.bucket_cap_mb=50"};
    all.insert(all.end(), changes.begin(), changes.end());
    return LoadJob(kJob, all, source);
  });
  EXPECT_EQ(variants.With({"plan.strategy=fsdp2"}).job.plan.strategy, "fsdp2");
}

TEST(Variants, RefuseTheirOwnKeysWithoutEffect) {
  const DirectoryConfigSource disk = testing::ShippedConfigs();
  const RememberingSource source(disk);
  const JobVariants variants = Shipped(source);
  EXPECT_THROW(variants.With({"plan.strategy=fsdp2", "plan.ddp.bucket_cap_mb=50"}), ConfigError);
  EXPECT_THROW(variants.With({"plan.ddp.bucket_cap=50"}), ConfigError);
}

// What is read once stays as it was read.
TEST(RememberingSource, ReadsAFileOnce) {
  class Counting : public MemoryConfigSource {
   public:
    using MemoryConfigSource::MemoryConfigSource;
    SourceFile ReadFile(const std::string& path) const override {
      ++reads;
      return MemoryConfigSource::ReadFile(path);
    }
    mutable int reads = 0;
  };
  const Counting files(std::map<std::string, std::string>{{"a.yaml", "x: 1\n"}});
  const RememberingSource source(files);
  EXPECT_EQ(source.ReadFile("a.yaml").text, "x: 1\n");
  EXPECT_EQ(source.ReadFile("a.yaml").text, "x: 1\n");
  EXPECT_EQ(files.reads, 1);
  Diagnostics none;
  EXPECT_EQ(source.ReadTree("x: 1\n", "a.yaml", none).FindValue("x")->text, "1");
  EXPECT_EQ(source.ReadTree("x: 2\n", "a.yaml", none).FindValue("x")->text, "2");  // another text
  EXPECT_TRUE(none.empty());
}

class TryStepTest : public ::testing::TestWithParam<const char*> {};

// Every metric of the totals is that of the whole report.
TEST_P(TryStepTest, HasTheMetricsOfTheReport) {
  const ResolvedJob job = testing::LoadShipped(GetParam());
  const StepReport whole = RunStep(job).report;
  const StepReport totals = TryStep(job);
  for (const Metric& metric : Metrics()) {
    EXPECT_EQ(metric.value(totals), metric.value(whole)) << metric.name;
  }
}
INSTANTIATE_TEST_SUITE_P(Jobs, TryStepTest,
                         ::testing::Values(kJob, "gpt3-6.7b_megatron_32xh100",
                                           "llama-2-7b_zero3_16xa100"));

}  // namespace
}  // namespace stepsim
