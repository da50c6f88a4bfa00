// Where does the step stall? One line, in the words in which users ask.
//
//   Diagnose(report, groups, ceilings).text
//     -> "the gradient reduce stalls the step (61.2% less without it), mostly as tail: ..."
#pragma once

#include <string>
#include <vector>

#include "models/study/ceilings.h"
#include "models/study/collective_groups.h"
#include "sim/metrics/step_report.h"

namespace stepsim {

struct Diagnosis {
  std::string stall;  // what a ceiling is of: "gradient_reduce", "host"; "nothing"
  std::string text;
  double gain = 0;  // share of the step that is won without it, simulated
};

// What is under it is no reason to do anything.
inline constexpr double kLeastStall = 0.01;

Diagnosis Diagnose(const StepReport& report, const std::vector<CollectiveGroup>& groups,
                   const std::vector<Ceiling>& ceilings);

// "the gradient reduce" for "gradient_reduce".
std::string StallInWords(const std::string& what);

// The share of the step that a ceiling leaves over; of none 0.
double GainOf(const std::vector<Ceiling>& ceilings, std::string_view what, Duration step);

}  // namespace stepsim
