// `stepsim run --from KIND:FILE`: a framework's own file in place of, or over, a job.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/cli_fixture.h"

namespace stepsim {
namespace {

using testing::Answer;
using testing::Ask;
using ::testing::HasSubstr;
using testing::ReadAll;
class CliImport : public testing::Cli {};

constexpr const char* kTitan = STEPSIM_SOURCE_DIR "/configs/imports/llama-3-8b_torchtitan.toml";
const std::vector<std::string> kCluster = {"--set", "hardware=h100-sxm-dgx", "--set", "nodes=2"};

Answer AskFrom(std::vector<std::string> arguments, const std::string& input = "") {
  arguments.insert(arguments.begin(), "run");
  arguments.insert(arguments.end(), kCluster.begin(), kCluster.end());
  return Ask(arguments, input);
}

TEST_F(CliImport, RunsWithoutAJob) {
  const Answer answer =
      AskFrom({"--from", std::string("torchtitan:") + kTitan, "--export", Path("x.json")});
  EXPECT_EQ(answer.status, kExitSuccess) << answer.err;
  EXPECT_THAT(answer.out, HasSubstr("Llama 3 8B with FSDP2 and torch.compile"));
  EXPECT_THAT(answer.out, HasSubstr("note         llama-3-8b_torchtitan.toml: "));
  const auto result = nlohmann::json::parse(ReadAll(Path("x.json")));
  EXPECT_EQ(result["resolved"]["plan"]["strategy"], "fsdp2");
  EXPECT_EQ(result["notes"].size(), 2u);
  // How the file is understood stands among the assumptions, with its lines.
  bool has_sequence = false;
  for (const auto& assumption : result["assumptions"]) {
    has_sequence = has_sequence || (assumption["field"] == "batch.sequence_length" &&
                                    assumption["origin"] == "llama-3-8b_torchtitan.toml:26");
  }
  EXPECT_TRUE(has_sequence);
}

// Every file of configs/imports.
TEST_F(CliImport, RunsEveryShippedExample) {
  using Sets = std::vector<std::string>;
  const Sets two_nodes = {"hardware=h100-sxm-dgx", "nodes=2"};
  const Sets llama = {"hardware=h100-sxm-dgx", "nodes=2", "model=llama-3-8b",
                      "batch.sequence_length=4096"};
  Sets accelerate = llama;
  accelerate.emplace_back("batch.micro_batch_size=1");
  struct Example {
    Sets sets;
    std::string strategy;
    bool may_warn = false;
  };
  const std::map<std::string, Example> examples = {
      {"llama-3-8b_torchtitan.toml", {two_nodes, "fsdp2"}},
      {"llama-3-70b_torchtitan_3d.toml", {{"hardware=h100-sxm-dgx", "nodes=32"}, "fsdp2", true}},
      {"fsdp_accelerate.yaml", {accelerate, "fsdp2"}},
      // Of ZeRO-3 per micro-step.
      {"zero3_deepspeed.json", {llama, "zero", true}},
      {"zero1_3d_deepspeed.json",
       {{"hardware=a100-80g-dgx", "nodes=48", "model=gpt3-175b", "batch.sequence_length=2048"},
        "zero"}},
      // Of core_attn with flash attention, as Megatron itself warns.
      {"llama_megatron.sh", {two_nodes, "megatron", true}},
      // A quarter of its batch: 70 micro-batches.
      {"gpt3-530b_megatron_3d.sh",
       {{"hardware=a100-80g-dgx", "batch.global_batch_size=560"}, "megatron"}},
  };
  const std::filesystem::path folder = STEPSIM_SOURCE_DIR "/configs/imports";
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    const auto example = examples.find(file.path().filename().string());
    ASSERT_NE(example, examples.end()) << file.path();
    std::vector<std::string> arguments = {"run", "--from",   file.path().string(),
                                          "-q",  "--export", "-"};
    for (const std::string& set : example->second.sets) {
      arguments.insert(arguments.end(), {"--set", set});
    }
    const Answer answer = Ask(arguments);
    ASSERT_EQ(answer.status, kExitSuccess) << answer.err;
    const auto result = nlohmann::json::parse(answer.out);
    EXPECT_EQ(result["resolved"]["plan"]["strategy"], example->second.strategy) << file.path();
    EXPECT_TRUE(result["warnings"].empty() || example->second.may_warn) << result["warnings"];
  }
}

TEST_F(CliImport, ListsTheFrameworks) {
  const std::string list = Ask({"list", "frameworks"}).out;
  for (const char* name : {"torchtitan", "deepspeed", "accelerate", "megatron"}) {
    EXPECT_THAT(list, HasSubstr(name));
  }
}

// The summary lists every key that was not taken over.
TEST_F(CliImport, ListsEveryIgnoredKey) {
  const Answer answer = AskFrom({"--from", kTitan});
  for (const char* key : {"job.dump_folder", "metrics.log_freq", "optimizer.lr", "training.dataset",
                          "checkpoint.interval", "lr_scheduler.warmup_steps"}) {
    EXPECT_THAT(answer.out, HasSubstr(key));
  }
}

TEST_F(CliImport, LaysTheFileOverAJob) {
  const std::string cluster = Write("cluster.yaml", "hardware: h100-sxm-dgx\nnodes: 4\n");
  const Answer answer = Ask({"run", cluster, "--from", kTitan, "-q", "--export", "-"});
  EXPECT_EQ(answer.status, kExitSuccess) << answer.err;
  EXPECT_EQ(nlohmann::json::parse(answer.out)["resolved"]["nodes"], 4);
}

TEST_F(CliImport, ReadsStandardInputOnce) {
  EXPECT_EQ(AskFrom({"--from", "torchtitan:-", "-q"}, ReadAll(kTitan)).status, kExitSuccess);
  const Answer twice = AskFrom({"-", "--from", "torchtitan:-"}, "x");
  EXPECT_EQ(twice.status, kExitInput);
  EXPECT_THAT(twice.err, HasSubstr("standard input can be read only once"));
}

TEST_F(CliImport, SaysWhatIsWrong) {
  EXPECT_THAT(Ask({"run"}).err,
              HasSubstr("error: found no job, allowed: JOB, or --from KIND:FILE"));
  EXPECT_EQ(Ask({"run"}).status, kExitInput);
  EXPECT_THAT(Ask({"run", "--from", kTitan}).err, HasSubstr("does not say: hardware, nodes"));
  EXPECT_THAT(AskFrom({"--from", "torchtitn:x"}).err, HasSubstr("did you mean 'torchtitan'?"));
  EXPECT_THAT(AskFrom({"--from", "torchtitan:" + Path("no.toml")}).err,
              HasSubstr("no.toml: found no such file"));
  const Answer both = AskFrom({"no-job", "--from", "torchtitan:" + Path("no.toml")});
  EXPECT_THAT(both.err, HasSubstr("no-job: found no such file"));
  EXPECT_THAT(both.err, HasSubstr("no.toml: found no such file"));
}

}  // namespace
}  // namespace stepsim
