// What is a kernel called in a trace? As profilers and their readers expect: communication by
// NCCL's kernel names, everything else by a name that no reader takes for communication.
//
//   ncclDevKernel_AllReduce_Sum_f32_RING_SIMPLE(ncclDevKernelArgsStorage<4096ul>)
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sim/graph/task_graph.h"
#include "sim/graph/work.h"
#include "sim/metrics/step_report.h"

namespace stepsim {

// The label itself, unless it contains a word by which readers recognise copies, synchronisation or
// NCCL: "SyncBatchNorm" becomes "S_yncBatchNorm", so that its time is counted as compute.
std::string ComputeKernelName(std::string_view label);
bool NeedsRenaming(std::string_view label);

std::string CollectiveKernelName(const CollectiveWork& work, const CollectiveChoice& choice);
// A transfer of a hand-built graph: only its label is known.
std::string OpaqueTransferName(std::string_view label);

// As PyTorch's profiler spells them in the arguments of a communication kernel.
std::string_view ProfilerCollectiveName(CollectiveOp op);  // "allreduce", "_allgather_base"
std::string_view ProfilerDTypeName(DType dtype);           // "Float", "BFloat16"

// Elements that one rank puts in and gets out.
struct MessageElements {
  std::int64_t in = 0;
  std::int64_t out = 0;
};
MessageElements ElementsOf(const CollectiveWork& work, std::int64_t group_size);

// The text "[0, 1, 2]"; of large groups "[0, 1, 2, ..., 127]", as a profiler abbreviates them.
std::string GroupRanks(const ProcessGroup& group);

// The arguments that a profiler gives a communication kernel, and its bytes, each led by a comma:
//   ,"Collective name":"allreduce","In msg nelems":1024, ... ,"bytes":4096
std::string CollectiveArguments(const CollectiveWork& work, const ProcessGroup& group);

}  // namespace stepsim
