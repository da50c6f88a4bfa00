#include "sim/metrics/segments.h"

#include <algorithm>
#include <map>
#include <span>

#include "sim/base/check.h"

namespace stepsim {
namespace {

void SortByStart(const Timeline& timeline, std::vector<TaskId>* tasks) {
  const auto is_earlier = [&](TaskId a, TaskId b) { return timeline.start[a] < timeline.start[b]; };
  if (std::is_sorted(tasks->begin(), tasks->end(), is_earlier)) return;  // those of one stream
  std::stable_sort(tasks->begin(), tasks->end(), is_earlier);
}

class RankSplitter {
 public:
  RankSplitter(const TaskGraph& graph, const Timeline& timeline, const RankTasks& tasks)
      : graph_(graph),
        timeline_(timeline),
        rank_(tasks.rank),
        pipeline_(tasks.pipeline),
        compute_(tasks.compute),
        transfers_(tasks.transfers) {
    SortByStart(timeline, &compute_);
    SortByStart(timeline, &transfers_);
  }

  std::vector<Segment> Split() {
    SimTime covered = kStepBegin;
    for (const TaskId task : compute_) {
      const SimTime start = timeline_.start[task];
      const SimTime end = timeline_.end[task];
      if (end <= covered) continue;
      if (start > covered) SplitGap(covered, start, task, /*is_tail=*/false);
      segments_.push_back({std::max(start, covered), end, RankState::kCompute, Site::kNone, task});
      covered = end;
    }
    if (covered < timeline_.makespan) {
      SplitGap(covered, timeline_.makespan, timeline_.last_task, /*is_tail=*/true);
    }
    return std::move(segments_);
  }

 private:
  struct Active {
    TaskId task{};
    SimTime stages_arrive{};
    SimTime transfer_start{};
  };

  // [begin, end) without compute. `next` starts at `end`; in the tail it ends the whole step.
  void SplitGap(SimTime begin, SimTime end, TaskId next, bool is_tail) {
    CollectPieces(begin, is_tail ? BoundBy(Bound::kDependency, next) : timeline_.bound_by[next]);
    SIM_CHECK(pieces_.empty() || pieces_.front().end == end,
              "the chain of causes must reach the end of the gap");
    std::vector<SimTime> cuts = {begin, end};
    for (const PathPiece& piece : pieces_) cuts.push_back(std::clamp(piece.begin, begin, end));
    for (const Active& active : TransfersIn(begin, end)) {
      for (const SimTime time : {timeline_.start[active.task], active.stages_arrive,
                                 active.transfer_start, timeline_.end[active.task]}) {
        cuts.push_back(std::clamp(time, begin, end));
      }
    }
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    auto piece = pieces_.rbegin();  // earliest first
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
      while (piece != pieces_.rend() && piece->end <= cuts[i]) ++piece;
      Append(cuts[i], cuts[i + 1], piece == pieces_.rend() ? kNoId<TaskId> : piece->task);
    }
  }

  // What set the pace since `begin`, latest piece first; `cause` is what the end waited for.
  void CollectPieces(SimTime begin, BoundBy cause) {
    pieces_.clear();
    while (cause.bound() != Bound::kBegin) {
      const TaskId task = cause.task();
      pieces_.push_back({task, TransferStart(graph_, timeline_, task), timeline_.end[task]});
      if (pieces_.back().begin <= begin) return;
      cause = CauseOf(graph_, timeline_, task);
    }
  }

  // The rank's transfers that are resident at some moment of [begin, end). Gaps come in time order.
  const std::vector<Active>& TransfersIn(SimTime begin, SimTime end) {
    const auto is_over = [&](const Active& a) { return timeline_.end[a.task] <= begin; };
    active_.erase(std::remove_if(active_.begin(), active_.end(), is_over), active_.end());
    for (; next_transfer_ < transfers_.size(); ++next_transfer_) {
      const TaskId t = transfers_[next_transfer_];
      if (timeline_.start[t] >= end) break;
      if (timeline_.end[t] <= begin) continue;
      active_.push_back(
          {t, StagesArrive(graph_, timeline_, pipeline_, t), TransferStart(graph_, timeline_, t)});
    }
    return active_;
  }

  void Append(SimTime begin, SimTime end, TaskId cause) {
    Segment segment{begin, end, RankState::kIdle, Site::kNone, cause};
    const auto is_resident = [&](const Active& a) {
      return timeline_.start[a.task] <= begin && timeline_.end[a.task] >= end;
    };
    const auto resident = std::find_if(active_.begin(), active_.end(), is_resident);
    const auto transferring = std::find_if(active_.begin(), active_.end(), [&](const Active& a) {
      return is_resident(a) && a.transfer_start <= begin;
    });
    if (transferring != active_.end()) {
      const bool is_cause = cause != kNoId<TaskId> && graph_.kind(cause) == TaskKind::kTransfer;
      if (!is_cause) segment.task = transferring->task;
      segment.state = RankState::kExposed;
      segment.site = graph_.label(segment.task).site;
    } else if (resident != active_.end()) {
      // A stage that waits for another one idles in the bubble, whatever kernel holds the SMs.
      segment.state = resident->stages_arrive > begin ? RankState::kBubble : RankState::kPeerWait;
      segment.task = resident->task;
    } else if (cause != kNoId<TaskId>) {
      segment.state = StateByCause(cause);
    }
    segments_.push_back(segment);
  }

  // Nothing runs on this rank: whose fault is it? That of a neighbour, its host included, that of
  // the own launching thread, or nobody's.
  RankState StateByCause(TaskId cause) const {
    if (graph_.rank(cause) != rank_) return RankState::kBubble;
    return graph_.kind(cause) == TaskKind::kHost ? RankState::kHost : RankState::kIdle;
  }

  const TaskGraph& graph_;
  const Timeline& timeline_;
  RankId rank_;
  const std::vector<RankId>& pipeline_;
  std::vector<TaskId> compute_, transfers_;  // by start
  std::vector<Active> active_;               // transfers of the current gap
  std::size_t next_transfer_ = 0;
  std::vector<PathPiece> pieces_;
  std::vector<Segment> segments_;
};

// Each rank's pipeline by the first of its stages.
class Pipelines {
 public:
  explicit Pipelines(const TaskGraph& graph) : first_(graph.rank_count()) {
    for (const RankId r : AllIds<RankId>(first_.size())) first_[r] = r;
    for (const RendezvousId r : AllIds<RendezvousId>(graph.rendezvous_count())) {
      const std::span<const TaskId> members = graph.members(r);
      if (graph.label(members.front()).site != Site::kPipelineTransfer) continue;
      for (const TaskId member : members) Connect(graph.rank(members.front()), graph.rank(member));
    }
  }

  void AddTo(std::vector<RankTasks>* ranks) {
    std::map<RankId, std::vector<RankId>> stages;
    for (const RankId r : AllIds<RankId>(first_.size())) stages[FirstOf(r)].push_back(r);
    for (const auto& [first, pipeline] : stages) {
      if (pipeline.size() == 1) continue;
      for (const RankId r : pipeline) (*ranks)[Index(r)].pipeline = pipeline;
    }
  }

 private:
  RankId FirstOf(RankId rank) {
    while (first_[rank] != rank) rank = first_[rank] = first_[first_[rank]];
    return rank;
  }
  void Connect(RankId a, RankId b) {
    a = FirstOf(a);
    b = FirstOf(b);
    first_[std::max(a, b)] = std::min(a, b);
  }

  IdVector<RankId, RankId> first_;
};

}  // namespace

SimTime StagesArrive(const TaskGraph& graph, const Timeline& timeline,
                     const std::vector<RankId>& pipeline, TaskId task) {
  SimTime arrive = timeline.start[task];
  const RendezvousId r = graph.rendezvous(task);
  if (r == kNoId<RendezvousId> || pipeline.empty()) return arrive;
  for (const TaskId member : graph.members(r)) {
    const bool is_stage = std::binary_search(pipeline.begin(), pipeline.end(), graph.rank(member));
    if (is_stage) arrive = std::max(arrive, timeline.start[member]);
  }
  return arrive;
}

std::vector<RankTasks> TasksByRank(const TaskGraph& graph) {
  std::vector<RankTasks> ranks(graph.rank_count());
  Pipelines(graph).AddTo(&ranks);
  for (const RankId r : AllIds<RankId>(ranks.size())) ranks[Index(r)].rank = r;
  for (const TaskId t : AllIds<TaskId>(graph.task_count())) {
    RankTasks& rank = ranks[Index(graph.rank(t))];
    if (graph.kind(t) == TaskKind::kCompute) rank.compute.push_back(t);
    if (graph.kind(t) == TaskKind::kTransfer) rank.transfers.push_back(t);
  }
  return ranks;
}

std::vector<Segment> SplitRank(const TaskGraph& graph, const Timeline& timeline,
                               const RankTasks& tasks) {
  return RankSplitter(graph, timeline, tasks).Split();
}

std::vector<Interval> BusyIntervals(const Timeline& timeline, const std::vector<TaskId>& tasks) {
  std::vector<Interval> intervals;
  intervals.reserve(tasks.size());
  for (const TaskId t : tasks) intervals.push_back({timeline.start[t], timeline.end[t]});
  return Union(std::move(intervals));
}

}  // namespace stepsim
