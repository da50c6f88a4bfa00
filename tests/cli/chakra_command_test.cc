#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/cli/cli_fixture.h"
#include "tests/support/chakra_bytes.h"

namespace stepsim::testing {
namespace {

using ::testing::HasSubstr;

// 400 us of compute, then the reduction of 50 MB.
std::string Trace() {
  return Header() + Node({.id = 1, .duration_us = 400}) +
         Node({.id = 2,
               .type = 7,
               .after = {1},
               .attributes = Int64("comm_type", 0) + Int64("comm_size", 50'000'000),
               .name = "all_reduce 1"});
}

TEST_F(Cli, ChakraTracesAreReplayed) {
  const std::string a = Write("t.0.et", Trace()), b = Write("t.1.et", Trace());
  const Answer answer = Ask({"chakra", a, b, "--hardware", "ideal", "--gpus-per-node", "2", "--set",
                             "collectives.model=alpha_beta", "--export", "-"});
  ASSERT_EQ(answer.status, 0) << answer.err;
  const nlohmann::json result = nlohmann::json::parse(answer.out);
  EXPECT_NEAR(result.at("compute_s").get<double>(), 400e-6, 1e-12);
  // Nothing is left to hide behind.
  EXPECT_EQ(result.at("exposed_s").at("total"), result.at("communication_s"));
  EXPECT_GT(result.at("communication_s").get<double>(), 0);
  EXPECT_THAT(answer.err, HasSubstr("2 kernels take as long as recorded"));
}

TEST_F(Cli, ChakraNamesWhatIsWrong) {
  const std::string a = Write("t.0.et", Trace()), bad = Write("bad.et", "nonsense");
  EXPECT_THAT(Ask({"chakra", a}).err, HasSubstr("--hardware: missing"));
  const Answer broken = Ask({"chakra", bad, "--hardware", "ideal"});
  EXPECT_EQ(broken.status, 2);
  EXPECT_THAT(broken.err, HasSubstr("bad.et: byte 0: found"));
  EXPECT_EQ(Ask({"chakra", Path("none.et"), "--hardware", "ideal"}).status, 2);
  EXPECT_EQ(Ask({"chakra", a, "--hardware", "ideal", "--groups", bad}).status, 2);
  const Answer many = Ask({"chakra", a, a, "--hardware", "ideal", "--gpus-per-node", "1"});
  EXPECT_EQ(many.status, 2);
  EXPECT_THAT(many.err, HasSubstr("found traces of 2 ranks"));
}

}  // namespace
}  // namespace stepsim::testing
