#include "sim/graph/task_graph_builder.h"

#include <algorithm>
#include <cstdint>

#include "sim/base/check.h"
#include "sim/base/diagnostics.h"
#include "sim/graph/task_limit.h"

namespace stepsim {
namespace {

// Counting sort of (from, item) pairs into CSR form; keeps the order of items with equal keys.
template <class Item, class KeyOf, class ValueOf>
void ToCsr(std::size_t keys, const std::vector<Item>& items, KeyOf key_of, ValueOf value_of,
           std::vector<std::uint32_t>* begin, auto* values) {
  begin->assign(keys + 1, 0);
  for (const Item& item : items) ++(*begin)[key_of(item) + 1];
  for (std::size_t i = 0; i < keys; ++i) (*begin)[i + 1] += (*begin)[i];
  values->resize(items.size());
  // Fill from the back of each bucket, then the offsets are the begins again.
  for (auto item = items.rbegin(); item != items.rend(); ++item) {
    (*values)[--(*begin)[key_of(*item) + 1]] = value_of(*item);
  }
  // Each begin[k + 1] now holds the begin of k: shift down.
  for (std::size_t i = 0; i < keys; ++i) (*begin)[i] = (*begin)[i + 1];
  (*begin)[keys] = static_cast<std::uint32_t>(items.size());
}

}  // namespace

void TaskGraphBuilder::Reserve(std::size_t tasks, std::size_t dependencies) {
  graph_.works_of_.reserve(tasks);
  graph_.labels_of_.reserve(tasks);
  graph_.stream_of_.reserve(tasks);
  pending_.reserve(tasks + dependencies);
}

RankId TaskGraphBuilder::AddRank(RankInfo info) { return graph_.ranks_.push_back(info); }

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

TaskId TaskGraphBuilder::AddTask(WorkId work, LabelId label, StreamId stream) {
  SIM_CHECK(Index(stream) < graph_.streams_.size(), "AddTask: unknown stream");
  if (graph_.task_count() >= kMaxTasks) throw SimulationError("more than 10^9 tasks in one graph");
  SIM_CHECK(graph_.kinds_[work] != TaskKind::kTransfer || graph_.labels_[label].site != Site::kNone,
            "a transfer needs a site: exposed time is accounted by it");
  const TaskId task = graph_.works_of_.push_back(work);
  graph_.labels_of_.push_back(label);
  graph_.stream_of_.push_back(stream);
  AppendToStream(task, stream);
  return task;
}

TaskId TaskGraphBuilder::AddTask(WorkId work, LabelId label, std::span<const StreamId> streams) {
  SIM_CHECK(!streams.empty(), "a task needs a stream");
  const TaskId task = AddTask(work, label, streams.front());
  if (streams.size() == 1) return task;
  if (graph_.multi_stream_begin_.empty()) graph_.multi_stream_begin_.push_back(0);
  const auto entry = static_cast<std::uint32_t>(graph_.multi_stream_begin_.size() - 1);
  graph_.stream_of_[task] = StreamId{entry | TaskGraph::kMultiStreamBit};
  const RankId rank = graph_.streams_[streams.front()].rank;
  for (std::size_t i = 0; i < streams.size(); ++i) {
    SIM_CHECK(graph_.streams_[streams[i]].rank == rank, "a task occupies streams of one rank");
    SIM_CHECK(std::count(streams.begin(), streams.end(), streams[i]) == 1,
              "a task occupies a stream once");
    graph_.multi_streams_.push_back(streams[i]);
    if (i > 0) AppendToStream(task, streams[i]);
  }
  graph_.multi_stream_begin_.push_back(static_cast<std::uint32_t>(graph_.multi_streams_.size()));
  return task;
}

void TaskGraphBuilder::AppendToStream(TaskId task, StreamId stream) {
  TaskId& last = last_on_stream_[stream];
  if (last != kNoId<TaskId>) pending_.push_back({last, Edge(task, /*is_stream_order=*/true)});
  last = task;
}

void TaskGraphBuilder::AddDependency(TaskId before, TaskId after) {
  pending_.push_back({before, Edge(after, /*is_stream_order=*/false)});
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

TaskGraph TaskGraphBuilder::Build() && {
  const std::size_t tasks = graph_.task_count();
  for (const PendingEdge& edge : pending_) {
    SIM_CHECK(Index(edge.from) < tasks && Index(edge.edge.to()) < tasks,
              "a dependency names an unknown task");
  }
  ToCsr(
      tasks, pending_, [](const PendingEdge& e) { return Index(e.from); },
      [](const PendingEdge& e) { return e.edge; }, &graph_.successors_begin_, &graph_.edges_);
  pending_ = {};
  if (rendezvous_count_ > 0) {
    graph_.rendezvous_of_ = IdVector<TaskId, RendezvousId>(tasks, kNoId<RendezvousId>);
    for (const auto& [rendezvous, member] : joins_) {
      SIM_CHECK(graph_.rendezvous_of_[member] == kNoId<RendezvousId>,
                "a task joins at most one rendezvous");
      graph_.rendezvous_of_[member] = rendezvous;
    }
    ToCsr(
        rendezvous_count_, joins_, [](const auto& join) { return Index(join.first); },
        [](const auto& join) { return join.second; }, &graph_.members_begin_, &graph_.members_);
    CheckRendezvous();
  }
  return std::move(graph_);
}

}  // namespace stepsim
