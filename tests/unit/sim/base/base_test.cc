#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sim/base/check.h"
#include "sim/base/diagnostics.h"
#include "sim/base/dtype.h"
#include "sim/base/nearest.h"
#include "sim/base/time.h"

namespace stepsim {
namespace {

TEST(Nearest, FindsMisspellings) {
  const std::vector<std::string> names = {"micro_batch_size", "sequence_length", "steps"};
  EXPECT_EQ(Nearest("micro_batchsize", names), "micro_batch_size");
  EXPECT_EQ(Nearest("SEQUENCE_LENGHT", names), "sequence_length");
  EXPECT_EQ(Nearest("setps", names), "steps");  // a swap of neighbours costs one
}

TEST(Nearest, StaysSilentWhenNothingIsNear) {
  const std::vector<std::string> names = {"ring", "hierarchical"};
  EXPECT_EQ(Nearest("tree", names), "");
  EXPECT_EQ(Nearest("", names), "");
  EXPECT_EQ(Nearest(std::string(100000, 'r'), names), "");
}

TEST(DType, NamesAndAliases) {
  for (const std::string_view name : DTypeNames()) {
    ASSERT_TRUE(ParseDType(name).has_value()) << name;
    EXPECT_EQ(ToString(*ParseDType(name)), name);
  }
  EXPECT_EQ(ParseDType("bfloat16"), DType::kBf16);
  EXPECT_EQ(ParseDType("fp64"), std::nullopt);
  EXPECT_EQ(SizeOf(DType::kTf32, 3).value, 12);  // stored as four bytes each
  EXPECT_EQ(SizeOf(DType::kBf16, 3).value, 6);
}

TEST(Time, RoundsUpToAPicosecond) {
  EXPECT_EQ(DurationFromSeconds(0).count(), 0);
  EXPECT_EQ(DurationFromSeconds(1.5).count(), 1'500'000'000'000);
  EXPECT_EQ(DurationFromSeconds(1e-13).count(), 1);
  EXPECT_THROW(DurationFromSeconds(1e9), SimulationError);  // 30 years
  EXPECT_THROW(DurationFromSeconds(-1), InternalError);
}

TEST(Diagnostics, ToTextWithPlace) {
  EXPECT_EQ((Diagnostic{{"job.yaml", 7, 3}, "bad"}).ToString(), "job.yaml:7:3: bad");
  EXPECT_EQ((Diagnostic{{"job.yaml", 0, 0}, "bad"}).ToString(), "job.yaml: bad");
  EXPECT_EQ((Diagnostic{{}, "bad"}).ToString(), "bad");
}

TEST(Diagnostics, ThrowsAllAtOnce) {
  Diagnostics diagnostics;
  EXPECT_NO_THROW(diagnostics.ThrowIfAny());
  diagnostics.Add({"a.yaml", 1, 2}, "first");
  diagnostics.Add({"b.yaml", 3, 4}, "second");
  try {
    diagnostics.ThrowIfAny();
    FAIL() << "expected a ConfigError";
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(), "a.yaml:1:2: first\nb.yaml:3:4: second");
    EXPECT_EQ(error.diagnostics().size(), 2u);
  }
}

}  // namespace
}  // namespace stepsim
