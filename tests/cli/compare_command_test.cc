#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/cli/cli_fixture.h"

namespace stepsim::testing {
namespace {

using ::testing::HasSubstr;

constexpr const char* kJob = "gpt2_ddp_32xa40_25gbe";

// What was simulated, written as a trace and read as a profile, is what was predicted.
TEST_F(Cli, AStepIsEqualToItsOwnTrace) {
  const std::string trace = Path("g.trace.json"), result = Path("g.json");
  ASSERT_EQ(Ask({"run", kJob, "--export", trace, "--export", result}).status, 0);
  const Answer by_job = Ask({"compare", kJob, trace, "--tolerance", "0.1%", "--export", "-"});
  ASSERT_EQ(by_job.status, 0) << by_job.err;
  EXPECT_THAT(by_job.err, HasSubstr("The step is as predicted"));
  const nlohmann::json json = nlohmann::json::parse(by_job.out);
  for (const auto& row : json.at("rows")) {
    if (row.at("group") != "site" && row.at("group") != "overlap") continue;
    EXPECT_NEAR(row.at("predicted").get<double>(), row.at("measured").get<double>(), 1e-9) << row;
  }
  const Answer by_result = Ask({"compare", result, trace, "--tolerance", "0.1%"});
  EXPECT_EQ(by_result.status, 0) << by_result.err;
}

TEST_F(Cli, ADifferenceIsNamedAndFails) {
  const std::string trace = Path("g.trace.json");
  ASSERT_EQ(Ask({"run", kJob, "--export", trace}).status, 0);
  const Answer answer =
      Ask({"compare", kJob, trace, "--set", "network=ethernet-100g", "--tolerance", "5%"});
  EXPECT_EQ(answer.status, 4);
  EXPECT_THAT(answer.out, HasSubstr("communication is less hidden"));
  EXPECT_THAT(answer.err, HasSubstr("--tolerance 5%: the step is -"));
}

TEST_F(Cli, CompareNamesWhatIsWrong) {
  const std::string nothing = Write("x.json", "{}");
  EXPECT_EQ(Ask({"compare", kJob, nothing}).status, 2);
  EXPECT_EQ(Ask({"compare", kJob, Path("none.json")}).status, 2);
  EXPECT_EQ(Ask({"compare", kJob, nothing, "--tolerance", "much"}).status, 2);
  EXPECT_EQ(Ask({"compare", kJob}).status, 2);
}

}  // namespace
}  // namespace stepsim::testing
