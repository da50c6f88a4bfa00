// Which recorded tables of pipeline schedules are there (tests/data/pp_vectors)? Each by the
// schedule and the shape that its file name states:
//
//   torch_interleaved1f1b_p4_v2_m8  ->  interleaved_1f1b, 4 ranks, 2 chunks, 8 micro-batches
#pragma once

#include <string>
#include <vector>

#include "models/pipeline/schedule.h"

namespace stepsim::testing {

struct PipelineVector {
  std::string name;      // the file's, without _compute.csv
  std::string schedule;  // ours
  ScheduleShape shape;
};

// Every _compute.csv whose name has a shape.
std::vector<PipelineVector> PipelineVectors();
std::string ReadPipelineFile(const std::string& name);  // "..._compute.csv"; "" when there is none
// Cells per line, empty ones dropped.
std::vector<std::vector<std::string>> CellsOf(const std::string& csv);

}  // namespace stepsim::testing
