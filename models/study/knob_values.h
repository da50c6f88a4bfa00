// The values of each row of knobs.cc.
#pragma once

#include <vector>

#include "models/study/knobs.h"

namespace stepsim {

std::vector<KnobValue> BucketValues(const JobSpec& job, const KnobLimits&);
std::vector<KnobValue> PrefetchValues(const JobSpec& job, const KnobLimits&);
std::vector<KnobValue> ReshardValues(const JobSpec& job, const KnobLimits&);
std::vector<KnobValue> OverlapValues(const JobSpec& job, const KnobLimits&);
std::vector<KnobValue> SyncValues(const JobSpec& job, const KnobLimits&);
std::vector<KnobValue> MicroBatchValues(const JobSpec& job, const KnobLimits& limits);
std::vector<KnobValue> RecomputeValues(const JobSpec& job, const KnobLimits&);
std::vector<KnobValue> ShardingValues(const JobSpec& job, const KnobLimits&);
std::vector<KnobValue> SplitValues(const JobSpec& job, const KnobLimits&);
std::vector<KnobValue> ScheduleValues(const JobSpec& job, const KnobLimits&);
std::vector<KnobValue> VirtualStageValues(const JobSpec& job, const KnobLimits&);
std::vector<KnobValue> AlgorithmValues(const JobSpec& job, const KnobLimits&);
std::vector<KnobValue> ProtocolValues(const JobSpec& job, const KnobLimits&);
std::vector<KnobValue> CtaValues(const JobSpec& job, const KnobLimits&);

}  // namespace stepsim
