// The command line from the outside: arguments and files in; exit status, text and files out.
#include "tools/stepsim/cli.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
using testing::ReadAll;
using ::testing::StartsWith;
using Cli = testing::Cli;

// Round numbers: 2 GPUs, no latency, 1e9 parameters of fp32 over 100 GB/s; collectives by hand.
const char kJob[] = R"(name: round numbers
model:
  name: two layers
  layers:
    - {name: a, parameters: [{name: a.weight, elements: 500000000}], forward_flops: 1 TFLOP}
    - {name: b, parameters: [{name: b.weight, elements: 500000000}], forward_flops: 1 TFLOP}
hardware: {base: ideal, gpus_per_node: 2, intra_node: {bandwidth: 100 GB/s, latency: 0 us}}
optimizer: none
precision: {compute: bf16, parameters: fp32}
collectives: {model: alpha_beta}
)";

TEST_F(Cli, RunPrintsTheSummary) {
  const Answer answer = Ask({"run", Write("job.yaml", kJob)});
  EXPECT_EQ(answer.status, kExitSuccess) << answer.err;
  EXPECT_THAT(answer.out, StartsWith("round numbers"));
  EXPECT_THAT(answer.out, HasSubstr("gradient_reduce"));
  EXPECT_EQ(answer.err, "");
  EXPECT_EQ(answer.out.find('\033'), std::string::npos);  // no colour into a file
}

// 1e9 parameters in fp32 need 4 GB, and as much of gradients and of buckets.
TEST_F(Cli, AJobThatDoesNotFitFailsOnRequest) {
  const std::string job = Write("job.yaml", kJob);
  const std::vector<std::string> run = {"run", job, "--set", "memory.limit=8 GB"};
  const Answer warned = Ask(run);
  EXPECT_EQ(warned.status, kExitSuccess);
  EXPECT_THAT(warned.out, HasSubstr("DOES NOT FIT"));
  std::vector<std::string> failing = run;
  failing.insert(failing.end(), {"--set", "memory.fail_on_oom=true", "--export", "-"});
  const Answer failed = Ask(failing);
  EXPECT_EQ(failed.status, kExitCannotRun);
  EXPECT_EQ(failed.out, "");
  EXPECT_THAT(failed.err, StartsWith("error: out of memory: "));
  EXPECT_THAT(failed.err, HasSubstr("parameters 3.73 GiB"));
  EXPECT_THAT(failed.err, HasSubstr("--set plan.strategy=fsdp2"));
}

TEST_F(Cli, ColourOnATerminalOnly) {
  const std::string job = Write("job.yaml", kJob);
  EXPECT_THAT(Ask({"run", job}, "", true).out, HasSubstr("\033["));
}

TEST_F(Cli, ColourIsRefusedByTheEnvironment) {
  EXPECT_TRUE(WantsColour(true, nullptr, nullptr));
  EXPECT_TRUE(WantsColour(true, "", "xterm"));  // no-color.org: only "not an empty string" counts
  EXPECT_FALSE(WantsColour(true, "1", "xterm"));
  EXPECT_FALSE(WantsColour(true, nullptr, "dumb"));
  EXPECT_FALSE(WantsColour(false, nullptr, "xterm"));
}

std::size_t LongestLine(const std::string& text) {
  std::istringstream stream(text);
  std::size_t longest = 0;
  for (std::string line; std::getline(stream, line);) longest = std::max(longest, line.size());
  return longest;
}

TEST_F(Cli, TextBreaksAtTheWidthOfTheTerminal) {
  const std::string job = Write("job.yaml", kJob);
  EXPECT_GT(LongestLine(Ask({"run", job}).out), 80u);
  EXPECT_LE(LongestLine(Ask({"run", job}, "", false, 80).out), 80u);
  EXPECT_GT(LongestLine(Ask({"list"}).out), 80u);  // one line per row, for other programs
  EXPECT_LE(LongestLine(Ask({"list"}, "", false, 80).out), 80u);
}

TEST_F(Cli, HelpFitsInto80Columns) {
  for (const std::string command : {"", "run", "cost", "list", "describe", "schema"}) {
    const Answer answer = command.empty() ? Ask({"--help"}) : Ask({command, "--help"});
    EXPECT_EQ(answer.status, kExitSuccess);
    EXPECT_LE(LongestLine(answer.out), 80u) << answer.out;
    EXPECT_THAT(answer.out, HasSubstr("Example:\n  stepsim "));
    EXPECT_THAT(answer.out, HasSubstr("Usage: stepsim " + command));
  }
}

TEST_F(Cli, QuietSaysNothing) {
  const Answer answer = Ask({"run", Write("job.yaml", kJob), "--quiet"});
  EXPECT_EQ(answer.status, kExitSuccess);
  EXPECT_EQ(answer.out + answer.err, "");
}

TEST_F(Cli, ReadsAJobFromStandardInput) {
  EXPECT_EQ(Ask({"run", "-", "-q"}, kJob).status, kExitSuccess);
}

TEST_F(Cli, FindsAShippedJobByName) {
  EXPECT_EQ(Ask({"run", "lesson_serial", "-q"}).status, kExitSuccess);
}

TEST_F(Cli, ExportsEveryFormat) {
  const std::string job = Write("job.yaml", kJob);
  const Answer answer =
      Ask({"run", job, "--export", Path("x.json"), "--export", Path("x.csv"), "--export",
           Path("x.md"), "--export", Path("x.trace.json"), "--export", Path("x.trace.json.gz")});
  EXPECT_EQ(answer.status, kExitSuccess) << answer.err;
  EXPECT_THAT(Files(), ::testing::ElementsAre("job.yaml", "x.csv", "x.json", "x.md", "x.trace.json",
                                              "x.trace.json.gz"));
  const auto result = nlohmann::json::parse(ReadAll(Path("x.json")));
  EXPECT_EQ(result["schema"], "stepsim.result/1");
  // 2(n-1)/n x 4e9 bytes / 100 GB/s = 40 ms on the wire, as two buckets.
  EXPECT_NEAR(result["communication_s"].get<double>(), 0.040, 1e-9);
  EXPECT_TRUE(nlohmann::json::parse(ReadAll(Path("x.trace.json"))).contains("traceEvents"));
  EXPECT_EQ(ReadAll(Path("x.trace.json.gz")).substr(0, 2), "\x1f\x8b");
}

TEST_F(Cli, ATraceHasOneViewOrBoth) {
  const std::string job = Write("job.yaml", kJob);
  const auto has_account = [&](const std::vector<std::string>& view) {
    std::vector<std::string> arguments = {"run", job, "-q", "--export", "-.trace.json"};
    arguments.insert(arguments.end(), view.begin(), view.end());
    const Answer answer = Ask(arguments);
    EXPECT_EQ(answer.status, kExitSuccess) << answer.err;
    return answer.out.find("\"exposed\"") != std::string::npos;
  };
  EXPECT_TRUE(has_account({}));
  EXPECT_TRUE(has_account({"--trace-view", "both"}));
  EXPECT_TRUE(has_account({"--trace-view", "transfer"}));
  EXPECT_FALSE(has_account({"--trace-view", "nccl"}));
  const Answer unknown = Ask({"run", job, "--trace-view", "ncl", "--export", "-.trace.json"});
  EXPECT_EQ(unknown.status, kExitInput);
  EXPECT_THAT(unknown.err, HasSubstr("{both,nccl,transfer}"));
  const Answer alone = Ask({"run", job, "--trace-view", "nccl"});
  EXPECT_EQ(alone.status, kExitInput);
  EXPECT_THAT(alone.err, HasSubstr("there is no trace to show it"));
}

// Standard output belongs to the export; the summary moves to standard error.
TEST_F(Cli, ExportsToStandardOutput) {
  const Answer answer = Ask({"run", Write("job.yaml", kJob), "--export", "-"});
  EXPECT_EQ(nlohmann::json::parse(answer.out)["schema"], "stepsim.result/1");
  EXPECT_THAT(answer.err, StartsWith("round numbers"));
  EXPECT_THAT(Ask({"run", Path("job.yaml"), "--export", "-.md", "-q"}).out, HasSubstr("| "));
}

TEST_F(Cli, SetOverridesAField) {
  const std::string job = Write("job.yaml", kJob);
  const auto step = [&](const std::vector<std::string>& extra) {
    std::vector<std::string> arguments = {"run", job, "-q", "--export", "-"};
    arguments.insert(arguments.end(), extra.begin(), extra.end());
    return nlohmann::json::parse(Ask(arguments).out)["communication_s"].get<double>();
  };
  EXPECT_NEAR(step({"--set", "hardware.intra_node.bandwidth=200 GB/s"}), 0.020, 1e-9);
  EXPECT_NEAR(step({"--set", "hardware.intra_node.bandwidth=200 GB/s", "--set",
                    "plan.ddp.comm_hook=bf16_compress"}),
              0.010, 1e-9);
}

TEST_F(Cli, RefusesAnUnwritablePlace) {
  const std::string job = Write("job.yaml", kJob);
  Write("file", "");
  const Answer answer = Ask({"run", job, "-q", "--export", Path("file/x.json")});
  EXPECT_EQ(answer.status, kExitInternal);
  EXPECT_EQ(answer.err, "error: cannot write " + Path("file/x.json") + ": Not a directory\n");
  EXPECT_THAT(Files(), ::testing::ElementsAre("file", "job.yaml"));
}

TEST_F(Cli, ChecksExportNamesBeforeTheWork) {
  const Answer answer =
      Ask({"run", Write("job.yaml", kJob), "--export", Path("x.jsno"), "--export", Path("y.png")});
  EXPECT_EQ(answer.status, kExitInput);
  EXPECT_THAT(answer.err, HasSubstr("x.jsno: no writer for this file name, allowed endings: "));
  EXPECT_THAT(answer.err, HasSubstr("did you mean '.json'?"));
  EXPECT_THAT(answer.err, HasSubstr("y.png: no writer"));
  EXPECT_THAT(Files(), ::testing::ElementsAre("job.yaml"));
}

TEST_F(Cli, ReportsEveryMistakeOfAJobAtOnce) {
  const std::string job = Write("job.yaml",
                                "modle: gpt2\n"
                                "model: gpt2\n"
                                "hardware: a100-80g-dxg\n"
                                "nodes: -2\n"
                                "nodes: 3\n"
                                "plan: {strategy: dpp}\n");
  const Answer answer = Ask({"run", job});
  EXPECT_EQ(answer.status, kExitInput);
  EXPECT_THAT(answer.err, HasSubstr("job.yaml:1:1: "));
  EXPECT_THAT(answer.err, HasSubstr("did you mean 'model'?"));
  EXPECT_THAT(answer.err, HasSubstr("did you mean 'a100-80g-dgx'?"));
  EXPECT_THAT(answer.err, HasSubstr("job.yaml:4:8: nodes: found '-2'"));
  EXPECT_THAT(answer.err, HasSubstr("job.yaml:5:1: 'nodes': duplicate key, first at line 4"));
  EXPECT_THAT(answer.err, HasSubstr("did you mean 'ddp'?"));
}

TEST_F(Cli, ReportsABrokenReferencedFileOnce) {
  const std::string model = Write("model.yaml", "a: [1, 2");
  const Answer answer = Ask({"run", "gpt2_ddp_8xa100", "--set", "model=" + model});
  EXPECT_EQ(answer.status, kExitInput);
  EXPECT_EQ(answer.err, "error: " + model + ":1:4: found no end of a list, allowed: '[a, b]'\n");
}

TEST_F(Cli, NamesAMissingFile) {
  const Answer answer = Ask({"run", Path("absent.yaml")});
  EXPECT_EQ(answer.status, kExitInput);
  EXPECT_THAT(answer.err, HasSubstr("absent.yaml: found no such file"));
}

TEST_F(Cli, RefusesJobsTooLargeToBeMeant) {
  const Answer answer =
      Ask({"run", "llama-3.2-3b_ddp_16xa100", "--set", "batch.gradient_accumulation_steps=4096",
           "--set", "simulate.steps=16"});
  EXPECT_EQ(answer.status, kExitInput);
  EXPECT_THAT(answer.err,
              HasSubstr("layers x micro-steps x steps x simulated ranks, allowed: at most "));
}

TEST_F(Cli, UnknownCommandsAndOptionsHaveAHint) {
  EXPECT_EQ(Ask({"rum"}).err.substr(0, 6), "error:");
  std::istringstream in;
  std::ostringstream out, err;
  EXPECT_EQ(RunCli({"rum"}, {in, out, err, false, 0, ""}), kExitInput);
  EXPECT_THAT(err.str(), StartsWith("error: unknown command 'rum', allowed: run, "));
  EXPECT_THAT(err.str(), HasSubstr("schema; did you mean 'run'?\n"));
  const Answer option = Ask({"run", "x.yaml", "--exprt", "y"});
  EXPECT_EQ(option.status, kExitInput);
  EXPECT_THAT(option.err, HasSubstr("did you mean '--export'?"));
}

TEST_F(Cli, EveryCommandHasHelpWithAnExample) {
  for (const char* command : {"run", "cost", "list", "describe", "schema"}) {
    const Answer answer = Ask({command, "--help"});
    EXPECT_EQ(answer.status, kExitSuccess) << command;
    EXPECT_THAT(answer.out, HasSubstr(std::string("Example:\n  stepsim ") + command));
  }
  EXPECT_THAT(Ask({"--version"}).out,
              ::testing::MatchesRegex("stepsim [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

TEST_F(Cli, ListsEverythingThatAJobCanName) {
  const Answer all = Ask({"list"});
  EXPECT_EQ(all.status, kExitSuccess);
  for (const char* name : {"a100-80g-dgx", "ethernet-25g", "resnet-50", "lesson_serial", "ddp",
                           "palm", "step_time_s", ".trace.json.gz", "nvls_tree", "ll128"}) {
    EXPECT_THAT(all.out, HasSubstr(std::string("  ") + name)) << name;
  }
  EXPECT_EQ(all.out.find("error:"), std::string::npos);
  EXPECT_THAT(Ask({"list", "hardwear"}).err, HasSubstr("did you mean 'hardware'?"));
}

TEST_F(Cli, DescribesFieldsAndMetrics) {
  EXPECT_THAT(Ask({"describe", "plan.ddp.bucket_cap_mb"}).out, HasSubstr("MiB"));
  EXPECT_THAT(Ask({"describe", "step_time_s"}).out, HasSubstr("unit     s"));
  const Answer unknown = Ask({"describe", "bukcet_cap_mb"});
  EXPECT_EQ(unknown.status, kExitInput);
  EXPECT_THAT(unknown.err, HasSubstr("did you mean 'bucket_cap_mb'?"));
}

TEST_F(Cli, SchemasAreJson) {
  for (const char* kind : {"job", "hardware", "network", "model", "collectives"}) {
    const auto schema = nlohmann::json::parse(Ask({"schema", kind}).out);
    EXPECT_THAT(schema["$schema"].get<std::string>(), HasSubstr("json-schema.org"));
  }
  EXPECT_EQ(Ask({"schema", "jobb"}).status, kExitInput);
}

// README.md shows what the program prints: tools/dev/update_readme.py writes the blocks.
TEST_F(Cli, ReadmeShowsTheRealOutput) {
  const std::string readme = ReadAll(STEPSIM_SOURCE_DIR "/README.md");
  const std::string marker = "<!-- output: stepsim ";
  std::size_t blocks = 0;
  for (std::size_t at = readme.find(marker); at != std::string::npos;
       at = readme.find(marker, at + 1), ++blocks) {
    const std::size_t end = readme.find(" -->\n```\n", at);
    ASSERT_NE(end, std::string::npos);
    std::istringstream words(readme.substr(at + marker.size(), end - at - marker.size()));
    std::vector<std::string> arguments;
    for (std::string word; words >> word;) {
      const bool is_file = word.rfind("configs/", 0) == 0;
      arguments.push_back(is_file ? std::string(STEPSIM_SOURCE_DIR) + "/" + word : word);
    }
    const std::size_t begin = end + std::string(" -->\n```\n").size();
    EXPECT_EQ(readme.substr(begin, readme.find("```\n", begin) - begin), Ask(arguments).out);
  }
  EXPECT_GT(blocks, 0u);
}

// Two runs are byte-identical, whatever the format.
TEST_F(Cli, ResultsAreReproducible) {
  const std::string job = Write("job.yaml", kJob);
  for (const char* format : {"-", "-.csv", "-.md", "-.trace.json"}) {
    const auto once = Ask({"run", job, "-q", "--export", format}).out;
    EXPECT_FALSE(once.empty());
    EXPECT_EQ(once, Ask({"run", job, "-q", "--export", format}).out) << format;
  }
}

}  // namespace
}  // namespace stepsim
