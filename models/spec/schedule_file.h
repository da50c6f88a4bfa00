// A pipeline schedule of the user's own: plan.pipeline.schedule: FILE.csv, in PyTorch's grammar.
#pragma once

#include "models/spec/config_source.h"
#include "models/spec/job.h"
#include "sim/config/read_fields.h"

namespace stepsim {

// Fills plan.pipeline.file_schedule when `schedule` names a CSV file; its transfers and gathers are
// left out, the runtime makes its own. Problems go to `reading`. Throws SimulationError with the
// circle of waits when the ranks' lists cannot run.
void ReadScheduleFile(JobSpec& job, const ConfigSource& source, FieldReading& reading);

}  // namespace stepsim
