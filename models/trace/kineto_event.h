// Which events of a Chrome trace matter, and what for? One table of categories; events of others
// are passed over as soon as their category is read.
#pragma once

#include <cstdint>
#include <string_view>

namespace stepsim {

enum class EventClass : std::uint8_t {
  kNothing,
  kMetadata,
  kKernel,
  kCopy,
  kFill,
  kRuntime,         // a call that may launch something
  kAnnotation,      // of the user, or of a collective call
  kBackward,        // autograd evaluates a node on this thread
  kHostOperator,    // without a device: an operator that computes
  kHostCollective,  // without a device: "gloo:all_reduce"
};

// Views into the text of the event, escapes as they are.
struct KinetoEvent {
  EventClass what = EventClass::kNothing;
  std::string_view name, pid, tid, ts, dur, args;
  bool is_call = false;    // an annotation that stands for a collective call
  bool is_broken = false;  // no valid JSON: what stands before the break is used
};

// `is_host_only`: the run has no device, its operators stand for kernels.
KinetoEvent ReadKinetoEvent(std::string_view text, bool is_host_only);

}  // namespace stepsim
