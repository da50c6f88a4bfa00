// What does the host cost? The thread of every rank that launches kernels and calls collectives,
// the events that hand over from stream to stream, and the order in which the device accepts
// launches. Values and their evidence: models/README.md, "Host".
#pragma once

#include <cstdint>
#include <optional>

#include "sim/base/time.h"

namespace stepsim {

enum class StreamPriority { kFramework, kDefault, kHigh };

// Unset times follow from how the kernels run and from the profile's host (TimesOf).
struct HostSpec {
  std::optional<Duration> launch;  // per kernel; 0: what is unset below takes no time either
  std::optional<Duration> collective_call;  // per call, on the host thread
  std::optional<Duration> event_handover;   // on the device: from one stream's end to the next's go
  std::optional<Duration> graph_launch;     // per CUDA graph
  bool cuda_graphs = false;                 // one graph for every micro-step
  bool synchronize = false;  // at the end of a step the host waits for the device (loss.item())
  std::optional<std::int64_t> max_connections;  // CUDA_DEVICE_MAX_CONNECTIONS; unset: ConnectionsOf
  StreamPriority stream_priority = StreamPriority::kFramework;  // of the communication streams
};

// The times that hold for a job.
struct HostTimes {
  Duration launch{};
  Duration collective_call{};
  Duration event_handover{};
  Duration graph_launch{};
  Duration graph_node{};  // one autograd node walked (DDP's search for unused parameters)
};

}  // namespace stepsim
