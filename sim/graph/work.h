// What is there to do? The payload of a task: sizes, not durations (but for work that somebody has
// timed). Cost models turn a Work into a TaskCost; equal works share one WorkId, so that each
// distinct piece is priced once.
#pragma once

#include <cstdint>
#include <string_view>
#include <variant>

#include "sim/base/dtype.h"
#include "sim/base/ids.h"
#include "sim/base/quantity.h"

namespace stepsim {

// How a task occupies its rank; decides the accounting state while it runs.
enum class TaskKind : std::uint8_t {
  kCompute,   // a kernel that computes (copies and casts included)
  kTransfer,  // a collective or point-to-point kernel
  kHost,      // the launching thread
};

enum class ComputeClass : std::uint8_t { kGemm, kAttention, kMemory };
std::string_view ToString(ComputeClass compute_class);  // "gemm", "attention", "memory"

// Which part of the step a kernel belongs to, as far as its speed depends on it. Of a linear's
// three matrix products, in cuBLAS's names: forward TN, input gradient NN, weight gradient NT.
enum class Pass : std::uint8_t { kForward, kInputGradient, kWeightGradient };

struct ComputeWork {
  ComputeClass compute_class = ComputeClass::kMemory;
  Pass pass = Pass::kForward;                   // GEMM, attention
  bool causal = false;                          // attention
  DType dtype = DType::kFp32;                   // of the operands
  DType output = DType::kFp32;                  // GEMM: of the result
  Flops flops;                                  // executed
  Bytes bytes;                                  // HBM traffic, reads plus writes
  std::int64_t m = 0, n = 0, k = 0, batch = 1;  // GEMM shape when known, else m = 0
  // Launches that this one task stands for; 0: it runs inside the kernel before it.
  std::int32_t kernels = 1;
  std::int32_t pace = 1000;  // time over price, in thousandths: a slow rank
  // What a profile says that it takes alone, in picoseconds; 0: nothing, the cost model prices it.
  std::int64_t measured = 0;
  auto operator<=>(const ComputeWork&) const = default;
};

enum class CollectiveOp : std::uint8_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kBroadcast,
  kReduce,
  kSendRecv,
  kPeerCopy,  // one rank's part, pulled from or pushed to a peer's memory; no kernel of a library
  kBarrier,   // a small kernel in which all ranks wait for the last one
};
std::string_view ToString(CollectiveOp op);  // "all_reduce", ...

struct CollectiveWork {
  CollectiveOp op = CollectiveOp::kAllReduce;
  DType dtype = DType::kFp32;
  Bytes
      bytes;  // as nccl-tests counts it: all_reduce = the buffer, all_gather = the gathered output
  GroupId group{};
  std::int32_t sms = 0;      // held by a kernel of its own make; 0: as the library chooses
  std::int32_t sender = -1;  // of a send_recv in one direction: the global rank; -1: both ways
  auto operator<=>(const CollectiveWork&) const = default;
};

// What the launching thread does, and the way of an event from one stream to another.
struct HostWork {
  std::int32_t launches = 0;          // kernels launched
  std::int32_t graph_nodes = 0;       // autograd nodes walked (DDP's find_unused_parameters)
  std::int32_t collective_calls = 0;  // through the framework, events included
  std::int32_t graph_launches = 0;    // CUDA graphs
  std::int32_t handovers = 0;         // event recorded on one stream -> kernel starts on the other
  std::int64_t measured = 0;          // what a trace has besides, in picoseconds
  auto operator<=>(const HostWork&) const = default;
};

// Hand-built graphs (tests, benchmarks): priced by whoever built them. Equal tags are equal works.
struct OpaqueWork {
  TaskKind kind = TaskKind::kCompute;
  std::int64_t tag = 0;
  auto operator<=>(const OpaqueWork&) const = default;
};

using Work = std::variant<OpaqueWork, ComputeWork, CollectiveWork, HostWork>;

TaskKind KindOf(const Work& work);

}  // namespace stepsim
