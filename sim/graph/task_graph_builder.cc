#include "sim/graph/task_graph_builder.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/diagnostics.h"
#include "sim/graph/task_limit.h"

namespace stepsim {
namespace {

// Sorts (key, value) pairs by key into CSR form; values with equal keys keep their order.
// `for_each` calls its argument with every pair, the same each time.
template <class Value, class ForEach>
void ToCsr(std::size_t keys, ForEach for_each, auto* begin, auto* values) {
  // Counts lie two places on, so that begin[k + 1] is the place to fill next and ends as the begin
  // of k + 1.
  begin->assign(keys + 2, 0);
  std::size_t total = 0;
  for_each([&](std::size_t key, const Value&) { ++(*begin)[key + 2], ++total; });
  if (total > std::numeric_limits<std::uint32_t>::max()) {
    throw SimulationError("more than 4 x 10^9 dependencies in one graph");
  }
  for (std::size_t i = 2; i < begin->size(); ++i) (*begin)[i] += (*begin)[i - 1];
  values->resize(total);
  for_each([&](std::size_t key, const Value& value) { (*values)[(*begin)[key + 1]++] = value; });
  begin->pop_back();
}

// Calls visit(task, next task) for the neighbours on every stream, in the order of the later one.
template <class Visit>
void ForEachStreamNeighbours(const TaskGraph& graph, Visit visit) {
  IdVector<StreamId, TaskId> last(graph.stream_count(), kNoId<TaskId>);
  for (const TaskId t : AllIds<TaskId>(graph.task_count())) {
    TaskId seen = kNoId<TaskId>;  // two kernels that share two streams need one edge
    for (const StreamId s : graph.streams(t)) {
      if (last[s] != kNoId<TaskId> && last[s] != seen) visit(last[s], t);
      seen = std::exchange(last[s], t);
    }
  }
}

}  // namespace

void TaskGraphBuilder::Reserve(std::size_t tasks, std::size_t dependencies) {
  graph_.tasks_.reserve(tasks);
  dependencies_.reserve(dependencies);
}

RankId TaskGraphBuilder::AddRank(RankInfo info) { return graph_.ranks_.push_back(std::move(info)); }

StreamId TaskGraphBuilder::AddStream(RankId rank, std::string name, bool is_queue) {
  SIM_CHECK(Index(rank) < graph_.ranks_.size(), "AddStream: unknown rank");
  last_on_stream_.push_back(kNoId<TaskId>);
  return graph_.streams_.push_back({rank, std::move(name), is_queue});
}

GroupId TaskGraphBuilder::AddGroup(ProcessGroup group) {
  return graph_.groups_.push_back(std::move(group));
}

WorkId TaskGraphBuilder::AddWork(const Work& work) {
  const auto [position, is_new] = work_ids_.try_emplace(work, WorkId{});
  if (is_new) {
    position->second = graph_.works_.push_back(work);
    graph_.kinds_.push_back(KindOf(work));
  }
  return position->second;
}

LabelId TaskGraphBuilder::AddLabel(const Label& label) {
  const auto [position, is_new] = label_ids_.try_emplace(label, LabelId{});
  if (is_new) position->second = graph_.labels_.push_back(label);
  return position->second;
}

void TaskGraphBuilder::SetPosition(Position position) {
  std::vector<Position>& known = graph_.positions_;
  if (known.empty()) {
    known.push_back({});
    position_ids_.emplace(Position{}, 0);
  }
  if (known[position_] == position) return;
  const auto index = static_cast<std::uint32_t>(known.size());
  const auto [found, is_new] = position_ids_.try_emplace(position, index);
  if (is_new) known.push_back(position);
  position_ = found->second;
}

TaskId TaskGraphBuilder::AddTask(WorkId work, LabelId label, StreamId stream) {
  SIM_CHECK(Index(stream) < graph_.streams_.size(), "AddTask: unknown stream");
  if (graph_.task_count() >= kMaxTasks) throw SimulationError("more than 10^9 tasks in one graph");
  SIM_CHECK(graph_.kinds_[work] != TaskKind::kTransfer || graph_.labels_[label].site != Site::kNone,
            "a transfer needs a site: exposed time is accounted by it");
  const TaskId task = graph_.tasks_.push_back({work, label, stream});
  if (position_ != 0 || !graph_.positions_of_.empty()) {
    // The first task elsewhere than at the begin makes the table; those before it are at index 0.
    while (graph_.positions_of_.size() < Index(task)) graph_.positions_of_.push_back(0);
    graph_.positions_of_.push_back(position_);
  }
  last_on_stream_[stream] = task;
  return task;
}

TaskId TaskGraphBuilder::AddTask(WorkId work, LabelId label, std::span<const StreamId> streams) {
  SIM_CHECK(!streams.empty(), "a task needs a stream");
  const TaskId task = AddTask(work, label, streams.front());
  if (streams.size() == 1) return task;
  if (graph_.multi_stream_begin_.empty()) graph_.multi_stream_begin_.push_back(0);
  const auto entry = static_cast<std::uint32_t>(graph_.multi_stream_begin_.size() - 1);
  graph_.tasks_[task].stream = StreamId{entry | TaskGraph::kMultiStreamBit};
  const RankId rank = graph_.streams_[streams.front()].rank;
  for (std::size_t i = 0; i < streams.size(); ++i) {
    SIM_CHECK(graph_.streams_[streams[i]].rank == rank, "a task occupies streams of one rank");
    SIM_CHECK(std::count(streams.begin(), streams.end(), streams[i]) == 1,
              "a task occupies a stream once");
    graph_.multi_streams_.push_back(streams[i]);
    last_on_stream_[streams[i]] = task;
  }
  graph_.multi_stream_begin_.push_back(static_cast<std::uint32_t>(graph_.multi_streams_.size()));
  return task;
}

void TaskGraphBuilder::AddDependency(TaskId before, TaskId after) {
  dependencies_.push_back({before, after});
}

RendezvousId TaskGraphBuilder::AddRendezvous() { return RendezvousId{rendezvous_count_++}; }

void TaskGraphBuilder::Join(RendezvousId rendezvous, TaskId member) {
  joins_.emplace_back(rendezvous, member);
}

std::uint8_t TaskGraphBuilder::CategoryIndex(const std::string& category) {
  auto& names = graph_.memory_categories_;
  auto found = std::find(names.begin(), names.end(), category);
  if (found == names.end()) {
    SIM_CHECK(names.size() < 255, "too many memory categories");
    found = names.insert(names.end(), category);
  }
  return static_cast<std::uint8_t>(found - names.begin());
}

void TaskGraphBuilder::AddMemoryEvent(TaskId task, bool at_end, const std::string& category,
                                      Bytes delta) {
  if (delta.value == 0) return;
  graph_.memory_events_.push_back({task, at_end, CategoryIndex(category), delta});
}

void TaskGraphBuilder::AddResidentMemory(RankId rank, const std::string& category, Bytes bytes) {
  const std::size_t index = CategoryIndex(category);
  auto& table = graph_.resident_memory_;
  if (table.size() <= Index(rank)) table.resize(Index(rank) + 1);
  if (table[Index(rank)].size() <= index) table[Index(rank)].resize(index + 1);
  table[Index(rank)][index] += bytes;
}

void TaskGraphBuilder::CheckRendezvous() const {
  for (const RendezvousId r : AllIds<RendezvousId>(rendezvous_count_)) {
    const auto members = graph_.members(r);
    SIM_CHECK(!members.empty(), "a rendezvous without members");
    std::vector<RankId> ranks;
    for (const TaskId member : members) {
      SIM_CHECK(graph_.work_id(member) == graph_.work_id(members.front()),
                "the members of a rendezvous must do the same work");
      ranks.push_back(graph_.rank(member));
    }
    std::sort(ranks.begin(), ranks.end());
    SIM_CHECK(std::adjacent_find(ranks.begin(), ranks.end()) == ranks.end(),
              "the members of a rendezvous must lie on different ranks");
  }
}

void TaskGraphBuilder::BuildEdges() {
  const std::size_t tasks = graph_.task_count();
  for (const Dependency& d : dependencies_) {
    SIM_CHECK(Index(d.before) < tasks && Index(d.after) < tasks,
              "a dependency names an unknown task");
  }
  ToCsr<Edge>(
      tasks,
      [&](auto visit) {
        ForEachStreamNeighbours(graph_, [&](TaskId before, TaskId after) {
          visit(Index(before), Edge(after, /*is_stream_order=*/true));
        });
        for (const Dependency& d : dependencies_) {
          visit(Index(d.before), Edge(d.after, /*is_stream_order=*/false));
        }
      },
      &graph_.successors_begin_, &graph_.edges_);
  dependencies_ = {};
}

void TaskGraphBuilder::BuildRendezvous() {
  if (rendezvous_count_ == 0) return;
  for (const auto& [rendezvous, member] : joins_) {
    SIM_CHECK(Index(rendezvous) < rendezvous_count_ && Index(member) < graph_.task_count(),
              "an unknown task or rendezvous joins");
    SIM_CHECK(graph_.tasks_[member].rendezvous == kNoId<RendezvousId>,
              "a task joins at most one rendezvous");
    graph_.tasks_[member].rendezvous = rendezvous;
  }
  ToCsr<TaskId>(
      rendezvous_count_,
      [&](auto visit) {
        for (const auto& [rendezvous, member] : joins_) visit(Index(rendezvous), member);
      },
      &graph_.members_begin_, &graph_.members_);
  CheckRendezvous();
}

TaskGraph TaskGraphBuilder::Build() && {
  BuildEdges();
  BuildRendezvous();
  return std::move(graph_);
}

}  // namespace stepsim
