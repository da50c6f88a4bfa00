// Why is a collective exposed? One named cause each, with what it means and what usually helps.
//
//   DescribeCause(ExposureCause::kQueued).name    -> "queued"
//   DescribeCause(ExposureCause::kQueued).remedy  -> "a communicator of its own, or ..."
//
// To add a cause: one row in exposure_cause.cc, and the rule that finds it in collective_report.cc.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace stepsim {

enum class ExposureCause : std::uint8_t {
  kHidden,        // nothing is exposed
  kBubble,        // waits for another pipeline stage
  kPeerWait,      // waits for a rank that is late
  kLaunchBound,   // the kernels beside it are not launched in time
  kTail,          // ready after the last backward kernel of its micro-step
  kQueued,        // its communicator is busy with another collective
  kSlowed,        // compute beside it stretched the transfer
  kSandwiched,    // between two computes: the one makes it, the other needs it
  kReadyTooLate,  // may begin only when little compute is left before its use
  kLonger,        // longer than the compute between it and its use
};

struct ExposureCauseRow {
  ExposureCause cause{};
  std::string_view name;     // in result files: "queued"
  std::string_view meaning;  // "queued behind another collective of its communicator"
  std::string_view remedy;   // what usually helps
};

std::span<const ExposureCauseRow> ExposureCauses();
const ExposureCauseRow& DescribeCause(ExposureCause cause);

}  // namespace stepsim
