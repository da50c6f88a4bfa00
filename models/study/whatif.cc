#include "models/study/whatif.h"

#include <cctype>
#include <cstddef>

#include "models/simulate_job.h"
#include "models/study/ceilings.h"
#include "models/study/try_step.h"
#include "models/workload/workload.h"
#include "sim/base/diagnostics.h"
#include "sim/metrics/build_report.h"

namespace stepsim {
namespace {

bool IsOfPath(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
}

// Whether "PATH=" begins at `from`.
bool BeginsSetting(const std::string& text, std::size_t from) {
  std::size_t end = from;
  while (end < text.size() && IsOfPath(text[end])) ++end;
  const bool is_name = end > from && std::isalpha(static_cast<unsigned char>(text[from])) != 0;
  return is_name && end < text.size() && text[end] == '=';
}

}  // namespace

Changes SplitTogether(const std::string& text) {
  Changes changes = {""};
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+' && BeginsSetting(text, i + 1)) {
      changes.emplace_back();
    } else {
      changes.back() += text[i];
    }
  }
  return changes;
}

WhatIf TryWhatIf(const JobVariants& variants, const std::string& text) {
  WhatIf line{.text = text, .changes = SplitTogether(text), .report = {}, .error = {}};
  try {
    line.report = TryStep(variants.With(line.changes));
  } catch (const ConfigError& error) {
    line.error = error.what();
    line.is_input_error = true;
  } catch (const SimulationError& error) {
    line.error = error.what();
  }
  return line;
}

Duration StepWithoutCommunication(const JobSpec& job) {
  const SimulatedStep step = SimulateJob(job, BuildWorkload(job));
  const Duration now = LastStepWindow(step.graph, step.timeline).length();
  IdVector<TaskId, char> transfers(step.graph.task_count(), 0);
  bool is_any = false;
  for (const TaskId t : AllIds<TaskId>(step.graph.task_count())) {
    if (step.graph.kind(t) != TaskKind::kTransfer) continue;
    transfers[t] = 1;
    is_any = true;
  }
  if (!is_any) return now;
  const Duration without =
      StepWithout(step.graph, step.priced.costs, step.contention.get(), transfers);
  return WithinHostPace(job, step.pace, without, now);
}

}  // namespace stepsim
