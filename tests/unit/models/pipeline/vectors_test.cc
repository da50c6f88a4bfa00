// Orders against recorded tables: PyTorch's, Megatron-LM's, DeepSeek's and sail-sg's
// (tests/data/pp_vectors/README.md says where each comes from).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/pipeline/check_schedule.h"
#include "models/pipeline/lowering.h"
#include "models/pipeline/schedule.h"
#include "models/pipeline/schedule_csv.h"
#include "tests/support/pipeline_vectors.h"

namespace stepsim {
namespace {

using testing::CellsOf;
using testing::PipelineVector;
using testing::PipelineVectors;
using testing::ReadPipelineFile;

PipelineSchedule Make(const std::string& name, const ScheduleShape& shape) {
  const ScheduleRow* row = FindSchedule(name);
  EXPECT_NE(row, nullptr) << name;
  EXPECT_EQ(row->Problem(shape), "");
  return row->Make(shape);
}

void ExpectCells(const PipelineSchedule& schedule, const std::string& csv,
                 const std::string& name) {
  const auto ours = CellsOf(WriteScheduleCsv(schedule)), theirs = CellsOf(csv);
  ASSERT_EQ(ours.size(), theirs.size()) << name;
  for (std::size_t rank = 0; rank < ours.size(); ++rank) {
    EXPECT_EQ(ours[rank], theirs[rank]) << name << ", rank " << rank;
  }
}

TEST(PipelineVectorsTest, EveryComputeTableCellByCell) {
  const std::vector<PipelineVector> vectors = PipelineVectors();
  EXPECT_EQ(vectors.size(), 29u);
  for (const PipelineVector& v : vectors) {
    ExpectCells(Make(v.schedule, v.shape), ReadPipelineFile(v.name + "_compute.csv"), v.name);
  }
}

TEST(PipelineVectorsTest, PyTorchsOwnArtifacts) {
  ExpectCells(Make("zb1p", {.ranks = 2, .chunks = 2, .microbatches = 8}),
              ReadPipelineFile("torch_artifact_zb1p_2rank_2stagep_compute.csv"), "zb1p");
  ExpectCells(Make("dualpipev", {.ranks = 4, .chunks = 2, .microbatches = 10}),
              ReadPipelineFile("torch_artifact_dualpipev_4rank_10mb.csv"), "dualpipev");
}

TEST(PipelineVectorsTest, EveryLoweredTablesOrder) {
  std::size_t lowered = 0;
  for (const PipelineVector& v : PipelineVectors()) {
    const std::string csv = ReadPipelineFile(v.name + "_comms.csv");
    if (csv.empty()) continue;
    ++lowered;
    ExpectCells(Lower(Make(v.schedule, v.shape)), csv, v.name);
  }
  EXPECT_EQ(lowered, 19u);
}

// This artifact shows sends and receives alone, with whole backwards where I and W are neighbours.
TEST(PipelineVectorsTest, PyTorchsLoweredArtifact) {
  const PipelineSchedule merged =
      MergeBackwards(Make("zb1p", {.ranks = 2, .chunks = 2, .microbatches = 8}));
  ExpectCells(Lower(merged, {.unsharded_stages = 0, .reduces_gradients = false}),
              ReadPipelineFile("torch_artifact_zb1p_2rank_2stagep_comms.csv"), "zb1p comms");
}

}  // namespace
}  // namespace stepsim
