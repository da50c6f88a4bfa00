// What does a profiler's file say, whatever its format? Spans on devices, calls that launched them,
// annotations, and what is known of each message. The readers fill it; nothing is judged yet.
//
//   kernel "ncclDevKernel_AllReduce_Sum_bf16_RING_LL" on device 0, stream 40, launched by call 5177
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sim/base/time.h"

namespace stepsim {

// A moment on the clock of a file, exact to the picosecond: profilers count from 1970 or from boot.
struct TraceMoment {
  std::int64_t ns = 0;
  std::int32_t ps = 0;  // 0 .. 999, added to ns
};
bool operator<(TraceMoment a, TraceMoment b);
// The difference, or the nearest that fits (+-106 days).
Duration Difference(TraceMoment later, TraceMoment earlier);

inline constexpr std::uint32_t kNoIndex = 0xFFFFFFFFu;

enum class SpanKind : std::uint8_t {
  kKernel,    // on a device
  kCopy,      // device memory to or from anywhere
  kFill,      // memset
  kOperator,  // of a run without a device: the outermost operator on its thread
};

// What a profiler knows of a collective call; what it does not say keeps its default.
struct MessageFacts {
  std::string collective;  // "allreduce", "_allgather_base", "nccl:all_reduce"
  std::string dtype;       // "Float", "c10::BFloat16"
  std::string group_name, group_description, group_ranks;  // "0", "default_pg", "[0, 1]"
  std::int64_t in_elements = -1, out_elements = -1, group_size = 0, sequence = -1;
  std::int64_t bytes = -1;  // as nccl-tests counts them, where a file says so
  std::string site, label;  // of traces that stepsim wrote
};

struct DeviceSpan {
  TraceMoment begin;
  Duration length{};
  std::uint32_t name = 0;            // index into names
  std::uint32_t process = 0;         // index into names
  std::uint32_t message = kNoIndex;  // index into messages
  std::int32_t device = 0;
  std::int64_t stream = 0;
  std::int64_t correlation = -1;  // of the call that launched it
  std::int64_t bytes = -1;        // of copies
  SpanKind kind = SpanKind::kKernel;
  std::uint8_t phase = 0xFF;  // Phase, where a file says so
};

// A call of the runtime on a thread.
struct LaunchCall {
  TraceMoment begin;
  Duration length{};
  std::int64_t correlation = -1;
  std::uint32_t thread = 0;  // index into threads
};

struct Annotation {
  TraceMoment begin;
  Duration length{};
  std::uint32_t name = 0;
  std::uint32_t thread = 0;
  std::uint32_t message = kNoIndex;
};

// When the backward pass runs on a thread.
struct ThreadSpan {
  TraceMoment begin;
  Duration length{};
  std::uint32_t thread = 0;
};

struct TraceThread {
  std::uint32_t process = 0;  // index into names
  std::uint32_t name = 0;     // its number as text, index into names
  bool operator==(const TraceThread&) const = default;
};

// One text, one index.
class NameTable {
 public:
  std::uint32_t Index(std::string_view text);
  const std::string& operator[](std::uint32_t index) const { return names_[index]; }
  std::size_t size() const { return names_.size(); }

 private:
  std::vector<std::string> names_;
  std::unordered_map<std::string, std::uint32_t> index_of_;
};

struct TraceData {
  std::string file;
  std::string source;  // "Kineto", "Nsight Systems"
  std::int64_t rank = -1, world_size = 0;
  std::string device_name;
  bool is_host_only = false;  // no device in it: operators on threads stand for kernels
  NameTable names;
  std::vector<TraceThread> threads;
  std::vector<DeviceSpan> spans;
  std::vector<LaunchCall> launches;
  std::vector<Annotation> annotations;
  std::vector<ThreadSpan> backward;
  std::vector<MessageFacts> messages;
  std::vector<std::pair<std::uint32_t, std::string>> process_labels;  // "rank 3" of a process
  std::vector<std::string> warnings;                                  // what is lost

  std::uint32_t ThreadIndex(std::string_view process, std::string_view thread);

 private:
  std::unordered_map<std::uint64_t, std::uint32_t> thread_index_;
};

}  // namespace stepsim
