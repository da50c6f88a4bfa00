// How is a search over a job's knobs shown? Tables, a small picture, flags.
#pragma once

#include <string>
#include <vector>

#include "models/study/framework_flags.h"
#include "models/study/sensitivity.h"
#include "models/study/tune.h"

namespace stepsim {

// Each knob alone; those that change nothing in one line, unless they were `asked` for.
std::string KnobsText(const Tuning& tuned, const std::vector<const Knob*>& asked);
// The fastest settings together, and how to ask for them.
std::string WinnerText(const Tuning& tuned);
// The points than which none is both faster and leaner, and where they lie among all.
std::string ParetoText(const Tuning& tuned);
// Of the job as it is and with the fastest settings; rows in common.
std::string SensitivityText(const std::vector<Sensitivity>& base,
                            const std::vector<Sensitivity>& winner);
std::string FlagsText(const std::vector<FrameworkFlags>& flags);
// How many jobs were simulated, refused, left out.
std::string CountsText(const Tuning& tuned, double seconds);

}  // namespace stepsim
