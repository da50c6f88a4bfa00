#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/cli/cli_fixture.h"

namespace stepsim::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

std::string Trace(const std::string& name) {
  return std::string(STEPSIM_SOURCE_DIR) + "/tests/data/traces/" + name;
}

using TraceCommand = Cli;

TEST_F(TraceCommand, ShowsAStep) {
  const Answer answer = Ask({"trace", Trace("a100_resnet50_ddp_rank0of2_reduced.json.gz")});
  EXPECT_EQ(answer.status, kExitSuccess) << answer.err;
  EXPECT_THAT(answer.out, HasSubstr("rank 0 of 2"));
  EXPECT_THAT(answer.out, HasSubstr("launch-bound"));
  EXPECT_THAT(answer.out, HasSubstr("gradient reduce"));
}

TEST_F(TraceCommand, WritesFiles) {
  const std::string json = Path("x.json"), csv = Path("x.csv"), trace = Path("x.trace.json.gz");
  const Answer answer =
      Ask({"trace", Trace("a100_resnet50_ddp_rank0of2_reduced.json.gz"), "--step", "all",
           "--export", json, "--export", csv, "--export", Path("x.md"), "--export", trace});
  ASSERT_EQ(answer.status, kExitSuccess) << answer.err;
  const Json result = Json::parse(ReadAll(json));
  EXPECT_EQ(result["schema"], "stepsim.result/1");
  EXPECT_EQ(result["measured"]["steps"].size(), 3u);
  // own_exposed and own_exposed_vs_compute_and_copies of the reference.
  EXPECT_NEAR(result["measured"]["ranks"][0]["exposed_s"].get<double>(), 39559.466e-6, 1e-7);
  EXPECT_NEAR(result["exposed_s"]["total"].get<double>(), 39190.665e-6, 1e-7);
  EXPECT_THAT(ReadAll(csv), HasSubstr("step,rank,begin_s,step_time_s,compute_s"));
  EXPECT_THAT(ReadAll(Path("x.md")), HasSubstr("| gradient reduce |"));
  // What it writes as a trace it reads again, to the same account.
  const Answer again = Ask({"trace", trace, "--step", "all", "--export", "-"});
  ASSERT_EQ(again.status, kExitSuccess) << again.err;
  const Json second = Json::parse(again.out);
  EXPECT_EQ(second["step_time_s"], result["step_time_s"]);
  EXPECT_EQ(second["exposed_s"]["gradient_reduce"], result["exposed_s"]["gradient_reduce"]);
}

// A simulated step, written as a trace and read back: the same times at the same sites.
TEST_F(TraceCommand, ReadsWhatASimulationWrites) {
  const std::string trace = Path("s.trace.json");
  const Answer run = Ask({"run", "gpt2_ddp_8xa100", "--export", trace, "--export", Path("s.json")});
  ASSERT_EQ(run.status, kExitSuccess) << run.err;
  const Json simulated = Json::parse(ReadAll(Path("s.json")));
  const Answer read = Ask({"trace", trace, "--step", "all", "--export", "-"});
  ASSERT_EQ(read.status, kExitSuccess) << read.err;
  const Json measured = Json::parse(read.out);
  for (const char* key : {"communication_s", "profiler_exposed_s", "overlap_fraction"}) {
    EXPECT_NEAR(measured[key].get<double>(), simulated[key].get<double>(), 1e-11) << key;
  }
  EXPECT_NEAR(measured["exposed_s"]["gradient_reduce"].get<double>(),
              simulated["exposed_s"]["gradient_reduce"].get<double>(), 1e-11);
  EXPECT_EQ(measured["collectives"].size(), simulated["collectives"].size());
}

TEST_F(TraceCommand, ListsItsRules) {
  const Answer answer = Ask({"trace", "--list-rules"});
  EXPECT_EQ(answer.status, kExitSuccess);
  EXPECT_THAT(answer.out, HasSubstr("nccldevkernel"));
  EXPECT_THAT(answer.out, HasSubstr("gradient_reduce"));
}

TEST_F(TraceCommand, RefusesWhatItCannotUse) {
  const std::string trace = Trace("sampled_rank0of128_reduced.json.gz");
  const auto refuses = [](std::vector<std::string> arguments, const char* why) {
    arguments.insert(arguments.begin(), "trace");
    const Answer answer = Ask(arguments);
    EXPECT_EQ(answer.status, kExitInput);
    EXPECT_THAT(answer.err, HasSubstr(why));
    EXPECT_THAT(answer.out, HasSubstr(""));
  };
  refuses({}, "at least one trace");
  refuses({Path("none.json")}, "cannot be read");
  refuses({Write("empty.json", "")}, "the file is empty");
  refuses({Write("text.json", "no trace")}, "this is no trace");
  refuses({trace, "--step", "7"}, "allowed: 551 to 552");
  refuses({trace, "--skip", "2"}, "allowed: 0 to 1");
  refuses({trace, "--site", "x"}, "PATTERN=SITE");
  refuses({trace, "--site", "x=gradients"}, "allowed: gradient_reduce");
  refuses({trace, "--steps", "("}, "no regular expression");
  refuses({trace, "--export", Path("x.html")}, "allowed: .trace.json");
  EXPECT_EQ(Files(), (std::vector<std::string>{"empty.json", "text.json"}));
}

}  // namespace
}  // namespace stepsim::testing
