// stepsim explain from the outside.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cli/cli_fixture.h"

namespace stepsim {
namespace {

using testing::Answer;
using testing::Ask;
using ::testing::HasSubstr;
using testing::kOneLayer;
using testing::ReadAll;
using ExplainCommand = testing::Cli;
using Json = nlohmann::json;

TEST_F(ExplainCommand, ExportsWhatItSays) {
  const Answer answer = Ask({"explain", Write("job.yaml", kOneLayer), "--export", Path("x.json"),
                             "--export", Path("x.md")});
  EXPECT_EQ(answer.status, kExitSuccess) << answer.err;
  EXPECT_THAT(answer.out, HasSubstr("the gradient reduce stalls the step"));
  const Json json = Json::parse(ReadAll(Path("x.json")));
  EXPECT_EQ(json["schema"], "stepsim.explain/1");
  EXPECT_EQ(json["stall"], "gradient_reduce");
  ASSERT_EQ(json["collectives"].size(), 1);
  const Json& reduce = json["collectives"][0];
  EXPECT_NEAR(double{reduce["exposed_s"]}, 0.040, 1e-9);
  EXPECT_NEAR(double{reduce["saved_if_removed_s"]}, 0.040, 1e-9);
  EXPECT_EQ(reduce["cause_kind"], "tail");
  double path = 0;
  for (const Json& share : json["critical_path"]["shares"]) path += double{share["time_s"]};
  EXPECT_NEAR(path, double{json["step_time_s"]}, 1e-12);
  EXPECT_THAT(ReadAll(Path("x.md")), HasSubstr("| --- "));
}

// A doubled link leaves 20 of the 40 ms.
TEST_F(ExplainCommand, GainsAreThoseOfRun) {
  const std::string job = Write("job.yaml", kOneLayer);
  const Json json = Json::parse(Ask({"explain", job, "--export", "-"}).out);
  int halved = 0;
  for (const Json& gain : json["actions"]["gains"]) {
    std::vector<std::string> run = {"run", job, "-q", "--export", "-"};
    for (const std::string set : gain["set"]) run.insert(run.end(), {"--set", set});
    EXPECT_EQ(gain["step_time_s"], Json::parse(Ask(run).out)["step_time_s"]) << gain["name"];
    if (gain["name"] != "links in the node twice as fast") continue;
    ++halved;
    EXPECT_NEAR(double{gain["step_time_s"]}, double{json["step_time_s"]} - 0.020, 1e-4);
  }
  EXPECT_EQ(halved, 1);
}

TEST_F(ExplainCommand, TellsOfOneTask) {
  const std::string job = Write("job.yaml", kOneLayer);
  const Json json = Json::parse(Ask({"explain", job, "--export", "-"}).out);
  const std::string name = json["collectives"][0]["names"][0];
  const Answer answer = Ask({"explain", job, "--task", name, "--export", Path("x.json")});
  EXPECT_EQ(answer.status, kExitSuccess) << answer.err;
  EXPECT_THAT(answer.out, HasSubstr("what set its start"));
  const Json task = Json::parse(ReadAll(Path("x.json")))["task"];
  EXPECT_EQ(task["name"], name);
  EXPECT_NEAR(double{task["end_s"]} - double{task["start_s"]}, 0.040, 1e-9);
  EXPECT_NEAR(double{task["alone_s"]}, 0.040, 1e-9);

  const Answer wrong = Ask({"explain", job, "--task", name + "x"});
  EXPECT_EQ(wrong.status, kExitInput);
  EXPECT_THAT(wrong.err, HasSubstr("did you mean '" + name + "'?"));
}

TEST_F(ExplainCommand, NamesTheEndingThatIsMeant) {
  const Answer answer = Ask({"explain", Write("job.yaml", kOneLayer), "--export", "x.jsn"});
  EXPECT_EQ(answer.status, kExitInput);
  EXPECT_THAT(answer.err, HasSubstr("did you mean '.json'?"));
}

// No line is wider than the terminal; colour only where it is wanted.
TEST_F(ExplainCommand, FitsTheTerminal) {
  for (const std::size_t width : {72, 100, 160}) {
    std::istringstream lines(Ask({"explain", Write("job.yaml", kOneLayer)}, "", false, width).out);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), width) << line;
  }
  EXPECT_THAT(Ask({"explain", Write("job.yaml", kOneLayer)}, "", true).out, HasSubstr("\033["));
}

TEST_F(ExplainCommand, ListsAsManyLinesAsAsked) {
  const auto lines_of = [](const std::string& text) {
    return std::count(text.begin(), text.end(), '\n');
  };
  const Answer few = Ask({"explain", "gpt2_ddp_32xa40_25gbe", "--top", "1"});
  const Answer all = Ask({"explain", "gpt2_ddp_32xa40_25gbe", "--top", "0"});
  EXPECT_THAT(few.out, HasSubstr("--top 0 lists all"));
  EXPECT_GT(lines_of(all.out), lines_of(few.out));
}

}  // namespace
}  // namespace stepsim
