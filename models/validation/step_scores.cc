#include "models/validation/step_scores.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace stepsim {
namespace {

std::vector<double> ErrorsOf(const StepRows& rows) {
  std::vector<double> errors;
  for (const ValidatedStep* step : rows) {
    if (step->is_scored()) errors.push_back(step->Error());
  }
  return errors;
}

double ShareWithin(const std::vector<double>& errors, double most) {
  if (errors.empty()) return 0;
  const auto within = std::count_if(errors.begin(), errors.end(),
                                    [most](double error) { return std::abs(error) <= most; });
  return static_cast<double>(within) / static_cast<double>(errors.size());
}

}  // namespace

StepScore ScoreOf(const StepRows& rows) {
  const std::vector<double> errors = ErrorsOf(rows);
  StepScore score;
  score.errors = Summarize(errors);
  score.within_5 = ShareWithin(errors, 0.05);
  score.within_10 = ShareWithin(errors, 0.10);
  score.within_20 = ShareWithin(errors, 0.20);
  score.rows = rows.size();
  for (const ValidatedStep* step : rows) {
    score.skipped += step->status == StepStatus::kSkipped ? 1 : 0;
    score.oom += step->status == StepStatus::kOom ? 1 : 0;
  }
  return score;
}

std::vector<StepGroup> GroupsBy(const PublishedTable& table, const StepRows& rows,
                                std::string_view column) {
  std::map<std::string, StepRows> groups;
  for (const ValidatedStep* step : rows) {
    const std::string_view name = table.Row(step->row).Text(column);
    groups[name.empty() ? "(not stated)" : std::string(name)].push_back(step);
  }
  std::vector<StepGroup> result;
  for (auto& [name, members] : groups) result.push_back({name, std::move(members)});
  return result;
}

SourceAverage AverageOverSources(const PublishedTable& table, const StepRows& rows) {
  SourceAverage average;
  for (const StepGroup& source : GroupsBy(table, rows, "source")) {
    const ErrorSummary summary = Summarize(ErrorsOf(source.rows));
    if (summary.count == 0) continue;
    ++average.sources;
    average.median += summary.median;
    average.p90 += summary.p90;
    if (std::abs(summary.bias) <= kMostBias) ++average.within_bias;
  }
  if (average.sources > 0) {
    average.median /= static_cast<double>(average.sources);
    average.p90 /= static_cast<double>(average.sources);
  }
  return average;
}

OrderScore OrderOf(const PublishedTable& table, const StepRows& rows, double gap) {
  OrderScore score;
  for (const StepGroup& source : GroupsBy(table, rows, "source")) {
    std::vector<const ValidatedStep*> scored;
    for (const ValidatedStep* step : source.rows) {
      if (step->is_scored()) scored.push_back(step);
    }
    std::sort(scored.begin(), scored.end(),
              [](const auto* a, const auto* b) { return a->measured_s < b->measured_s; });
    for (std::size_t i = 0; i < scored.size(); ++i) {
      for (std::size_t j = i + 1; j < scored.size(); ++j) {
        if (scored[j]->measured_s <= scored[i]->measured_s * (1 + gap)) continue;
        ++score.pairs;
        if (scored[j]->prediction.seconds > scored[i]->prediction.seconds) ++score.right;
      }
    }
  }
  return score;
}

ErrorSummary MemoryErrors(const StepRows& rows) {
  std::vector<double> errors;
  for (const ValidatedStep* step : rows) {
    if (step->status == StepStatus::kSkipped || step->measured_peak_bytes <= 0) continue;
    errors.push_back(step->prediction.peak_bytes / step->measured_peak_bytes - 1);
  }
  return Summarize(errors);
}

}  // namespace stepsim
