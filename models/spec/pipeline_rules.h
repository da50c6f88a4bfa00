// Which pipeline does a job have? Its schedule, the stages that it cuts the network into, and whose
// runtime carries it out.
#pragma once

#include <cstdint>
#include <string_view>

#include "models/pipeline/schedule.h"
#include "models/spec/job.h"

namespace stepsim {

// REQUIRES (all of them): a job without problems.
PipelineSchedule ScheduleOf(const JobSpec& job);
std::int64_t ChunksPerRank(const JobSpec& job);
// Its row in the table of schedules; "" for a file or none.
std::string_view ScheduleNameOf(const JobSpec& job);
PipelineRuntime RuntimeOf(const JobSpec& job);  // never kAuto

// Does the host wait for the device after every exchange between stages (batch_p2p_sync)? Then it
// never runs ahead of it by more than a micro-batch.
bool WaitsForTransfers(const JobSpec& job);

// Does a forward run together with the backward of another micro-batch, layer by layer?
bool PairsMicrobatches(const JobSpec& job);
// ... with weight gradients behind the input gradients of their part of the layer?
bool DelaysWeightGradients(const JobSpec& job);

}  // namespace stepsim
