// Flags are the inverse of models/import: read back over the same job they give the same values.
#include "models/study/framework_flags.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "models/import/import_job.h"
#include "models/pipeline/schedule.h"
#include "sim/config/read_config.h"
#include "tests/support/shipped.h"

namespace stepsim {
namespace {

struct Case {
  const char* job;
  const char* framework;
  Changes changes;
};

// The value at a dotted path of the resolved job; "" where the job has no such key.
std::string ValueAt(const ResolvedJob& resolved, std::string_view path) {
  const ConfigNode root = ReadConfig(resolved.resolved_json, "resolved");
  const ConfigNode* node = &root;
  while (node != nullptr && !path.empty()) {
    const std::size_t dot = path.find('.');
    node = node->FindValue(path.substr(0, dot));
    path = dot == std::string_view::npos ? "" : path.substr(dot + 1);
  }
  if (node == nullptr) return "";
  const ScheduleRow* schedule = FindSchedule(node->text);  // by whichever of its names
  return schedule == nullptr ? node->text : std::string(schedule->name);
}

class FlagsTest : public ::testing::TestWithParam<Case> {};

TEST_P(FlagsTest, ReadBackAsTheJob) {
  const Case& each = GetParam();
  const ResolvedJob wanted = testing::LoadShipped(each.job, each.changes);
  bool has_framework = false;
  for (const FrameworkFlags& flags : FlagsOf(wanted.job, each.changes)) {
    if (flags.framework != each.framework) continue;
    has_framework = true;
    EXPECT_EQ(flags.unable, std::vector<std::string>{});
    const std::string file = std::string("configs/jobs/") + each.job + ".yaml";
    ImportRequest request;
    request.files = {{std::string(flags.importer), {"flags", flags.text, ""}}};
    std::string text = testing::ReadRepositoryFile(file);
    // A switch that a script does not have cannot turn off what the job says.
    const std::size_t switches = text.find("\n  megatron: {");
    if (switches != std::string::npos) {
      text.erase(switches, text.find('\n', switches + 1) - switches);
    }
    request.job = {testing::RepositoryPath(file), text, ""};
    // Megatron-LM and torchtitan count global batches: micro-steps follow.
    const bool counts_steps = std::string(each.framework) == "DeepSpeed";
    const std::vector<std::string> sets =
        counts_steps ? Changes{} : Changes{"batch.gradient_accumulation_steps=null"};
    const ResolvedJob read = LoadImportedJob(request, sets, testing::ShippedConfigs());
    for (const std::string_view key : FlagKeys(each.framework)) {
      EXPECT_EQ(ValueAt(read, key), ValueAt(wanted, key)) << key << "\n" << flags.text;
    }
  }
  EXPECT_TRUE(has_framework);
}

INSTANTIATE_TEST_SUITE_P(
    All, FlagsTest,
    ::testing::Values(
        Case{"gpt3-6.7b_megatron_32xh100", "Megatron-LM", {}},
        Case{"gpt3-6.7b_megatron_32xh100",
             "Megatron-LM",
             {"batch.micro_batch_size=2", "batch.gradient_accumulation_steps=2",
              "plan.megatron.ddp_bucket_size=80000000", "recompute.granularity=full"}},
        Case{"gpt3-6.7b_megatron_32xh100",
             "Megatron-LM",
             {"plan.tensor_parallel=2", "plan.pipeline_parallel=4",
              "plan.tensor.sequence_parallel=true", "plan.pipeline.schedule=interleaved_1f1b",
              "plan.pipeline.virtual_stages=4", "batch.gradient_accumulation_steps=32",
              "plan.megatron.overlap_param_gather=false"}},
        Case{"llama-2-7b_zero3_16xa100", "DeepSpeed", {}},
        Case{"llama-2-7b_zero3_16xa100",
             "DeepSpeed",
             {"plan.zero.stage=1", "plan.zero.overlap_comm=true",
              "plan.zero.reduce_bucket_size=50000000"}},
        Case{"llama-2-7b_zero3_16xa100",
             "DeepSpeed",
             {"plan.zero.stage3_prefetch_bucket_size=200000000",
              "plan.zero.zero_hpz_partition_size=8"}},
        Case{"llama-3-8b_fsdp2_16xh100", "torchtitan", {}},
        Case{"qwen3-30b-a3b_fsdp2_ep8_32xh100", "torchtitan", {}},
        Case{"llama-3-8b_fsdp2_16xh100",
             "torchtitan",
             {"plan.fsdp2.shard_size=8", "recompute.granularity=selective", "recompute.policy=op"}},
        Case{"llama-3-8b_fsdp2_16xh100",
             "torchtitan",
             {"plan.tensor_parallel=2", "plan.pipeline_parallel=2",
              "batch.gradient_accumulation_steps=4", "plan.pipeline.schedule=interleaved_1f1b",
              "recompute.granularity=full"}}));

TEST(Flags, NameWhatAFrameworkCannotBeTold) {
  const Changes changes = {"plan.fsdp2.forward_prefetch=2"};
  const ResolvedJob job = testing::LoadShipped("llama-3-8b_fsdp2_16xh100", changes);
  for (const FrameworkFlags& flags : FlagsOf(job.job, changes)) {
    if (flags.framework == "torchtitan") {
      EXPECT_EQ(flags.unable, changes);
    } else if (flags.framework == "PyTorch") {
      EXPECT_TRUE(flags.unable.empty());
    }
  }
}

// torchtitan has decoders like Llama's alone.
TEST(Flags, AreThoseOfFrameworksThatHaveTheNetwork) {
  const auto has_torchtitan = [](const char* job, const Changes& changes) {
    const std::vector<FrameworkFlags> all = FlagsOf(testing::LoadShipped(job, changes).job, {});
    return std::any_of(all.begin(), all.end(),
                       [](const FrameworkFlags& each) { return each.framework == "torchtitan"; });
  };
  const Changes fsdp2 = {"plan.strategy=fsdp2", "plan.ddp=null"};
  EXPECT_TRUE(has_torchtitan("llama-3-8b_fsdp2_16xh100", {}));
  EXPECT_FALSE(has_torchtitan("gpt2_ddp_32xa40_25gbe", fsdp2));
  EXPECT_FALSE(has_torchtitan("llama-3.2-3b_ddp_16xa100", {}));
}

}  // namespace
}  // namespace stepsim
