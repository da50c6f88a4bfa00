#include "tools/calibrate/cuda/timer.h"

#include <algorithm>

#include "tools/calibrate/cuda/check.h"
#include "tools/calibrate/cuda/kernels.h"

namespace stepsim::measure {

void HoldFor(int calls, const Stream& stream) {
  constexpr std::uint32_t kPerCall = 6000, kLeast = 20000, kMost = 2000000;  // nanoseconds
  const auto needed = static_cast<std::uint32_t>(calls) * kPerCall;
  CheckCuda(Hold(std::clamp(needed, kLeast, kMost), stream.get()), "hold kernel");
}

double StreamTimer::Time(int count, const std::function<void()>& enqueue, int calls_in_each) const {
  HoldFor(count * calls_in_each, stream_);
  begin_.Record(stream_);
  for (int i = 0; i < count; ++i) enqueue();
  end_.Record(stream_);
  end_.Wait();
  return SecondsBetween(begin_, end_);
}

}  // namespace stepsim::measure
