#include "sim/metrics/exposure_cause.h"

#include <array>

#include "sim/base/check.h"

namespace stepsim {
namespace {

using Cause = ExposureCause;
constexpr std::array kCauses = {
    ExposureCauseRow{Cause::kHidden, "hidden", "hidden behind compute", ""},
    ExposureCauseRow{Cause::kBubble, "bubble", "bubble: waits for another pipeline stage",
                     "more micro-batches, virtual stages, a schedule with less bubble"},
    ExposureCauseRow{Cause::kPeerWait, "peer_wait", "waiting for a peer that is late",
                     "find the slow rank: no network is at fault"},
    ExposureCauseRow{Cause::kLaunchBound, "launch_bound",
                     "launch-bound: the kernels beside it are not launched in time",
                     "compiled kernels, CUDA graphs, larger micro-batches"},
    ExposureCauseRow{Cause::kTail, "tail", "tail: ready only after the last backward kernel",
                     "smaller last buckets, fewer bytes, a faster link"},
    ExposureCauseRow{Cause::kQueued, "queued",
                     "queued behind another collective of its communicator",
                     "fewer bytes before it, or a communicator of its own"},
    ExposureCauseRow{Cause::kSlowed, "slowed_by_compute",
                     "slowed by compute: contention stretched the transfer",
                     "another number of CTAs, stream priorities, copies without SMs"},
    ExposureCauseRow{Cause::kSandwiched, "sandwiched",
                     "sandwiched between two computes: one makes it, the next needs it",
                     "overlap inside the layer (async TP, user buffers), smaller degrees"},
    ExposureCauseRow{Cause::kReadyTooLate, "ready_too_late",
                     "ready too late: little compute is left before its use",
                     "issue it earlier: deeper prefetch, smaller units"},
    ExposureCauseRow{Cause::kLonger, "longer_than_window",
                     "longer than its window: too little compute beside it",
                     "fewer bytes, more work per GPU, a faster link"},
};

}  // namespace

std::span<const ExposureCauseRow> ExposureCauses() { return kCauses; }

const ExposureCauseRow& DescribeCause(ExposureCause cause) {
  const auto index = static_cast<std::size_t>(cause);
  SIM_CHECK(index < kCauses.size() && kCauses[index].cause == cause,
            "causes stand in the order of their enumerators");
  return kCauses[index];
}

}  // namespace stepsim
