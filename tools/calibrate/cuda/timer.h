// How long does work on a stream take? From an event before to an event behind, the queue filled
// while the stream is held, so that the host's pace does not show.
#pragma once

#include <functional>

#include "tools/calibrate/cuda/resources.h"

namespace stepsim::measure {

class StreamTimer {
 public:
  explicit StreamTimer(const Stream& stream) : stream_(stream) {}
  // Seconds of `count` calls of `enqueue`, together; each makes so many calls of the library.
  double Time(int count, const std::function<void()>& enqueue, int calls_in_each = 1) const;

 private:
  const Stream& stream_;
  Event begin_, end_;
};

// So long a stream is held that `calls` calls are in the queue when it goes on.
void HoldFor(int calls, const Stream& stream);

}  // namespace stepsim::measure
