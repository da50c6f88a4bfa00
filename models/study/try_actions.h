// What would each action bring? Tries those that apply, each simulated as a job of its own, and
// ranks them.
//
//   TryActions(variants, base, room).gains[0]   // "reduce in bf16": -4.8%
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "models/study/actions.h"
#include "models/study/variants.h"
#include "sim/metrics/step_report.h"

namespace stepsim {

struct TriedAction {
  std::string name;
  std::string_view price;
  Changes changes;    // complete: `run` with a --set of each has the same step
  StepReport report;  // totals
  double gain = 0;    // share of the GPU time per token (or sample) that is saved
  bool fits = true;
  bool is_per_token = false;  // the global batch differs: the step's time alone says little
};

// The shares of the step that can be won at most: what the ceilings say.
struct ActionRoom {
  double communication = 0, bubble = 0, host = 0;
  double Of(Against against) const;
};

struct TriedActions {
  std::vector<TriedAction> gains;    // at least kLeastGain: those that fit first, largest first
  std::size_t useless = 0;           // tried, and won less
  std::size_t pointless = 0;         // not tried: what they are against has no kLeastGain of time
  std::vector<std::string> skipped;  // not tried: there are too many for a job of this size

  const TriedAction* best() const;  // of those that fit without hardware; nullptr: nothing
};
inline constexpr double kLeastGain = 0.005;

// `most_tries`: candidates that are simulated.
TriedActions TryActions(const JobVariants& variants, const StepReport& base, const ActionRoom& room,
                        std::size_t most_tries);

}  // namespace stepsim
