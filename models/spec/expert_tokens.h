// Does every tensor-parallel rank see all tokens of a mixture of experts?
//
//   Megatron-LM       each routes its part of the sequence
//   DTensor           tokens are gathered before the router; the sums of a token's rows are
//   scattered
//                     behind the experts (torchtitan)
#pragma once

#include "models/spec/job.h"

namespace stepsim {

bool GathersTokens(const JobSpec& job);

}  // namespace stepsim
