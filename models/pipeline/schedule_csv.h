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
  PipelineSchedule schedule;
  std::vector<std::vector<Place>> places;  // of every action
};

// The shape and the placement of stages follow from the cells. Throws ConfigError: the first cell
// that is wrong, with file:line:column, or what makes the table as a whole no schedule. Whether it
// can run is for check_schedule.h to say.
ScheduleFile ReadScheduleCsv(std::string_view text, const std::string& file_name);

std::string WriteScheduleCsv(const PipelineSchedule& schedule);

}  // namespace stepsim
