// A variant that changes costs alone comes to the same on a graph that was built before.
#include "models/study/prepared_step.h"

#include <gtest/gtest.h>

#include <string>

#include "models/spec/remembering_source.h"
#include "models/spec/spec_fields.h"
#include "models/study/try_step.h"
#include "sim/metrics/metric_table.h"
#include "tests/support/shipped.h"

namespace stepsim {
namespace {

// Every plain number of the hardware, halved: what the fields below `path` are.
void CollectNumbers(const FieldTable& table, const void* object, const std::string& path,
                    std::vector<std::string>* changes) {
  for (const FieldRow& row : table.rows) {
    const std::string at = path + "." + row.key;
    if (row.kind == FieldKind::kStruct) {
      CollectNumbers(*row.nested, row.const_child(object, 0), at, changes);
    } else if (row.kind == FieldKind::kNumber) {
      const FieldValue value = row.get(object);
      const double* number = std::get_if<double>(&value);
      if (number == nullptr || *number / 2 < row.min) continue;
      changes->push_back(at + "=" + ValueText(row, FieldValue(*number / 2)));
    }
  }
}

class PreparedStepTest : public ::testing::TestWithParam<std::string> {};

TEST_P(PreparedStepTest, EqualsAStepOfItsOwnForEveryCost) {
  const DirectoryConfigSource disk = testing::ShippedConfigs();
  const RememberingSource source(disk);
  const JobVariants variants(
      [&](const Changes& changes) { return LoadJob(GetParam(), changes, source); });
  PreparedStep prepared(variants.base());
  Changes all;
  CollectNumbers(HardwareFields().fields(), &variants.base().job.hardware, "hardware", &all);
  all.push_back("contention=off");
  int tried = 0;
  for (const std::string& change : all) {
    const auto job = WithCosts(variants.base().job, {change});
    if (!job) continue;
    ++tried;
    const StepReport own = TryStep(variants.With({change}));
    const StepReport here = prepared.Try(*job);
    for (const Metric& metric : Metrics()) {
      EXPECT_EQ(metric.value(here), metric.value(own)) << change << " " << metric.name;
    }
  }
  EXPECT_GE(tried, 10);  // rates of the GPU, of two links, contention
}
INSTANTIATE_TEST_SUITE_P(Jobs, PreparedStepTest,
                         ::testing::Values("gpt2_ddp_32xa40_25gbe", "gpt3-6.7b_megatron_32xh100",
                                           "llama-2-7b_zero3_16xa100"),
                         testing::PlainName);

TEST(WithCosts, TakesCostsAlone) {
  const JobSpec job = testing::LoadShipped("gpt2_ddp_32xa40_25gbe").job;
  EXPECT_TRUE(WithCosts(job, {"hardware.gpu.peak.bf16=100 TFLOP/s"}));
  EXPECT_FALSE(WithCosts(job, {"nodes=2"}));                           // another graph
  EXPECT_FALSE(WithCosts(job, {"hardware.gpu.peak.bf16=fast"}));       // a wrong value
  EXPECT_FALSE(WithCosts(job, {"hardware.gpu.peak.bf17=1 TFLOP/s"}));  // no such field
  EXPECT_FALSE(WithCosts(job, {"hardware.gpu.hbm_bandwidth=null"}));
}

// On one node the network means nothing: said by the full check, not passed over.
TEST(WithCosts, LeavesIdleKeysToTheFullCheck) {
  const JobSpec job = testing::LoadShipped("gpt2_ddp_8xa100").job;
  EXPECT_FALSE(WithCosts(job, {"hardware.network.link.bandwidth=10 Gb/s"}));
}

}  // namespace
}  // namespace stepsim
