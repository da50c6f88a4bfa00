// How is attention spread over the context parallel ranks?
//
//   SplitContext(job)   p2p, all_gather: {.heads = 1, .ring = 8}   a2a: {8, 1}
//                       a2a+p2p, 8 ranks, 4 of them in a node: {4, 2}
#pragma once

#include <cstdint>

#include "models/spec/job.h"

namespace stepsim {

struct ContextSplit {
  // Neighbours that swap: each has all heads of a piece before, a part of the heads of all their
  // pieces after.
  std::int64_t heads = 1;
  std::int64_t ring = 1;  // pieces of the sequence that remain
  bool gathers = false;   // keys and values of all pieces at once, not one after the other
};

// REQUIRES: degrees that divide the GPUs, a valid mesh order.
ContextSplit SplitContext(const JobSpec& job);

}  // namespace stepsim
