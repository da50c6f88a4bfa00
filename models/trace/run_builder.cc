#include "models/trace/run_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "models/trace/run_steps.h"
#include "sim/base/units.h"
#include "sim/graph/task_graph_builder.h"

namespace stepsim {
namespace {

class RunBuilder {
 public:
  RunBuilder(const std::vector<Lane>& lanes, const MatchedLanes& matched)
      : lanes_(lanes), matched_(matched) {}

  MeasuredRun Build() {
    ShiftToZero();
    FindSizes();
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) AddLane(lane);
    AddMeetings();
    run_.graph = std::move(graph_).Build();
    FinishTimeline();
    run_.steps = FindSteps(lanes_, shifts_, run_.timeline.makespan, &run_.warnings);
    AddNotes();
    return std::move(run_);
  }

 private:
  // The earliest span of all begins at zero.
  void ShiftToZero() {
    SimTime earliest = SimTime::max();
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
      earliest = std::min(earliest, lanes_[i].spans.front().begin + matched_.offsets[i]);
    }
    for (const Duration offset : matched_.offsets) {
      shifts_.push_back(offset - earliest.time_since_epoch());
    }
  }

  // Members of one call do one work: the size is that of the largest.
  void FindSizes() {
    for (const Lane& lane : lanes_) {
      std::vector<std::int64_t>& sizes = sizes_.emplace_back();
      for (const LaneCall& call : lane.calls) sizes.push_back(call.bytes);
    }
    for (const LaneMeeting& meeting : matched_.meetings) {
      const auto size_of = [&](const auto& member) -> std::int64_t& {
        return sizes_[member.first][lanes_[member.first].spans[member.second].call];
      };
      std::int64_t largest = 0;
      for (const auto& member : meeting) largest = std::max(largest, size_of(member));
      for (const auto& member : meeting) size_of(member) = largest;
    }
  }

  void AddLane(std::size_t index) {
    const Lane& lane = lanes_[index];
    const Duration shift = shifts_[index];
    rank_ = graph_.AddRank({.global_rank = static_cast<std::int32_t>(lane.rank)});
    const StreamId host = graph_.AddStream(rank_, "host");
    std::vector<StreamId> streams;
    for (const std::string& name : lane.streams) streams.push_back(graph_.AddStream(rank_, name));
    MeasuredRank rank;
    rank.rank = lane.rank;
    rank.file = lane.file;
    rank.device = lane.device;
    rank.is_host_only = lane.is_host_only;
    rank.has_launches = lane.has_launches;
    rank.clock_offset = matched_.offsets[index];
    rank.active = {SimTime::max(), kStepBegin};
    tasks_.emplace_back();
    // Behind what computes or copies; what communicates leaves the device waiting.
    SimTime busy_until = lane.spans.front().begin + shift;
    for (const LaneSpan& span : lane.spans) {
      const SimTime begin = span.begin + shift, end = span.end + shift;
      const bool waits = !span.is_communication() && IsHostLate(lane, span, busy_until - shift);
      const TaskId wait = waits ? AddHostWait(host, busy_until, begin) : kNoId<TaskId>;
      const TaskId task = AddSpan(index, span, streams[span.stream], begin, end);
      if (waits) {
        graph_.AddDependency(wait, task);
        run_.timeline.bound_by[task] = BoundBy(Bound::kDependency, wait);
      }
      tasks_.back().push_back(task);
      if (!span.is_communication()) busy_until = std::max(busy_until, end);
      rank.active.begin = std::min(rank.active.begin, begin);
      rank.active.end = std::max(rank.active.end, end);
      if (span.is_communication()) {
        ++rank.collectives;
      } else if (!span.is_copy()) {
        ++rank.kernels;
      }
    }
    run_.world_size = std::max(run_.world_size, lane.world_size);
    run_.ranks.push_back(std::move(rank));
  }

  // Had the host not yet called when the device ran out of work? Without a device the thread that
  // computes is the host.
  static bool IsHostLate(const Lane& lane, const LaneSpan& span, SimTime since) {
    if (span.begin <= since) return false;
    if (lane.is_host_only) return true;
    return span.launch && *span.launch >= since;
  }

  TaskId AddHostWait(StreamId host, SimTime begin, SimTime end) {
    const LabelId label = graph_.AddLabel({"host", Site::kNone, Phase::kOther});
    const TaskId task = graph_.AddTask(graph_.AddWork(HostWork{.launches = 1}), label, host);
    Append(begin, end, {KernelClass::kOther, "", KernelRules().size()});
    return task;
  }

  void Append(SimTime begin, SimTime end, KernelKind kind) {
    run_.timeline.start.push_back(begin);
    run_.timeline.end.push_back(end);
    run_.timeline.bound_by.push_back(BoundBy());
    run_.kinds.push_back(kind);
    run_.launched.push_back(SimTime::min());
  }

  TaskId AddSpan(std::size_t index, const LaneSpan& span, StreamId stream, SimTime begin,
                 SimTime end) {
    const Lane& lane = lanes_[index];
    const auto step = std::max(span.step, 0);
    graph_.SetPosition({.microstep = 0, .step = step});
    Label label{lane.names[span.name], Site::kNone, span.phase};
    WorkId work{};
    if (span.is_communication()) {
      const LaneCall& call = lane.calls[span.call];
      label.site = call.site;
      if (!call.label.empty()) label.name = call.label;
      if (call.is_guess) ++run_.guessed_sites;
      work = graph_.AddWork(CollectiveWork{.op = call.op,
                                           .dtype = call.dtype,
                                           .bytes = Bytes{sizes_[index][span.call]},
                                           .group = GroupOf(call)});
    } else {
      work = graph_.AddWork(ComputeWork{.compute_class = ComputeClassOf(span.kind.kernel_class)});
    }
    const TaskId task = graph_.AddTask(work, graph_.AddLabel(label), stream);
    Append(begin, end, span.kind);
    if (span.launch) run_.launched[task] = *span.launch + (begin - span.begin);
    return task;
  }

  // Ranks that are not known are numbered: only their number matters.
  GroupId GroupOf(const LaneCall& call) {
    const auto [known, is_new] = groups_.try_emplace(call.group_key);
    if (!is_new) return known->second;
    constexpr std::int64_t kMostRanks = 1 << 20;
    std::vector<std::int32_t> ranks = call.ranks;
    if (ranks.empty()) {
      const std::int64_t size =
          call.group_size > 0 ? call.group_size : static_cast<std::int64_t>(lanes_.size());
      ranks.resize(static_cast<std::size_t>(std::clamp<std::int64_t>(size, 1, kMostRanks)));
      std::iota(ranks.begin(), ranks.end(), 0);
    }
    return known->second =
               graph_.AddGroup({call.group_name, call.group_description, std::move(ranks)});
  }

  void AddMeetings() {
    for (const LaneMeeting& meeting : matched_.meetings) {
      const RendezvousId rendezvous = graph_.AddRendezvous();
      Meeting met{kStepBegin, kNoId<TaskId>};
      SimTime first_end = SimTime::max();
      for (const auto& [lane, span] : meeting) {
        const TaskId task = tasks_[lane][span];
        graph_.Join(rendezvous, task);
        const SimTime start = run_.timeline.start[task];
        if (met.last_arrival == kNoId<TaskId> || start > met.transfer_start) met = {start, task};
        first_end = std::min(first_end, run_.timeline.end[task]);
      }
      met.transfer_start = std::min(met.transfer_start, first_end);
      run_.timeline.meetings.push_back(met);
    }
    run_.matched_collectives = matched_.meetings.size();
    run_.clock_residual = matched_.residual;
    run_.warnings = matched_.warnings;
  }

  void FinishTimeline() {
    run_.costs = TaskCosts(run_.graph.work_count());
    for (const TaskId t : AllIds<TaskId>(run_.graph.task_count())) {
      const Duration elapsed = run_.timeline.end[t] - run_.timeline.start[t];
      TaskCost& cost = run_.costs[run_.graph.work_id(t)];
      cost.isolated = std::max(cost.isolated, elapsed);
      if (run_.timeline.last_task != kNoId<TaskId> &&
          run_.timeline.end[t] < run_.timeline.makespan) {
        continue;
      }
      if (run_.graph.kind(t) == TaskKind::kHost) continue;
      run_.timeline.makespan = run_.timeline.end[t];
      run_.timeline.last_task = t;
    }
  }

  void AddNotes() {
    if (run_.guessed_sites > 0) {
      run_.notes.push_back(fmt::format(
          "sites of {} calls are guessed from the operation alone: --site PATTERN=SITE says better",
          run_.guessed_sites));
    }
    if (lanes_.size() == 1) {
      run_.notes.emplace_back(
          "one rank: the time of a collective includes waiting for the slowest rank; with the "
          "traces of the other ranks the two are told apart");
    }
  }

  const std::vector<Lane>& lanes_;
  const MatchedLanes& matched_;
  std::vector<Duration> shifts_;
  TaskGraphBuilder graph_;
  RankId rank_{};
  std::vector<std::vector<TaskId>> tasks_;        // by lane and span
  std::vector<std::vector<std::int64_t>> sizes_;  // by lane and call
  std::map<std::string, GroupId> groups_;
  MeasuredRun run_;
};

}  // namespace

MeasuredRun BuildRun(const std::vector<Lane>& lanes, const MatchedLanes& matched) {
  return RunBuilder(lanes, matched).Build();
}

}  // namespace stepsim
