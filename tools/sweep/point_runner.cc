#include "tools/sweep/point_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

#include "models/study/try_step.h"
#include "sim/base/diagnostics.h"
#include "sim/report/text_buffer.h"
#include "tools/sweep/json_text.h"

namespace stepsim {
namespace {

// Of a job that cannot be read: its problems on one line.
std::string TextOf(const ConfigError& error) {
  std::string text;
  for (const Diagnostic& d : error.diagnostics()) {
    text += text.empty() ? "" : "; ";
    text += d.ToString();
  }
  return text;
}

std::size_t CountWarnings(const StepReport& report) {
  return report.context.warnings.size() + (MemoryWarning(report).empty() ? 0 : 1);
}

}  // namespace

// A job that only costs are changed of, and its graph. `step` is null when there is no such job.
struct PointRunner::Prepared {
  Changes structure;
  std::optional<ResolvedJob> job;
  std::unique_ptr<PreparedStep> step;
};

PointRunner::PointRunner(const Grid& grid, const JobVariants& variants)
    : grid_(grid), variants_(variants), axes_(grid.sweep().axes()) {
  for (const Axis* axis : axes_) is_cost_.push_back(ChangesCostsAlone(axis->field.path()));
  for (const StepCondition& condition : grid.sweep().where) {
    if (Grid::UsesAxesAlone(grid.sweep(), condition)) continue;
    Filter filter{&condition, {}};
    for (const StepCondition::Meaning& meaning : condition.meanings()) {
      filter.axes.push_back(meaning.field ? Grid::AxisOf(grid.sweep(), *meaning.field)
                                          : std::nullopt);
    }
    filters_.push_back(std::move(filter));
  }
}

PointRunner::~PointRunner() = default;

PointRow PointRunner::Run(std::uint64_t index) {
  const std::vector<const AxisValue*> values = grid_.ValuesOf(index);
  PointRow row;
  std::string rest;
  try {
    rest = Measure(values, row);
  } catch (const ConfigError& error) {
    row.kind = PointKind::kInputError;
    row.error = TextOf(error);
  } catch (const SimulationError& error) {
    row.kind = PointKind::kCannotRun;
    row.error = error.what();
  } catch (const std::bad_alloc&) {
    throw;  // says nothing of the point
  } catch (const std::exception& error) {
    row.kind = PointKind::kInternalError;
    row.error = error.what();
  }
  const bool is_error = row.kind == PointKind::kInputError || row.kind == PointKind::kCannotRun ||
                        row.kind == PointKind::kInternalError;
  if (is_error) {
    const char* kind = row.kind == PointKind::kInputError  ? "input"
                       : row.kind == PointKind::kCannotRun ? "cannot_run"
                                                           : "internal";
    rest = fmt::format("\"error\":{{\"kind\":\"{}\",\"text\":{}}}", kind, QuoteJson(row.error));
  }
  row.line = fmt::format("{{\"index\":{},\"axes\":{{", index);
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    row.line += fmt::format("{}{}:{}", i == 0 ? "" : ",", QuoteJson(axes_[i]->field.path()),
                            values[i]->json);
  }
  row.line += fmt::format("}},{}}}\n", rest);
  return row;
}

std::string PointRunner::Measure(const std::vector<const AxisValue*>& values, PointRow& row) {
  Changes structure, costs;
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    (is_cost_[i] ? costs : structure).push_back(axes_[i]->field.path() + "=" + values[i]->set);
  }
  const auto filtered = [&](const Filter* filter) {
    row.kind = PointKind::kFiltered;
    return "\"filtered\":" + QuoteJson(filter->condition->condition().text());
  };
  // The way to a point depends on the point alone, never on its neighbours.
  if (!costs.empty() && Prepare(structure)) {
    if (const std::optional<JobSpec> job = WithCosts(prepared_->job->job, costs)) {
      if (const Filter* filter = Fails(values, *job, nullptr)) return filtered(filter);
      const StepReport report = prepared_->step->Try(*job);
      if (const Filter* filter = Fails(values, *job, &report)) return filtered(filter);
      return Describe(*job, report, CountWarnings(report));
    }
  }
  structure.insert(structure.end(), costs.begin(), costs.end());
  const ResolvedJob resolved = variants_.With(structure);
  if (const Filter* filter = Fails(values, resolved.job, nullptr)) return filtered(filter);
  const StepReport report = TryStep(resolved);
  if (const Filter* filter = Fails(values, resolved.job, &report)) return filtered(filter);
  return Describe(resolved.job, report, CountWarnings(report));
}

bool PointRunner::Prepare(const Changes& structure) {
  if (prepared_ == nullptr || prepared_->structure != structure) {
    prepared_ = std::make_unique<Prepared>();
    prepared_->structure = structure;
    try {
      prepared_->job = variants_.With(structure);
      prepared_->step = std::make_unique<PreparedStep>(*prepared_->job);
    } catch (const ConfigError&) {
      // Only wrong without the costs of the point, perhaps: the point itself will tell.
    } catch (const SimulationError&) {
    }
  }
  return prepared_->step != nullptr;
}

const PointRunner::Filter* PointRunner::Fails(const std::vector<const AxisValue*>& values,
                                              const JobSpec& job, const StepReport* report) const {
  for (const Filter& filter : filters_) {
    const StepCondition& condition = *filter.condition;
    if (condition.UsesStep() != (report != nullptr)) continue;
    std::vector<ConditionValue> seen = condition.Values(job, report);
    for (std::size_t i = 0; i < seen.size(); ++i) {
      if (filter.axes[i]) seen[i] = values[*filter.axes[i]]->value;
    }
    if (!condition.condition().Holds(seen)) return &filter;
  }
  return nullptr;
}

std::string PointRunner::Describe(const JobSpec& job, const StepReport& report,
                                  std::size_t warnings) const {
  std::string text = "\"resolved\":{";
  for (const Axis* axis : axes_) {
    if (text.back() != '{') text += ',';
    text += QuoteJson(axis->field.path()) + ":" + JsonValue(axis->field.ValueIn(job));
  }
  text += "},\"metrics\":{";
  for (const Metric& metric : grid_.sweep().metrics) {
    if (text.back() != '{') text += ',';
    text += fmt::format("\"{}\":{}", metric.name, JsonNumber(metric.value(report)));
  }
  return text + fmt::format("}},\"warnings\":{}", warnings);
}

}  // namespace stepsim
