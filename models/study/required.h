// From which value on does a job reach what is wanted of it?
//
//   FindRequired(trial, FreeVariables()[0], {TargetKind::kExposed, 0.05})
//     -> network bandwidth: 38.4 Gb/s are enough (now 200 Gb/s)
//
// Looks at values twice as large again and again, and narrows the step between the last that fails
// and the first from which on all hold. Values that are none for the job are passed over. To add a
// variable: one row in free_variables.cc.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "models/study/target.h"
#include "models/study/try_changes.h"

namespace stepsim {

struct FreeVariable {
  std::string_view name;  // "network"
  std::string_view doc;
  bool is_whole = false;    // whole numbers only
  bool wants_most = false;  // the largest value that holds is asked for, not the smallest
  // "" when the job has it; else why not.
  std::string (*problem)(const JobSpec&);
  double (*now)(const JobSpec&);
  double least = 0, most = 0;  // the search: factors of `now`, or of whole numbers the numbers
  Changes (*set)(const JobSpec&, double value);
  std::string (*text)(const JobSpec&, double value);  // "200 Gb/s per NIC"
};

std::span<const FreeVariable> FreeVariables();
const FreeVariable* FindFreeVariable(std::string_view name);

// One value that was tried.
struct TriedValue {
  double value = 0;
  double reached = 0;  // the target's metric
  Duration step{};
  Bytes memory;
};

struct Requirement {
  double now = 0;
  // Unset: no value reaches the target.
  std::optional<TriedValue> needed;
  TriedValue best;         // of all that were tried, the nearest to the target or beyond it
  bool is_always = false;  // every value that was tried holds; `needed` is the last of them
  // The values on the other side of `needed` hold: fewer tokens for a shorter step.
  bool is_reversed = false;
  // `needed` is `best` and holds, but neither end of the search does.
  bool is_island = false;
  bool is_flat = false;  // the variable changes nothing: step and metric stay the same
};

// Throws ConfigError when the job itself is wrong. Values that are none for the job (nodes that do
// not divide) are passed over. REQUIRES: variable.problem(job) is empty.
Requirement FindRequired(Trial& trial, const FreeVariable& variable, const Target& target);

}  // namespace stepsim
