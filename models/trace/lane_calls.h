// Which collective is a communication kernel? Puts together what its name, its arguments and the
// call around its launch say.
#pragma once

#include <string_view>
#include <vector>

#include "models/trace/lane.h"
#include "models/trace/site_rules.h"
#include "models/trace/trace_data.h"

namespace stepsim {

struct CallEvidence {
  std::string_view kernel;                  // its name
  const MessageFacts* message = nullptr;    // its arguments
  const MessageFacts* called_by = nullptr;  // "nccl:all_reduce" around its launch
  std::string_view annotation;
  Phase phase = Phase::kOther;
};
LaneCall MakeCall(const TraceData& data, const std::vector<SiteOverride>& overrides,
                  const CallEvidence& evidence);

// nccl-tests' factor from algorithm to bus bandwidth; 0: none is defined.
double TraceBusFactor(CollectiveOp op, std::int64_t group_size);

}  // namespace stepsim
