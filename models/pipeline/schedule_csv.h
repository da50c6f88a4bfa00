// How is a schedule exchanged with PyTorch? One line per rank, one cell per operation, in the
// grammar of torch.distributed.pipelining:
//
//   0F0,0F1,,0B0,0B1                     empty cells are holes of a drawing and mean nothing
//   1F0,(1F1;1B0)OVERLAP_F_B,1B1         two actions handed out together
//
// Actions: F, B, I, W with a micro-batch; SEND_F, RECV_F, SEND_B, RECV_B with one; UNSHARD,
// RESHARD, REDUCE_GRAD without.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "models/pipeline/schedule.h"
#include "sim/base/diagnostics.h"

namespace stepsim {

struct ScheduleFile {
  PipelineSchedule schedule;  // its name is the file's
  struct Cell {
    int line = 0, column = 0;
  };
  std::vector<std::vector<Cell>> cells;  // where every action stands

  Place PlaceOf(std::size_t rank, std::size_t action) const;
};

// The shape and the placement of stages follow from the cells. Throws ConfigError: the first cell
// that is wrong, with file:line:column, or what makes the table as a whole no schedule.
ScheduleFile ReadScheduleCsv(std::string_view text, const std::string& file_name);

// What keeps it from being one pass of every micro-batch through every stage (InvalidActions of
// check_schedule.h), each at its cell; what is missing at the line of its rank.
std::vector<Diagnostic> ProblemsOf(const ScheduleFile& file);

std::string WriteScheduleCsv(const PipelineSchedule& schedule);

}  // namespace stepsim
