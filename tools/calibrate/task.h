// What is measured? One task is one line of a measurement file.
//
//   Describe(GemmTask{4096, 4096, 4096, "bf16"})  -> "gemm 4096x4096x4096 bf16"
//
// To add a kind of measurement: a struct with its row in kTaskKinds (task.cc), its fields in
// measurement_file.cc, its list in plan.cc, and a branch in each backend.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace stepsim::measure {

// C[m,n] = A[m,k] B[n,k]^T: both operands lie along k, as in the forward pass of a linear layer.
struct GemmTask {
  std::int64_t m = 1, n = 1, k = 1;
  std::string dtype = "bf16";  // of A and B; C too, but bf16 for fp8
  double flops() const;        // 2 m n k
};

enum class MemoryOp : std::uint8_t { kCopy, kAdd, kNorm };

// A kernel bound by memory.
struct MemoryTask {
  MemoryOp op = MemoryOp::kCopy;
  std::int64_t bytes = 0;  // moved in all: reads and writes
};

struct AttentionTask {
  std::int64_t batch = 1, heads = 1;
  std::int64_t sequence = 1;  // queries, and keys
  std::int64_t head_dim = 128;
  bool causal = true;
  std::string dtype = "bf16";
};

enum class CollectiveKind : std::uint8_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kSendRecv  // to the next rank and from the one before, all at once
};

struct CollectiveTask {
  CollectiveKind op = CollectiveKind::kAllReduce;
  std::int64_t bytes = 0;  // as nccl-tests counts them: the larger of the two buffers
  bool in_place = false;
  int max_ctas = 0;  // 0: as the library chooses
};

// A copy kernel on this many SMs (CPU: threads).
struct CopyLoad {
  int sms = 1;
};

struct CollectiveLoad {
  CollectiveTask collective;
  // CPU: does the computing thread ask the library between products how far it is?
  // Unset: the device needs nobody's help.
  std::optional<bool> is_polled;
};

struct InterferenceTask {
  GemmTask compute;
  std::variant<CopyLoad, CollectiveLoad> beside;
};

enum class LaunchOp : std::uint8_t {
  kKernelLaunch,   // of the host thread, until the call returns
  kEmptyKernel,    // from one kernel's start to the next one's, back to back
  kEventHandover,  // from the end of a kernel to the start of one that waits on another stream
};

struct LaunchTask {
  LaunchOp op = LaunchOp::kKernelLaunch;
};

using MeasureTask =
    std::variant<LaunchTask, GemmTask, MemoryTask, AttentionTask, CollectiveTask, InterferenceTask>;

std::string_view ToString(MemoryOp op);        // "copy"
std::string_view ToString(CollectiveKind op);  // "all_reduce"
std::string_view ToString(LaunchOp op);        // "kernel_launch"

// Kinds as files and --only spell them, in the order of the variant.
std::span<const std::string_view> TaskKinds();
std::string_view KindOf(const MeasureTask& task);

std::string Describe(const MeasureTask& task);

// Do all ranks work on one thing, so that the slowest one's time counts?
bool IsCollective(const MeasureTask& task);

// Bytes that the larger buffer of a collective has on each rank, and a part of it per rank.
std::int64_t PartBytes(const CollectiveTask& task, int ranks);

// Bytes of one element; nullopt for an unknown type. "fp64" is known here, beside the simulator's.
std::optional<int> ElementBytes(std::string_view dtype);

}  // namespace stepsim::measure
