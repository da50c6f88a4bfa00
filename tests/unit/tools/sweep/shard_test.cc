#include "tools/sweep/shard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace stepsim {
namespace {

using ::testing::HasSubstr;

std::string ParseError(const std::string& text) {
  try {
    ParseShard(text, {"--shard", 0, 0});
  } catch (const ConfigError& error) {
    return error.diagnostics().front().message;
  }
  return "";
}

std::optional<FoundShard> From(const std::map<std::string, std::string>& variables) {
  return ShardFromEnvironment([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(Shard, CountsFromOne) {
  EXPECT_EQ(ParseShard("3/8", {}), (Shard{3, 8}));
  EXPECT_EQ(ParseShard("1/1", {}), Shard{});
  EXPECT_THAT(ParseError("0/8"), HasSubstr("counted from 1"));
  for (const char* text : {"9/8", "3", "3/", "/8", "a/b", "3/0", "-1/8", "3/8/2", ""}) {
    EXPECT_THAT(ParseError(text), HasSubstr("allowed: I/N")) << text;
  }
}

TEST(Shard, FilesAreNamedByIt) {
  EXPECT_EQ(ShardFileName("out.jsonl", {3, 8}), "out.3-of-8.jsonl");
  EXPECT_EQ(ShardFileName("a.b/out", {3, 16}), "a.b/out.03-of-16");
  EXPECT_EQ(ShardFileName("out.jsonl", {1, 1}), "out.jsonl");
}

TEST(Shard, AnArrayElementIsAShard) {
  EXPECT_FALSE(From({}).has_value());
  const auto found = From({{"SLURM_ARRAY_TASK_ID", "2"},
                           {"SLURM_ARRAY_TASK_COUNT", "8"},
                           {"SLURM_ARRAY_TASK_MIN", "1"},
                           {"SLURM_PROCID", "0"},
                           {"SLURM_NTASKS", "4"}});
  EXPECT_EQ(found->shard, (Shard{2, 8}));
  EXPECT_EQ(found->source, "SLURM_ARRAY_TASK_ID=2 of SLURM_ARRAY_TASK_COUNT=8");
  // --array=0-7 and --array=0-30:10
  EXPECT_EQ(From({{"SLURM_ARRAY_TASK_ID", "7"}, {"SLURM_ARRAY_TASK_COUNT", "8"}})->shard,
            (Shard{8, 8}));
  EXPECT_EQ(From({{"SLURM_ARRAY_TASK_ID", "20"},
                  {"SLURM_ARRAY_TASK_COUNT", "4"},
                  {"SLURM_ARRAY_TASK_MIN", "0"},
                  {"SLURM_ARRAY_TASK_STEP", "10"}})
                ->shard,
            (Shard{3, 4}));
}

TEST(Shard, ATaskOfAStepIsAShard) {
  const auto found = From({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}});
  EXPECT_EQ(found->shard, (Shard{1, 4}));
  EXPECT_FALSE(From({{"SLURM_PROCID", "0"}}).has_value());
  EXPECT_THROW(From({{"SLURM_PROCID", "4"}, {"SLURM_NTASKS", "4"}}), ConfigError);
}

// Its variables are those of its first task, but it is to do all of the work.
TEST(Shard, ABatchScriptIsNoShard) {
  const std::map<std::string, std::string> script = {
      {"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}};
  EXPECT_FALSE(From(script).has_value());
  std::map<std::string, std::string> step = script;
  step["SLURM_STEP_ID"] = "0";
  step["SLURM_PROCID"] = "2";
  EXPECT_EQ(From(step)->shard, (Shard{3, 4}));
}

TEST(Shard, ArraysWithGapsAreRefused) {
  // --array=1,5,7
  EXPECT_THROW(From({{"SLURM_ARRAY_TASK_ID", "7"},
                     {"SLURM_ARRAY_TASK_COUNT", "3"},
                     {"SLURM_ARRAY_TASK_MIN", "1"}}),
               ConfigError);
  EXPECT_THROW(From({{"SLURM_ARRAY_TASK_ID", "x"}, {"SLURM_ARRAY_TASK_COUNT", "3"}}), ConfigError);
  EXPECT_THROW(From({{"SLURM_ARRAY_TASK_ID", "1"}}), ConfigError);
}

}  // namespace
}  // namespace stepsim
