#include "models/study/step_condition.h"

#include <algorithm>
#include <array>
#include <optional>

#include "sim/base/check.h"
#include "sim/metrics/metric_table.h"

namespace stepsim {
namespace {

constexpr std::array kStepNames = {
    StepName{"step_time", "step_time_s", Unit::kTime,
             [](const StepReport& report) { return report.step_time_s(); }},
    StepName{"exposed",
             "exposed communication as a part of the step: exposed_total_s / step_time_s",
             Unit::kNone,
             [](const StepReport& report) {
               const double exposed = ToSeconds(report.account().exposed_total());
               return report.step_time_s() > 0 ? exposed / report.step_time_s() : 0;
             }},
    StepName{"mfu", "model FLOPs utilisation in the job's convention", Unit::kNone,
             [](const StepReport& report) { return Mfu(report, report.context.mfu_convention); }},
    StepName{"memory", "peak_memory_bytes", Unit::kBytes,
             [](const StepReport& report) { return ToDouble(report.memory.total); }},
    StepName{"bubble", "bubble_fraction", Unit::kNone,
             [](const StepReport& report) {
               const double bubble = ToSeconds(report.account().bubble);
               return report.step_time_s() > 0 ? bubble / report.step_time_s() : 0;
             }},
};

struct MetricUnit {
  std::string_view text;
  Unit unit;
  double scale;
};
// The units of metrics that conditions know; any other is a number.
constexpr std::array kMetricUnits = {
    MetricUnit{"s", Unit::kTime, 1},
    MetricUnit{"bytes", Unit::kBytes, 1},
    MetricUnit{"TFLOP/s", Unit::kFlopRate, 1e12},
};

MetricUnit UnitOf(const Metric& metric) {
  for (const MetricUnit& row : kMetricUnits) {
    if (row.text == metric.unit) return row;
  }
  return {metric.unit, Unit::kNone, 1};
}

std::optional<ConditionType> TypeOf(const FieldRow& row) {
  switch (row.kind) {
    case FieldKind::kBool:
      return ConditionType{ConditionKind::kBool, Unit::kNone, 0, {}};
    case FieldKind::kInteger:
    case FieldKind::kNumber:
      return ConditionType{ConditionKind::kNumber, row.unit, 0, {}};
    case FieldKind::kText:
    case FieldKind::kReference:
      return ConditionType{ConditionKind::kText, Unit::kNone, 0, {}};
    case FieldKind::kChoice:
      return ConditionType{ConditionKind::kText, Unit::kNone, 0, row.choices};
    default:
      return std::nullopt;
  }
}

// "hardware.network.link.bandwidth" is also "network.link.bandwidth".
constexpr std::string_view kHardware = "hardware.";
constexpr std::string_view kNetwork = "hardware.network.";

std::vector<ConditionName> KnownNames() {
  std::vector<ConditionName> names;
  for (const StepName& row : StepNames()) {
    names.push_back({std::string(row.name),
                     {ConditionKind::kNumber, row.unit, 0, {}, row.unit == Unit::kNone}});
  }
  for (const Metric& metric : Metrics()) {
    const MetricUnit unit = UnitOf(metric);
    const double plain = unit.unit == Unit::kNone ? 0 : unit.scale;
    names.push_back({std::string(metric.name),
                     {ConditionKind::kNumber, unit.unit, plain, {}, metric.unit == "fraction"}});
  }
  for (const JobField& field : ScalarJobFields()) {
    const std::optional<ConditionType> type = TypeOf(field.row());
    if (!type) continue;
    names.push_back({field.path(), *type});
    if (field.path().rfind(kNetwork, 0) == 0) {
      names.push_back({field.path().substr(kHardware.size()), *type});
    }
  }
  return names;
}

// Made once: there are hundreds of fields.
const std::vector<ConditionName>& AllNames() {
  static const std::vector<ConditionName> names = KnownNames();
  return names;
}

StepCondition::Meaning MeaningOf(const ConditionName& name, const Place& place) {
  for (const StepName& row : StepNames()) {
    if (row.name == name.name) return {std::nullopt, row.value, 1};
  }
  for (const Metric& metric : Metrics()) {
    if (metric.name == name.name) return {std::nullopt, metric.value, UnitOf(metric).scale};
  }
  return {FindJobField(name.name, place), nullptr, 1};
}

}  // namespace

std::span<const StepName> StepNames() { return kStepNames; }

StepCondition::StepCondition(std::string_view text, const Place& place)
    : condition_(text, place, AllNames()) {
  for (const ConditionName& name : condition_.names()) {
    meanings_.push_back(MeaningOf(name, place));
  }
}

bool StepCondition::UsesStep() const {
  return std::any_of(meanings_.begin(), meanings_.end(),
                     [](const Meaning& meaning) { return meaning.value != nullptr; });
}

std::vector<ConditionValue> StepCondition::Values(const JobSpec& job,
                                                  const StepReport* report) const {
  std::vector<ConditionValue> values;
  for (const Meaning& meaning : meanings_) {
    if (meaning.field) {
      values.push_back(ToConditionValue(meaning.field->ValueIn(job)));
      continue;
    }
    SIM_CHECK(report != nullptr, "a condition on a step gets its report");
    values.emplace_back(meaning.value(*report) * meaning.scale);
  }
  return values;
}

ConditionValue ToConditionValue(const FieldValue& value) {
  if (const bool* truth = std::get_if<bool>(&value)) return *truth;
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return static_cast<double>(*whole);
  if (const double* number = std::get_if<double>(&value)) return *number;
  if (const std::string* text = std::get_if<std::string>(&value)) return *text;
  return {};
}

}  // namespace stepsim
