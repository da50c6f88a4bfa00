// What does a Chrome trace of PyTorch's profiler (Kineto) say? Reads any size in one pass: memory
// goes to the events that matter only.
//
// * With a device: cat kernel, gpu_memcpy, gpu_memset; the runtime's calls by correlation;
//   annotations; the backward pass of autograd's threads; sizes and groups of collectives.
// * Without one (a second pass): operators on threads, "gloo:all_reduce" and its like.
//
// Old spellings ("Kernel", "Runtime"), bare arrays, several documents in one file, events without
// what they need, times that are none: what can be used is, the rest is counted in warnings.
#pragma once

#include <string>
#include <vector>

#include "models/trace/byte_source.h"
#include "models/trace/trace_data.h"

namespace stepsim {

// One entry per document of the file that holds anything. Throws ConfigError when none does.
std::vector<TraceData> ReadKineto(const std::string& file, const OpenSource& open);

}  // namespace stepsim
