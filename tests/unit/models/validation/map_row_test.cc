// Rows of a table of published steps as jobs. Expected values are what the columns mean
// (PublishedColumns), links and GPUs in the words of public benchmark pages.
#include "models/validation/map_row.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "models/validation/text_rules.h"
#include "models/validation/validate_steps.h"

namespace stepsim {
namespace {

using ::testing::HasSubstr;

constexpr const char* kHeader =
    "row_id,source,model,n_layers,hidden,n_heads,n_kv_heads,ffn_hidden,gated_mlp,vocab,seq_len,"
    "precision,gpu,n_gpus,gpus_per_node,intra_link,inter_link,strategy,tp,pp,vpp,dp,micro_batch,"
    "grad_accum,global_batch,recompute,flash_attention,overlap,step_time_s,weather\n";
constexpr const char* kRow =
    "r1,somebody,llama3-8b,32,4096,32,8,14336,y,128256,8192,bf16,H100-80GB,16,8,NVLink4,"
    "4x 200 Gb/s InfiniBand per node,megatron distributed optimizer,2,2,4,4,1,16,64,full,y,none,"
    "2.5,rain\n";

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

PublishedTable Table(const std::string& row) {
  return PublishedTable(ParseCsv(kHeader + row, "steps.csv"));
}

ResolvedJob Job(const std::string& row) {
  const PublishedTable table = Table(row);
  const MappedRow mapped = MapRow(table.Row(0));
  EXPECT_EQ(mapped.skipped, "");
  return LoadMappedJob(mapped, "row", DirectoryConfigSource(STEPSIM_SOURCE_DIR "/configs"));
}

std::string WhySkipped(const std::string& row) { return MapRow(Table(row).Row(0)).skipped; }

TEST(MapRow, ReadsDegreesBatchNetworkAndLinks) {
  const JobSpec job = Job(kRow).job;
  EXPECT_EQ(job.gpus(), 16);
  EXPECT_EQ(job.nodes, 2);
  EXPECT_EQ(job.plan.strategy, "megatron");
  EXPECT_EQ(job.plan.tensor_parallel, 2);
  EXPECT_EQ(job.plan.pipeline_parallel, 2);
  EXPECT_EQ(job.plan.pipeline.virtual_stages, 4);
  EXPECT_TRUE(job.plan.megatron.use_distributed_optimizer);
  EXPECT_FALSE(job.plan.megatron.overlap_grad_reduce);
  EXPECT_TRUE(job.recompute.IsFull());
  EXPECT_EQ(job.global_samples(), 64);
  EXPECT_EQ(TransformerOf(job)->kv_heads, 8);
  EXPECT_TRUE(TransformerOf(job)->gated_mlp);
  EXPECT_EQ(job.hardware.network.nics_per_node, 4);
  EXPECT_DOUBLE_EQ(job.hardware.network.link.bandwidth.value, 25e9);  // 200 Gb/s
}

TEST(MapRow, DealsATotalPerNodeToOneAdapterPerGpu) {
  const JobSpec job =
      Job(Replaced(kRow, "4x 200 Gb/s InfiniBand per node", "1600 Gb/s RoCE per node")).job;
  EXPECT_EQ(job.hardware.network.nics_per_node, 8);
  EXPECT_DOUBLE_EQ(job.hardware.network.link.bandwidth.value, 25e9);
}

TEST(MapRow, SkipsWhatItDoesNotKnowAndNamesTheColumn) {
  EXPECT_THAT(WhySkipped(Replaced(kRow, "H100-80GB", "TPU v9")), HasSubstr("gpu: found 'TPU v9'"));
  EXPECT_THAT(WhySkipped(Replaced(kRow, ",full,", ",sometimes,")),
              HasSubstr("recompute: found 'sometimes'"));
  EXPECT_THAT(WhySkipped(Replaced(kRow, ",2.5,", ",soon,")),
              HasSubstr("step_time_s: found 'soon'"));
  EXPECT_THAT(WhySkipped(Replaced(kRow, ",16,8,", ",15,8,")), HasSubstr("n_gpus: found 15"));
  EXPECT_THAT(WhySkipped(Replaced(kRow, "4x 200 Gb/s InfiniBand per node", "pigeons")),
              HasSubstr("inter_link: found 'pigeons'"));
  EXPECT_THAT(WhySkipped(Replaced(kRow, "llama3-8b,32", "llama3-8b,")), HasSubstr("n_layers"));
}

TEST(MapRow, NotesWhatItAssumes) {
  const PublishedTable table = Table(Replaced(kRow, "128256", ""));
  EXPECT_THAT(MapRow(table.Row(0)).assumptions, ::testing::Contains(HasSubstr("vocab: 128256")));
  EXPECT_THAT(table.unknown_columns(), ::testing::ElementsAre("weather"));
}

TEST(ValidateStep, NeverThrowsForWhatARowSays) {
  const DirectoryConfigSource configs(STEPSIM_SOURCE_DIR "/configs");
  // Seven layers do not come out even over 2 x 4 stages: the simulator refuses.
  const PublishedTable table = Table(Replaced(kRow, "llama3-8b,32", "llama3-8b,7"));
  const ValidatedStep step = ValidateStep(table, 0, configs);
  EXPECT_EQ(step.status, StepStatus::kSkipped);
  EXPECT_THAT(step.reason, HasSubstr("refused"));
  EXPECT_FALSE(step.is_scored());
}

TEST(TextRules, WordsBeginWordsOfTheText) {
  const std::string text = PlainWords("NVLink4 (SXM), GB200-NVL72");
  EXPECT_TRUE(MatchesWords(text, "nvlink"));
  EXPECT_TRUE(MatchesWords(text, "gb200_nvl72 sxm"));
  EXPECT_FALSE(MatchesWords(text, "b200"));
  EXPECT_FALSE(MatchesWords(text, "nvlink !sxm"));
  EXPECT_TRUE(MatchesWords("", ""));
  EXPECT_FALSE(MatchesWords(text, ""));
  EXPECT_TRUE(MatchesWords("full", "=full"));
  EXPECT_FALSE(MatchesWords("full uniform", "=full"));
}

}  // namespace
}  // namespace stepsim
