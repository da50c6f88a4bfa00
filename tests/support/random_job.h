// What else could a user ask? Random but valid jobs from a seed: small networks of every shape on
// every kind of cluster, with all knobs of DDP turned.
//
//   const ResolvedJob job = RandomJob(7);   // the same on every machine
#pragma once

#include <cstdint>

#include "models/spec/job.h"

namespace stepsim::testing {

// One step, folded, no contention, an ideal host: what a property needs beyond that it sets itself.
ResolvedJob RandomJob(std::uint64_t seed);

// The same with a host of any speed and habits.
ResolvedJob RandomJobWithHost(std::uint64_t seed);

}  // namespace stepsim::testing
