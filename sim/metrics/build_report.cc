#include "sim/metrics/build_report.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "sim/metrics/collective_report.h"
#include "sim/metrics/memory_profile.h"
#include "sim/metrics/slack.h"

namespace stepsim {
namespace {

// The window of the last step, and the rank that ends it: of several the first.
struct LastStep {
  std::int32_t number = 0;
  Window window;
  RankId slowest{};
};

// A step ends with its last kernel, the optimizer's: a transfer that nobody waits for runs on under
// the next step, and is paid for there. Only a step that is simulated alone ends with everything.
LastStep FindLastStep(const TaskGraph& graph, const Timeline& timeline) {
  LastStep found;
  found.window.end = timeline.makespan;
  if (graph.task_count() == 0) return found;
  found.slowest = graph.rank(timeline.last_task);
  for (const TaskId t : AllIds<TaskId>(graph.task_count())) {
    found.number = std::max(found.number, graph.position(t).step);
    if (timeline.end[t] == timeline.makespan) {
      found.slowest = std::min(found.slowest, graph.rank(t));
    }
  }
  if (found.number == 0) return found;
  SimTime end = kStepBegin;
  for (const TaskId t : AllIds<TaskId>(graph.task_count())) {
    if (graph.kind(t) == TaskKind::kTransfer) continue;
    if (graph.position(t).step != found.number) {
      found.window.begin = std::max(found.window.begin, timeline.end[t]);
    } else if (timeline.end[t] >= end) {
      const RankId rank = graph.rank(t);
      found.slowest = timeline.end[t] > end ? rank : std::min(found.slowest, rank);
      end = timeline.end[t];
    }
  }
  if (end >= found.window.begin) found.window.end = end;
  return found;
}

// When the tasks of one micro-step run on a rank.
struct MicrostepSpan {
  SimTime first_start;  // of kernels and collectives
  SimTime compute_end;  // of the stream that computes
  bool reduces = false;
};

std::vector<MicrostepSpan> MicrostepSpans(const TaskGraph& graph, const Timeline& timeline,
                                          const LastStep& step) {
  const IdVector<StreamId, char> is_main = MainStreams(graph, timeline);
  std::vector<MicrostepSpan> spans;
  for (const TaskId t : AllIds<TaskId>(graph.task_count())) {
    if (graph.rank(t) != step.slowest || graph.position(t).step != step.number) continue;
    const auto m = static_cast<std::size_t>(graph.position(t).microstep);
    if (m >= spans.size()) spans.resize(m + 1, {step.window.end, step.window.begin, false});
    MicrostepSpan& span = spans[m];
    if (graph.label(t).site == Site::kGradientReduce) span.reduces = true;
    if (graph.kind(t) == TaskKind::kHost) continue;
    span.first_start = std::min(span.first_start, timeline.start[t]);
    const bool computes =
        graph.kind(t) == TaskKind::kCompute && is_main[graph.streams(t).front()] != 0;
    if (computes) span.compute_end = std::max(span.compute_end, timeline.end[t]);
  }
  return spans;
}

// Whether a rank does one micro-step after another. Micro-batches of a pipeline take turns.
bool HasMicrostepsInOrder(const TaskGraph& graph, const LastStep& step) {
  std::int32_t last = 0;
  for (const TaskId t : AllIds<TaskId>(graph.task_count())) {
    if (graph.rank(t) != step.slowest || graph.position(t).step != step.number) continue;
    const bool is_pipeline = graph.label(t).site == Site::kPipelineTransfer;
    if (is_pipeline || graph.position(t).microstep < last) return false;
    last = graph.position(t).microstep;
  }
  return true;
}

// Micro-steps tile the step: each begins where its first kernel or collective starts on the rank,
// but not while the one before computes, beside which its first gather may run.
std::vector<MicrostepReport> ReportMicrosteps(const TaskGraph& graph, const TaskCosts& costs,
                                              const Timeline& timeline,
                                              const RankActivity& activity, const LastStep& step) {
  if (!HasMicrostepsInOrder(graph, step)) return {};
  const std::vector<MicrostepSpan> spans = MicrostepSpans(graph, timeline, step);
  std::vector<SimTime> begins;
  for (std::size_t m = 0; m < spans.size(); ++m) {
    // A rank that runs ahead may begin before the slowest one has ended its step before.
    const SimTime begin =
        m == 0 ? step.window.begin : std::max(spans[m].first_start, spans[m - 1].compute_end);
    begins.push_back(
        std::clamp(begin, m == 0 ? step.window.begin : begins.back(), step.window.end));
  }
  begins.push_back(step.window.end);
  std::vector<MicrostepReport> microsteps;
  for (std::size_t m = 0; m < spans.size(); ++m) {
    microsteps.push_back(
        {static_cast<std::int32_t>(m), spans[m].reduces,
         AccountWindow(graph, costs, timeline, activity, {begins[m], begins[m + 1]})});
  }
  return microsteps;
}

StepReport Totals(const TaskGraph& graph, const TaskCosts& costs, const Timeline& timeline,
                  const LastStep& step, const std::vector<RankActivity>& activities,
                  StepContext context) {
  StepReport report;
  report.context = std::move(context);
  report.window = step.window;
  report.reported_rank = Index(step.slowest);
  for (const RankId r : AllIds<RankId>(graph.rank_count())) {
    report.ranks.push_back(
        AccountWindow(graph, costs, timeline, activities[Index(r)], step.window));
    report.rank_infos.push_back(graph.rank_info(r));
  }
  report.memory = PeakMemory(graph, timeline, step.window, report.context.allocator_slack);
  return report;
}

}  // namespace

Window LastStepWindow(const TaskGraph& graph, const Timeline& timeline) {
  return FindLastStep(graph, timeline).window;
}

StepReport BuildReport(const TaskGraph& graph, const TaskCosts& costs,
                       IdVector<WorkId, CollectiveChoice> choices, const Timeline& timeline,
                       StepContext context) {
  const LastStep step = FindLastStep(graph, timeline);
  const std::vector<RankActivity> activities = ObserveRanks(graph, timeline);
  StepReport report = Totals(graph, costs, timeline, step, activities, std::move(context));
  const RankActivity& slowest = activities[report.reported_rank];
  report.microsteps = ReportMicrosteps(graph, costs, timeline, slowest, step);
  report.collectives =
      ReportCollectives(CollectiveFacts(graph, timeline, choices, step.window), slowest);
  report.choices = std::move(choices);
  return report;
}

StepReport BuildTotals(const TaskGraph& graph, const TaskCosts& costs, const Timeline& timeline,
                       StepContext context) {
  return Totals(graph, costs, timeline, FindLastStep(graph, timeline),
                ObserveRanks(graph, timeline), std::move(context));
}

}  // namespace stepsim
