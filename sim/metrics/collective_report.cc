#include "sim/metrics/collective_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "sim/base/units.h"
#include "sim/metrics/slack.h"

namespace stepsim {
namespace {

class Reporter {
 public:
  Reporter(const CollectiveFacts& facts, const RankActivity& activity)
      : facts_(facts),
        graph_(facts.graph),
        timeline_(facts.timeline),
        activity_(activity),
        last_network_compute_(LastNetworkCompute()) {}

  CollectiveReport Report(TaskId task) const {
    CollectiveReport report;
    report.task = task;
    const Label& label = graph_.label(task);
    report.name = label.name;
    report.site = label.site;
    report.microstep = graph_.position(task).microstep;
    if (const auto* work = std::get_if<CollectiveWork>(&graph_.work(task))) {
      const ProcessGroup& group = graph_.group(work->group);
      report.op = work->op;
      report.dtype = work->dtype;
      report.bytes = work->bytes;
      report.group_size = static_cast<std::int64_t>(group.ranks.size());
      report.group = group.name;
    }
    if (Index(graph_.work_id(task)) < facts_.choices.size()) {
      report.algorithm = facts_.choices[graph_.work_id(task)].algorithm;
      report.protocol = facts_.choices[graph_.work_id(task)].protocol;
    }
    report.ready = Relative(facts_.ready[task]);
    report.start = Relative(timeline_.start[task]);
    report.transfer_start = Relative(TransferStart(graph_, timeline_, task));
    report.end = Relative(timeline_.end[task]);
    const Interval resident = Clip({timeline_.start[task], timeline_.end[task]},
                                   {facts_.window.begin, facts_.window.end});
    report.exposed = Measure(Subtract(resident, activity_.computing));
    const SimTime stages_arrive = StagesArrive(graph_, timeline_, activity_.tasks.pipeline, task);
    const Interval wait = Clip({timeline_.start[task], stages_arrive}, resident);
    if (wait.begin < wait.end) report.exposed_wait = Measure(Subtract(wait, activity_.computing));
    report.hidden = (resident.end - resident.begin) - report.exposed;
    const TaskId use = facts_.uses[task];
    report.slack =
        SlackOf(graph_, timeline_, task, use, activity_.computing, facts_.window.end).slack;
    if (use != kNoId<TaskId>) report.first_use = graph_.label(use).name;
    report.slowed = Slowed(task);
    if (report.exposed > Duration::zero()) {
      report.cause_kind = Cause(report);
      report.cause = Words(report);
    }
    return report;
  }

 private:
  using Microstep = std::pair<std::int32_t, std::int32_t>;  // step and micro-step
  Microstep MicrostepOf(TaskId task) const {
    const Position position = graph_.position(task);
    return {position.step, position.microstep};
  }

  SimTime Relative(SimTime time) const { return kStepBegin + (time - facts_.window.begin); }

  // When the rank's last forward or backward kernel of each micro-step ends: after it there is
  // nothing to hide behind. Kernels that follow a collective (copies back) are of another phase, or
  // on its stream.
  std::map<Microstep, SimTime> LastNetworkCompute() const {
    std::map<Microstep, SimTime> last;
    for (const TaskId t : activity_.tasks.compute) {
      const Phase phase = graph_.label(t).phase;
      const bool is_network = phase == Phase::kForward || phase == Phase::kBackward;
      if (!is_network || facts_.is_main[graph_.streams(t).front()] == 0) continue;
      SimTime& end = last[MicrostepOf(t)];
      end = std::max(end, timeline_.end[t]);
    }
    return last;
  }

  bool IsReadyLast(TaskId task) const {
    const auto last = last_network_compute_.find(MicrostepOf(task));
    return last == last_network_compute_.end() || facts_.ready[task] >= last->second;
  }

  // Work of the launching thread; not an event on its way between two streams.
  bool IsLaunch(TaskId task) const {
    if (graph_.kind(task) != TaskKind::kHost) return false;
    const auto* work = std::get_if<HostWork>(&graph_.work(task));
    return work == nullptr || work->handovers == 0;
  }

  // How long the rank did not compute beside the task because the next kernel was not launched yet.
  Duration WaitForLaunches(TaskId task) const {
    const Interval resident{timeline_.start[task], timeline_.end[task]};
    const std::vector<Segment>& segments = activity_.segments;
    auto segment = std::lower_bound(segments.begin(), segments.end(), resident.begin,
                                    [](const Segment& s, SimTime time) { return s.end <= time; });
    Duration waited{};
    Duration gap{};  // since the kernel before
    for (; segment != segments.end(); ++segment) {
      if (segment->state != RankState::kCompute) {
        if (segment->begin >= resident.end) continue;
        const Interval part = Clip({segment->begin, segment->end}, resident);
        gap += part.end - part.begin;
        continue;
      }
      const BoundBy bound = timeline_.bound_by[segment->task];
      if (bound.bound() == Bound::kDependency && IsLaunch(bound.task())) waited += gap;
      gap = {};
      if (segment->begin >= resident.end) break;
    }
    return waited;
  }

  // What running beside others has added to the transfer.
  Duration Slowed(TaskId task) const {
    if (Index(graph_.work_id(task)) >= facts_.choices.size()) return {};
    const Duration alone = facts_.choices[graph_.work_id(task)].alone;
    if (alone == Duration::zero()) return {};
    const Duration transfer = timeline_.end[task] - TransferStart(graph_, timeline_, task);
    return std::max(Duration::zero(), transfer - alone);
  }

  Duration WaitForStages(TaskId task) const {
    return StagesArrive(graph_, timeline_, activity_.tasks.pipeline, task) - timeline_.start[task];
  }

  // How long it was ready, while another collective had its stream or communicator.
  Duration Queued(TaskId task) const {
    const BoundBy bound = timeline_.bound_by[task];
    const bool is_queued =
        bound.bound() == Bound::kStreamOrder && graph_.kind(bound.task()) == TaskKind::kTransfer;
    return is_queued ? timeline_.start[task] - facts_.ready[task] : Duration::zero();
  }

  // The first that applies.
  ExposureCause Cause(const CollectiveReport& report) const {
    const Duration wait = report.transfer_start - report.start;
    if (2 * wait > report.end - report.start) {
      return 2 * WaitForStages(report.task) > wait ? ExposureCause::kBubble
                                                   : ExposureCause::kPeerWait;
    }
    if (2 * WaitForLaunches(report.task) > report.exposed) return ExposureCause::kLaunchBound;
    if (IsReadyLast(report.task)) return ExposureCause::kTail;
    const Duration queued = Queued(report.task);
    if (queued > Duration::zero() && 2 * queued >= report.exposed) return ExposureCause::kQueued;
    if (2 * report.slowed >= report.exposed) return ExposureCause::kSlowed;
    // With hardly any compute beside it, it was not the window that was too short, but no window.
    if (10 * report.hidden >= report.end - report.transfer_start) return ExposureCause::kLonger;
    return IsWithinLayers(report.site) ? ExposureCause::kSandwiched : ExposureCause::kReadyTooLate;
  }

  // Sites whose collectives stand between a kernel and the next one of the same pass.
  static bool IsWithinLayers(Site site) {
    return site == Site::kTensorParallel || site == Site::kContextParallel ||
           site == Site::kExpertParallel || site == Site::kPipelineTransfer;
  }

  // The cause with its figures.
  std::string Words(const CollectiveReport& report) const {
    const Duration hidden = report.hidden;
    switch (report.cause_kind) {
      case ExposureCause::kBubble:
        return fmt::format("bubble: waits {} for other stages",
                           FormatTime(WaitForStages(report.task)));
      case ExposureCause::kPeerWait:
        return "waits for the slowest rank: " + FormatTime(report.transfer_start - report.start);
      case ExposureCause::kLaunchBound:
        return "the kernels beside it wait for their launches";
      case ExposureCause::kTail:
        if (hidden == Duration::zero()) return "ready last, nothing to hide behind";
        return fmt::format("ready last, only {} of other kernels beside it", FormatTime(hidden));
      case ExposureCause::kQueued:
        return fmt::format("queued {} behind the one before", FormatTime(Queued(report.task)));
      case ExposureCause::kSlowed:
        return fmt::format("kernels beside it slow it down by {}", FormatTime(report.slowed));
      default:
        if (report.cause_kind != ExposureCause::kLonger) return "compute waits for it at once";
        return fmt::format("longer than the {} of compute beside it", FormatTime(hidden));
    }
  }

  const CollectiveFacts& facts_;
  const TaskGraph& graph_;
  const Timeline& timeline_;
  const RankActivity& activity_;
  std::map<Microstep, SimTime> last_network_compute_;
};

}  // namespace

CollectiveFacts::CollectiveFacts(const TaskGraph& step_graph, const Timeline& step_timeline,
                                 const IdVector<WorkId, CollectiveChoice>& carried_out, Window part)
    : graph(step_graph),
      timeline(step_timeline),
      choices(carried_out),
      window(part),
      ready(ReadyTimes(graph, timeline)),
      uses(FirstUses(graph, timeline)),
      is_main(MainStreams(graph, timeline)) {}

std::vector<CollectiveReport> ReportCollectives(const CollectiveFacts& facts,
                                                const RankActivity& activity) {
  const Reporter reporter(facts, activity);
  std::vector<CollectiveReport> reports;
  for (const TaskId t : activity.tasks.transfers) {
    const bool is_inside =
        facts.timeline.end[t] > facts.window.begin && facts.timeline.start[t] < facts.window.end;
    if (is_inside) reports.push_back(reporter.Report(t));
  }
  std::stable_sort(reports.begin(), reports.end(),
                   [](const auto& a, const auto& b) { return a.start < b.start; });
  return reports;
}

}  // namespace stepsim
