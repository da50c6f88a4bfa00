// Which matrix products and which attention does a job's step run? What is worth measuring for it.
#pragma once

#include <vector>

#include "models/spec/job.h"
#include "tools/calibrate/task.h"

namespace stepsim::measure {

struct JobShapes {
  std::vector<GemmTask> gemms;  // distinct; those with the most FLOPs in the step first
  std::vector<AttentionTask> attention;
};

JobShapes ShapesOf(const JobSpec& job);

}  // namespace stepsim::measure
