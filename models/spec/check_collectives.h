// Do the keys of `collectives:` make sense, alone and together? Part of CheckJob.
#pragma once

#include "models/spec/job.h"
#include "sim/config/read_fields.h"

namespace stepsim {

void CheckCollectives(const JobSpec& job, FieldReading& reading);

}  // namespace stepsim
