#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "models/trace/lane_calls.h"
#include "models/trace/measured_collectives.h"
#include "models/trace/measured_run.h"
#include "sim/metrics/intervals.h"

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
  RankReporter(const MeasuredRun& run, Window window, const RankActivity& activity,
               const std::vector<Interval>& copies)
      : run_(run), window_(window), tasks_(activity.tasks), activity_(activity), copies_(copies) {}

  MeasuredDetail Report(const RankAccount& account, bool has_launches) const {
    MeasuredDetail detail;
    const std::vector<Interval> kernels = Within(activity_.computing, window_);
    const std::vector<Interval> copies = Within(copies_, window_);
    const std::vector<Interval> communication = Within(activity_.communicating, window_);
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
      const double factor = TraceBusFactor(work.op, size);
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
  const RankActivity& activity_;
  const std::vector<Interval>& copies_;
};

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

RunReporter::RunReporter(const MeasuredRun& run) : run_(run) {
  for (const RankTasks& tasks : TasksByRank(run.graph)) {
    std::vector<Interval> kernels, copies;
    for (const TaskId t : tasks.compute) {
      const bool is_copy = run.kinds[t].kernel_class == KernelClass::kCopy;
      (is_copy ? copies : kernels).push_back({run.timeline.start[t], run.timeline.end[t]});
    }
    RankActivity activity;
    activity.segments = SplitRank(run.graph, run.timeline, tasks);
    ForgetOutside(run.ranks[Index(tasks.rank)].active, &activity.segments);
    // Profilers' readers count no copy as compute; the account does, as that of a simulation.
    activity.computing = Union(std::move(kernels));
    activity.communicating = BusyIntervals(run.timeline, tasks.transfers);
    activity.tasks = tasks;
    activities_.push_back(std::move(activity));
    copies_.push_back(Union(std::move(copies)));
  }
}

std::vector<RankAccount> RunReporter::Accounts(Window window) const {
  std::vector<RankAccount> accounts;
  for (const RankActivity& activity : activities_) {
    accounts.push_back(AccountWindow(run_.graph, run_.costs, run_.timeline, activity, window));
  }
  return accounts;
}

std::size_t RunReporter::SlowestRank(Window window) const {
  std::size_t slowest = 0;
  SimTime latest = SimTime::min();
  for (std::size_t i = 0; i < activities_.size(); ++i) {
    const std::vector<Interval> kernels = Within(activities_[i].computing, window);
    if (kernels.empty() || kernels.back().end <= latest) continue;
    latest = kernels.back().end;
    slowest = i;
  }
  return slowest;
}

MeasuredReport RunReporter::Report(const MeasuredStep& which) const {
  MeasuredReport report;
  report.which = which;
  StepReport& step = report.step;
  step.window = which.window;
  step.ranks = Accounts(which.window);
  step.reported_rank = SlowestRank(which.window);
  for (std::size_t i = 0; i < activities_.size(); ++i) {
    step.rank_infos.push_back(run_.graph.rank_info(activities_[i].tasks.rank));
    const RankReporter reporter(run_, which.window, activities_[i], copies_[i]);
    report.ranks.push_back(reporter.Report(step.ranks[i], run_.ranks[i].has_launches));
  }
  step.choices = IdVector<WorkId, CollectiveChoice>(run_.graph.work_count());
  step.collectives = MeasuredCollectives(run_, activities_[step.reported_rank], which.window);
  const MeasuredRank& rank = run_.ranks[step.reported_rank];
  step.context.gpus = std::max(run_.world_size, static_cast<std::int64_t>(run_.ranks.size()));
  step.context.job = fmt::format("trace {}", rank.file);
  step.context.job_file = rank.file;
  step.context.hardware = rank.device;
  step.context.warnings = run_.warnings;
  step.context.notes = run_.notes;
  return report;
}

MeasuredReport ReportStep(const MeasuredRun& run, const MeasuredStep& step) {
  return RunReporter(run).Report(step);
}

}  // namespace stepsim
