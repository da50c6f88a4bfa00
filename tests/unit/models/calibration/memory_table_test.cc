#include "models/calibration/memory_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "models/calibration/error_statistics.h"
#include "sim/base/diagnostics.h"
#include "tests/support/shipped.h"

namespace stepsim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr const char* kHeader =
    "row_id,source,model,n_layers,hidden,n_heads,n_kv_heads,ffn_hidden,gated_mlp,tied,vocab,"
    "n_experts,top_k,moe_ffn_hidden,shared_ffn_hidden,dense_layers,q_rank,kv_rank,qk_head,rope_"
    "head,"
    "v_head,seq_len,states,kernels,recompute,loss,fp8_weights,tp,pp,vpp,cp,ep,dp,"
    "sequence_parallel,stages,micro_batch,grad_accum,figure,peak_mem_gib,note\n";

std::string Row(std::map<std::string, std::string> changed) {
  const std::map<std::string, std::string> usual = {{"row_id", "r1"},
                                                    {"source", "s"},
                                                    {"model", "llama"},
                                                    {"n_layers", "12"},
                                                    {"hidden", "64"},
                                                    {"n_heads", "8"},
                                                    {"n_kv_heads", "2"},
                                                    {"ffn_hidden", "128"},
                                                    {"gated_mlp", "y"},
                                                    {"tied", "n"},
                                                    {"vocab", "100"},
                                                    {"seq_len", "32"},
                                                    {"states", "megatron"},
                                                    {"kernels", "fused"},
                                                    {"recompute", "none"},
                                                    {"loss", "in_place"},
                                                    {"fp8_weights", "n"},
                                                    {"tp", "2"},
                                                    {"pp", "3"},
                                                    {"vpp", "1"},
                                                    {"cp", "1"},
                                                    {"ep", "1"},
                                                    {"dp", "4"},
                                                    {"sequence_parallel", "y"},
                                                    {"stages", "layers"},
                                                    {"micro_batch", "1"},
                                                    {"grad_accum", "8"},
                                                    {"figure", "allocated"},
                                                    {"peak_mem_gib", "2.5"}};
  changed.insert(usual.begin(), usual.end());
  std::string row, header = kHeader;
  header.back() = ',';
  for (std::size_t at = 0; at < header.size();) {
    const std::size_t end = header.find(',', at);
    row += (at == 0 ? "" : ",") + changed[header.substr(at, end - at)];
    at = end + 1;
  }
  return row + "\n";
}

MemoryTable Read(const std::string& rows) {
  const CsvTable table = ParseCsv(kHeader + rows, "memory.csv");
  return ReadMemoryTable(table);
}

std::string Problem(const std::string& rows) {
  try {
    Read(rows);
  } catch (const ConfigError& error) {
    return error.diagnostics().front().ToString();
  }
  return "";
}

TEST(MemoryTable, ReadsARow) {
  const MemoryTable table = Read(Row({}));
  ASSERT_THAT(table.rows, SizeIs(1));
  const FormulaJob& job = table.rows[0].job;
  EXPECT_EQ(table.rows[0].bytes, 2.5 * (1 << 30));
  EXPECT_EQ(job.model.layers, 12);
  EXPECT_EQ(job.model.kv_heads, 2);
  EXPECT_TRUE(job.model.is_gated);
  EXPECT_FALSE(job.model.latent.has_value());
  EXPECT_EQ(job.states, StateLayout::kMegatron);
  EXPECT_EQ(job.kept, KeptActivations::kAll);
  EXPECT_EQ(job.tensor_parallel, 2);
  EXPECT_EQ(job.pipeline_parallel, 3);
  EXPECT_EQ(job.data_parallel, 4);
  EXPECT_TRUE(job.has_sequence_parallel);
}

TEST(MemoryTable, ReadsExpertsAndLatentAttention) {
  const MemoryTable table = Read(Row({{"n_experts", "160"},
                                      {"top_k", "6"},
                                      {"moe_ffn_hidden", "32"},
                                      {"dense_layers", "1"},
                                      {"kv_rank", "16"},
                                      {"qk_head", "8"},
                                      {"rope_head", "4"},
                                      {"v_head", "8"}}));
  ASSERT_THAT(table.rows, SizeIs(1));
  ASSERT_TRUE(table.rows[0].job.model.experts.has_value());
  EXPECT_EQ(table.rows[0].job.model.experts->shared_ffn, 0);  // none: the cell is empty
  ASSERT_TRUE(table.rows[0].job.model.latent.has_value());
  EXPECT_EQ(table.rows[0].job.model.latent->query_rank, 0);
  EXPECT_EQ(table.rows[0].job.model.latent->rotary_head, 4);
}

TEST(MemoryTable, SetsAsideWhatAPublicationLeavesOpen) {
  const MemoryTable table = Read(Row({{"hidden", ""}, {"figure", ""}}) + Row({{"row_id", "r2"}}));
  ASSERT_THAT(table.uncomputed, SizeIs(1));
  EXPECT_THAT(table.uncomputed[0].missing, ElementsAre("hidden", "figure"));
  EXPECT_THAT(table.rows, SizeIs(1));
}

TEST(MemoryTable, NamesPlacesOfWrongCells) {
  EXPECT_EQ(
      Problem(Row({{"states", "zero_1"}})),
      "memory.csv:2:47: states: found 'zero_1', allowed: fp32_ddp, megatron, "
      "megatron_distributed, zero0, zero1, zero1_fp32_gradients, zero2, zero3, fsdp2; did you "
      "mean 'zero1'?");
  EXPECT_THAT(Problem(Row({{"hidden", "-4"}})), HasSubstr("hidden: found '-4'"));
  EXPECT_THAT(Problem(Row({{"seq_len", "5000000000"}})), HasSubstr("allowed: up to 1000000000"));
  EXPECT_THAT(Problem(Row({{"peak_mem_gib", "0"}})), HasSubstr("peak_mem_gib: found '0'"));
  EXPECT_THAT(Problem(Row({{"pp", "13"}})), HasSubstr("pp: found 13 stages, allowed: up to 12"));
  EXPECT_THAT(Problem(Row({{"n_kv_heads", "9"}})), HasSubstr("allowed: up to 8, all heads"));
  EXPECT_THAT(
      Problem(
          Row({{"n_experts", "4"}, {"top_k", "1"}, {"moe_ffn_hidden", "4"}, {"kernels", "eager"}})),
      HasSubstr("mixture of experts, allowed with: fused"));
}

// ---- tests/data/memory_published.csv: what the closed form reaches ----

class PublishedMemory : public ::testing::Test {
 protected:
  PublishedMemory() {
    const std::string path = "tests/data/memory_published.csv";
    table_ = ReadMemoryTable(ParseCsv(testing::ReadRepositoryFile(path), path));
    // A run that is listed for several numbers of microbatches counts once.
    std::map<std::string, std::vector<double>> seen;
    for (const MemoryRow& row : table_.rows) {
      const double total = EstimateMemory(row.job).total;
      std::vector<double>& totals = seen[row.model + std::to_string(row.bytes)];
      if (std::find(totals.begin(), totals.end(), total) != totals.end()) continue;
      totals.push_back(total);
      errors_[row.source].push_back(total / row.bytes - 1);
      errors_["all"].push_back(total / row.bytes - 1);
    }
  }
  double Median(const std::string& source) { return Summarize(errors_[source]).median; }

  MemoryTable table_;
  std::map<std::string, std::vector<double>> errors_;
};

// The aim is a median error of at most 5%; results/validation states what is reached.
TEST_F(PublishedMemory, MedianErrorIsWithinTheAim) {
  EXPECT_LE(Median("all"), 0.05);
  EXPECT_LE(Median("simumax"), 0.01);
  EXPECT_LE(Median("torchtitan"), 0.05);
  EXPECT_LE(Median("bigscience"), 0.055);  // distinct runs; nvidia-smi in whole gigabytes
}

TEST_F(PublishedMemory, MostRowsAreComputed) {
  EXPECT_THAT(table_.rows, SizeIs(134));
  EXPECT_THAT(table_.uncomputed, SizeIs(7));
}

}  // namespace
}  // namespace stepsim
