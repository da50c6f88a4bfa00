#include "models/trace/measured_collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "sim/base/units.h"

namespace stepsim {
namespace {

class CollectiveLister {
 public:
  CollectiveLister(const MeasuredRun& run, const RankActivity& activity, Window window)
      : run_(run), activity_(activity), window_(window) {
    for (const TaskId t : activity.tasks.compute) {
      const Phase phase = run.graph.label(t).phase;
      if (phase != Phase::kForward && phase != Phase::kBackward) continue;
      SimTime& end = last_pass_[run.graph.position(t).step];
      end = std::max(end, run.timeline.end[t]);
    }
  }

  CollectiveReport Report(TaskId task) const {
    const Interval whole{run_.timeline.start[task], run_.timeline.end[task]};
    const Interval resident = Clip(whole, {window_.begin, window_.end});
    CollectiveReport report;
    report.task = task;
    report.name = run_.graph.label(task).name;
    report.site = run_.graph.label(task).site;
    const auto& work = std::get<CollectiveWork>(run_.graph.work(task));
    const ProcessGroup& group = run_.graph.group(work.group);
    report.op = work.op;
    report.dtype = work.dtype;
    report.bytes = work.bytes;
    report.group = group.name;
    report.group_size = static_cast<std::int64_t>(group.ranks.size());
    report.start = Relative(whole.begin);
    const bool is_launched = run_.launched[task] != SimTime::min();
    report.ready = is_launched ? Relative(run_.launched[task]) : report.start;
    report.transfer_start = Relative(TransferStart(run_.graph, run_.timeline, task));
    report.end = Relative(whole.end);
    report.exposed = Measure(Subtract(resident, activity_.computing));
    report.hidden = (resident.end - resident.begin) - report.exposed;
    const SimTime stages = StagesArrive(run_.graph, run_.timeline, activity_.tasks.pipeline, task);
    const Interval wait = Clip({whole.begin, stages}, resident);
    if (wait.begin < wait.end) report.exposed_wait = Measure(Subtract(wait, activity_.computing));
    if (report.exposed > Duration::zero()) Explain(stages - whole.begin, &report);
    return report;
  }

 private:
  SimTime Relative(SimTime time) const { return kStepBegin + (time - window_.begin); }

  // The first that applies.
  void Explain(Duration stages_wait, CollectiveReport* report) const {
    const Duration wait = report->transfer_start - report->start;
    const auto last = last_pass_.find(run_.graph.position(report->task).step);
    if (2 * wait > report->end - report->start) {
      const bool is_bubble = 2 * stages_wait > wait;
      report->cause_kind = is_bubble ? ExposureCause::kBubble : ExposureCause::kPeerWait;
      report->cause = fmt::format(
          "{} {}", is_bubble ? "bubble: waits for other stages" : "waits for the slowest rank:",
          FormatTime(wait));
    } else if (2 * HostLate(report->task) > report->exposed) {
      report->cause_kind = ExposureCause::kLaunchBound;
      report->cause = "the kernels beside it wait for their launches";
    } else if (last != last_pass_.end() && run_.timeline.start[report->task] >= last->second) {
      report->cause_kind = ExposureCause::kTail;
      report->cause = "begins behind the last forward or backward kernel";
    } else if (10 * report->hidden >= report->end - report->start) {
      report->cause_kind = ExposureCause::kLonger;
      report->cause =
          fmt::format("longer than the {} of compute beside it", FormatTime(report->hidden));
    } else {
      report->cause_kind = ExposureCause::kReadyTooLate;
      report->cause = report->hidden == Duration::zero()
                          ? "no compute beside it"
                          : fmt::format("only {} of compute beside it", FormatTime(report->hidden));
    }
  }

  // How long the compute kernels that begin while it is resident had waited for their launches.
  Duration HostLate(TaskId task) const {
    Duration late{};
    const SimTime begin = run_.timeline.start[task], end = run_.timeline.end[task];
    auto segment = std::lower_bound(activity_.segments.begin(), activity_.segments.end(), begin,
                                    [](const Segment& s, SimTime time) { return s.end <= time; });
    SimTime gap = begin;
    for (; segment != activity_.segments.end() && segment->begin <= end; ++segment) {
      if (segment->state != RankState::kCompute) continue;
      const BoundBy bound = run_.timeline.bound_by[segment->task];
      if (bound.bound() == Bound::kDependency && segment->begin > gap) {
        late += std::min(segment->begin, end) - gap;
      }
      gap = std::max(gap, segment->end);
    }
    return late;
  }

  const MeasuredRun& run_;
  const RankActivity& activity_;
  Window window_;
  std::map<std::int32_t, SimTime>
      last_pass_;  // by step: end of the last forward or backward kernel
};

}  // namespace

std::vector<CollectiveReport> MeasuredCollectives(const MeasuredRun& run,
                                                  const RankActivity& activity, Window window) {
  const CollectiveLister lister(run, activity, window);
  std::vector<CollectiveReport> reports;
  for (const TaskId t : activity.tasks.transfers) {
    const bool is_inside = run.timeline.end[t] > window.begin && run.timeline.start[t] < window.end;
    if (is_inside) reports.push_back(lister.Report(t));
  }
  std::stable_sort(reports.begin(), reports.end(),
                   [](const auto& a, const auto& b) { return a.start < b.start; });
  return reports;
}

}  // namespace stepsim
