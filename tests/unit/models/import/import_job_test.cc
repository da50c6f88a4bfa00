#include "models/import/import_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "models/spec/load_job.h"
#include "tests/support/imported.h"

namespace stepsim {
namespace {

using ::testing::HasSubstr;
using testing::Import;
using testing::ImportConfigs;
using ::testing::Not;
using testing::ValueOf;

const char kTitan[] =
    "[model]\nflavor = \"8B\"\n[activation_checkpoint]\nmode = \"none\"\n"
    "[training]\nlocal_batch_size = 2\nseq_len = 64\n";

Import Titan() { return {.framework = "torchtitan", .text = kTitan}; }

TEST(ImportJob, SaysExactlyWhatIsMissing) {
  Import import = Titan();
  import.sets = {};
  EXPECT_EQ(
      import.Errors(),
      "x.toml: a file of torchtitan does not say: hardware, nodes; give them in a JOB file or "
      "with, for example, --set hardware=h100-sxm-dgx --set nodes=2\n");
  import.sets = {"hardware=box"};
  EXPECT_THAT(import.Errors(), HasSubstr("does not say: nodes; give it "));
  // A JOB file without nodes means one.
  import.job = "hardware: box\n";
  import.sets = {};
  EXPECT_EQ(import.Load().job.gpus(), 4);
}

// The framework's defaults < JOB < the framework's file < --set.
TEST(ImportJob, TheStrongerLayerWins) {
  Import import = Titan();
  import.job =
      "hardware: box\nnodes: 2\nmodel: tiny\nbatch: {mbs: 3, seq_len: 32}\n"
      "optimizer_impl: foreach\nplan: {fsdp2: {forward_prefetch: 1}}\n";
  import.sets = {"batch.seq_len=128"};
  const ResolvedJob job = import.Load();
  EXPECT_EQ(ValueOf(job, "optimizer_impl"), "foreach (job.yaml:5)");
  EXPECT_EQ(ValueOf(job, "batch.micro_batch_size"), "2 (x.toml:6)");
  EXPECT_EQ(ValueOf(job, "batch.sequence_length"), "128 (--set)");
  EXPECT_EQ(ValueOf(job, "plan.fsdp2.forward_prefetch"), "1 (job.yaml:6)");
  EXPECT_EQ(job.job.model.name, "llama-3-8b");
  EXPECT_EQ(job.job.name, "job");
}

TEST(ImportJob, IsTheJobThatOneWouldWriteByHand) {
  const ResolvedJob imported = Titan().Load();
  const ResolvedJob by_hand = LoadJobText(
      "{name: x, model: llama-3-8b, hardware: box, nodes: 2, plan: {strategy: fsdp2, fsdp2: "
      "{reduce_dtype: fp32, wrap: custom, wrap_modules: [embedding, 'layers.*', final_norm+head], "
      "keep_after_forward: [final_norm, head]}}, batch: {micro_batch_size: 2, sequence_length: "
      "64}, precision: "
      "{compute: bf16, parameters: fp32}, optimizer: adamw, optimizer_impl: fused}",
      "hand.yaml", {}, ImportConfigs());
  EXPECT_EQ(imported.resolved_json, by_hand.resolved_json);
  // And what it wrote is a job again.
  EXPECT_EQ(LoadJobText(imported.resolved_json, "again.json", {}, ImportConfigs()).resolved_json,
            imported.resolved_json);
}

TEST(ImportJob, ReportsAllProblemsAtOnce) {
  Import import = Titan();
  import.text +=
      "[parallelism]\nenable_compiled_autograd = true\nexpert_parallel_comm_backend = \"deepep\"\n";
  import.sets = {};
  const std::string errors = import.Errors();
  EXPECT_THAT(errors, HasSubstr("x.toml:9:"));
  EXPECT_THAT(errors, HasSubstr("x.toml:10:"));
  EXPECT_THAT(errors, HasSubstr("does not say: hardware, nodes"));
}

TEST(ImportJob, GuessesTheFrameworkWhereItIsPlain) {
  Import import = Titan();
  import.framework = "";
  EXPECT_EQ(import.Load().job.plan.strategy, "fsdp2");
  import.file = "x.conf";
  EXPECT_THAT(import.Errors(), HasSubstr("x.conf: found a file that looks like that of no known "
                                         "framework, allowed: --from KIND:x.conf with a KIND of "
                                         "torchtitan"));
}

TEST(ImportJob, BrokenFilesAreOneError) {
  Import import = Titan();
  import.text = "[training\n";
  EXPECT_THAT(import.Errors(), HasSubstr("x.toml:1:"));
  import.job = "a: [";
  import.text = kTitan;
  EXPECT_THAT(import.Errors(), HasSubstr("job.yaml:1:"));
}

TEST(ImportJob, PathsMayNameTheFramework) {
  EXPECT_EQ(ParseFrameworkPath("torchtitan:a/b.toml").framework, "torchtitan");
  EXPECT_EQ(ParseFrameworkPath("torchtitan:a:b.toml").path, "a:b.toml");
  EXPECT_EQ(ParseFrameworkPath("a/b:c.toml").path, "a/b:c.toml");
  EXPECT_EQ(ParseFrameworkPath("b.toml").framework, "");
  try {
    ParseFrameworkPath("torchtitn:b.toml");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("did you mean 'torchtitan'?"));
  }
}

}  // namespace
}  // namespace stepsim
