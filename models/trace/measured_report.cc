#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "models/trace/lane_calls.h"
#include "models/trace/measured_run.h"
#include "sim/metrics/collective_report.h"
#include "sim/metrics/intervals.h"
#include "sim/metrics/slack.h"

namespace stepsim {
namespace {

// Shares of the step without anything to do for the device because nothing had been launched: from
// where on it is called so.
constexpr double kLaunchBoundShare = 0.25;
constexpr double kPartlyShare = 0.10;

// The parts of a union inside the window.
std::vector<Interval> Within(const std::vector<Interval>& intervals, Window window) {
  std::vector<Interval> parts;
  for (const Interval& interval : intervals) {
    const Interval part = Clip(interval, {window.begin, window.end});
    if (part.begin < part.end) parts.push_back(part);
  }
  return parts;
}

Duration MeasureOutside(const std::vector<Interval>& intervals,
                        const std::vector<Interval>& holes) {
  Duration sum{};
  for (const Interval& interval : intervals) sum += Measure(Subtract(interval, holes));
  return sum;
}

std::vector<Interval> Joined(std::vector<Interval> a, const std::vector<Interval>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return Union(std::move(a));
}

// What one rank was doing, by kind.
struct LaneActivity {
  std::vector<Interval> kernels, copies, communication;  // unions
};

LaneActivity ActivityOf(const MeasuredRun& run, const RankTasks& tasks) {
  LaneActivity activity;
  for (const TaskId t : tasks.compute) {
    auto& list =
        run.kinds[t].kernel_class == KernelClass::kCopy ? activity.copies : activity.kernels;
    list.push_back({run.timeline.start[t], run.timeline.end[t]});
  }
  activity.kernels = Union(std::move(activity.kernels));
  activity.copies = Union(std::move(activity.copies));
  activity.communication = BusyIntervals(run.timeline, tasks.transfers);
  return activity;
}

// The trace of a rank says nothing of the time before its first kernel and after its last.
void ForgetOutside(Window active, std::vector<Segment>* segments) {
  for (Segment& segment : *segments) {
    if (segment.begin >= active.end || segment.end <= active.begin) {
      segment.state = RankState::kIdle;
    }
  }
}

class RankReporter {
 public:
  RankReporter(const MeasuredRun& run, Window window, const RankTasks& tasks,
               const LaneActivity& activity)
      : run_(run), window_(window), tasks_(tasks), activity_(activity) {}

  MeasuredDetail Report(const RankAccount& account, bool has_launches) const {
    MeasuredDetail detail;
    const std::vector<Interval> kernels = Within(activity_.kernels, window_);
    const std::vector<Interval> copies = Within(activity_.copies, window_);
    const std::vector<Interval> communication = Within(activity_.communication, window_);
    const std::vector<Interval> both = Joined(kernels, copies);
    detail.compute_kernels = Measure(kernels);
    detail.copies = Measure(copies);
    detail.communication = Measure(communication);
    detail.busy = Measure(Joined(both, communication));
    detail.exposed = MeasureOutside(communication, kernels);
    detail.exposed_beside_copies = MeasureOutside(communication, both);
    detail.sites = Sites(kernels);
    detail.classes = Classes();
    detail.launch_delay = run_.LaunchDelay(tasks_.rank, window_);
    if (has_launches && account.step > Duration::zero()) {
      const double share = ToSeconds(account.host) / ToSeconds(account.step);
      detail.launches = share >= kLaunchBoundShare ? LaunchVerdict::kLaunchBound
                        : share >= kPartlyShare    ? LaunchVerdict::kPartly
                                                   : LaunchVerdict::kAhead;
    }
    return detail;
  }

 private:
  Interval Inside(TaskId t) const {
    return Clip({run_.timeline.start[t], run_.timeline.end[t]}, {window_.begin, window_.end});
  }

  std::vector<MeasuredSite> Sites(const std::vector<Interval>& kernels) const {
    std::map<std::pair<Site, CollectiveOp>, MeasuredSite> sites;
    for (const TaskId t : tasks_.transfers) {
      const Interval part = Inside(t);
      const auto* work = std::get_if<CollectiveWork>(&run_.graph.work(t));
      if (part.begin >= part.end || work == nullptr) continue;
      MeasuredSite& site = sites[{run_.graph.label(t).site, work->op}];
      site.site = run_.graph.label(t).site;
      site.op = work->op;
      AddCall(t, *work, part, kernels, &site);
    }
    std::vector<MeasuredSite> list;
    for (auto& [key, site] : sites) list.push_back(site);
    std::stable_sort(list.begin(), list.end(),
                     [](const auto& a, const auto& b) { return a.exposed > b.exposed; });
    return list;
  }

  void AddCall(TaskId t, const CollectiveWork& work, Interval part,
               const std::vector<Interval>& kernels, MeasuredSite* site) const {
    const SimTime transfer = TransferStart(run_.graph, run_.timeline, t);
    const Duration exposed = Measure(Subtract(part, kernels));
    const bool starts_here = run_.timeline.start[t] >= window_.begin;
    if (starts_here) {
      ++site->calls;
      site->bytes += work.bytes;
      if (work.bytes.value == 0) site->has_bytes = false;
      const auto size = static_cast<std::int64_t>(run_.graph.group(work.group).ranks.size());
      const double factor = BusFactor(work.op, size);
      if (work.bytes.value > 0 && factor > 0) {
        site->bus_bytes += factor * ToDouble(work.bytes);
        site->bus_time += run_.timeline.end[t] - transfer;
      }
    }
    site->resident += part.end - part.begin;
    const Interval wait = Clip({run_.timeline.start[t], transfer}, {window_.begin, window_.end});
    if (wait.begin < wait.end) site->waiting += wait.end - wait.begin;
    site->exposed += exposed;
    site->hidden += (part.end - part.begin) - exposed;
  }

  std::vector<ClassTime> Classes() const {
    std::array<ClassTime, kKernelClassCount> classes{};
    const auto add = [&](TaskId t) {
      const Interval part = Inside(t);
      if (part.begin >= part.end) return;
      ClassTime& time = classes[static_cast<std::size_t>(run_.kinds[t].kernel_class)];
      ++time.kernels;
      time.busy += part.end - part.begin;
    };
    for (const TaskId t : tasks_.compute) add(t);
    for (const TaskId t : tasks_.transfers) add(t);
    std::vector<ClassTime> list;
    for (std::size_t i = 0; i < classes.size(); ++i) {
      classes[i].kernel_class = static_cast<KernelClass>(i);
      if (classes[i].kernels > 0) list.push_back(classes[i]);
    }
    std::stable_sort(list.begin(), list.end(),
                     [](const auto& a, const auto& b) { return a.busy > b.busy; });
    return list;
  }

  const MeasuredRun& run_;
  Window window_;
  const RankTasks& tasks_;
  const LaneActivity& activity_;
};

// The rank whose last kernel of the window ends last: of equals the first.
std::size_t SlowestRank(const std::vector<LaneActivity>& activities, Window window) {
  std::size_t slowest = 0;
  SimTime latest = SimTime::min();
  for (std::size_t i = 0; i < activities.size(); ++i) {
    const std::vector<Interval> kernels = Within(activities[i].kernels, window);
    if (kernels.empty() || kernels.back().end <= latest) continue;
    latest = kernels.back().end;
    slowest = i;
  }
  return slowest;
}

}  // namespace

double MeasuredSite::busbw() const {
  return bus_time > Duration::zero() ? bus_bytes / ToSeconds(bus_time) : 0;
}

double MeasuredDetail::overlap_fraction() const {
  if (communication == Duration::zero()) return 0;
  return 1 - ToSeconds(exposed) / ToSeconds(communication);
}

std::string_view ToString(LaunchVerdict verdict) {
  constexpr std::array<std::string_view, 4> kNames = {"unknown", "ahead", "partly", "launch_bound"};
  return kNames[static_cast<std::size_t>(verdict)];
}

Duration MeasuredRun::LaunchDelay(RankId rank, Window window) const {
  std::vector<Duration> delays;
  for (const TaskId t : AllIds<TaskId>(graph.task_count())) {
    if (graph.kind(t) != TaskKind::kCompute || launched[t] == SimTime::min()) continue;
    if (graph.rank(t) != rank) continue;
    if (timeline.start[t] < window.begin || timeline.start[t] >= window.end) continue;
    delays.push_back(timeline.start[t] - launched[t]);
  }
  if (delays.empty()) return Duration::zero();
  const auto middle = delays.begin() + static_cast<std::ptrdiff_t>(delays.size() / 2);
  std::nth_element(delays.begin(), middle, delays.end());
  return *middle;
}

MeasuredReport ReportStep(const MeasuredRun& run, Window window) {
  MeasuredReport report;
  const std::vector<RankTasks> ranks = TasksByRank(run.graph);
  std::vector<LaneActivity> lanes;
  std::vector<RankActivity> activities;
  for (const RankTasks& tasks : ranks) {
    lanes.push_back(ActivityOf(run, tasks));
    RankActivity activity;
    activity.tasks = tasks;
    activity.segments = SplitRank(run.graph, run.timeline, tasks);
    ForgetOutside(run.ranks[Index(tasks.rank)].active, &activity.segments);
    // Profilers' readers count no copy as compute; the account does, as that of a simulation.
    activity.computing = lanes.back().kernels;
    activity.communicating = lanes.back().communication;
    activities.push_back(std::move(activity));
  }
  StepReport& step = report.step;
  step.window = window;
  step.reported_rank = SlowestRank(lanes, window);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    step.ranks.push_back(AccountWindow(run.graph, run.costs, run.timeline, activities[i], window));
    step.rank_infos.push_back(run.graph.rank_info(ranks[i].rank));
    report.ranks.push_back(RankReporter(run, window, ranks[i], lanes[i])
                               .Report(step.ranks.back(), run.ranks[i].has_launches));
  }
  step.choices = IdVector<WorkId, CollectiveChoice>(run.graph.work_count());
  step.collectives =
      ReportCollectives(CollectiveFacts(run.graph, run.timeline, step.choices, window),
                        activities[step.reported_rank]);
  step.context.gpus =
      std::max<std::int64_t>(run.world_size, static_cast<std::int64_t>(run.ranks.size()));
  step.context.job = fmt::format("trace of {}", run.ranks.front().file);
  step.context.job_file = run.ranks.front().file;
  step.context.hardware = run.ranks.front().device;
  step.context.warnings = run.warnings;
  step.context.notes = run.notes;
  return report;
}

}  // namespace stepsim
