// Does a condition hold for a job and its step? Names are the paths of fields ("nodes",
// "plan.strategy", "network.link.bandwidth"), the metrics ("exposed_total_s") and short names for
// what is asked most:
//
//   const StepCondition limit("exposed > 5%", {"--fail-if exposed > 5%", 0, 0});   // ConfigError
//   const auto values = limit.Values(resolved.job, &report);
//   if (limit.condition().Holds(values)) Fail(limit.condition().DescribeValues(values));
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/spec/job_field.h"
#include "sim/config/condition.h"
#include "sim/metrics/step_report.h"

namespace stepsim {

// A short name of a condition. To add one: a row of the table in the source.
struct StepName {
  std::string_view name;
  std::string_view doc;
  Unit unit;
  double (*value)(const StepReport&);
};
std::span<const StepName> StepNames();

class StepCondition {
 public:
  // Throws ConfigError at `place`.
  StepCondition(std::string_view text, const Place& place);

  const Condition& condition() const { return condition_; }
  // Whether it asks for anything that only a simulated step has.
  bool UsesStep() const;

  // One for each of condition().names(). REQUIRES: a report, if UsesStep().
  std::vector<ConditionValue> Values(const JobSpec& job, const StepReport* report) const;

  // What a name of the condition means: a field, or a value of the step.
  struct Meaning {
    std::optional<JobField> field;
    double (*value)(const StepReport&) = nullptr;
    double scale = 1;  // from the metric's unit to the base unit
  };
  const std::vector<Meaning>& meanings() const { return meanings_; }

 private:
  Condition condition_;
  std::vector<Meaning> meanings_;  // of condition_.names()
};

// A field's value as conditions see it; lists are not set.
ConditionValue ToConditionValue(const FieldValue& value);

}  // namespace stepsim
