#include "models/parallel/rank_program.h"

#include <algorithm>
#include <array>
#include <utility>

namespace stepsim {
namespace {

// A collective of the library; copies and barriers in symmetric memory are launched like kernels.
bool IsLibraryCall(const Work& work) {
  const auto* collective = std::get_if<CollectiveWork>(&work);
  return collective == nullptr ||
         (collective->op != CollectiveOp::kPeerCopy && collective->op != CollectiveOp::kBarrier);
}

}  // namespace

// Does a simulated rank of the group meet another one?
bool Meetings::HasPeers(const TaskGraphBuilder& graph, GroupId group) {
  const auto [known, is_new] = has_peers_.try_emplace(group, false);
  if (!is_new) return known->second;
  const auto is_simulated = [&](std::int32_t rank) {
    return std::binary_search(simulated_.begin(), simulated_.end(), rank);
  };
  const std::vector<std::int32_t>& ranks = graph.group(group).ranks;
  return known->second = std::count_if(ranks.begin(), ranks.end(), is_simulated) > 1;
}

void Meetings::Join(TaskGraphBuilder& graph, GroupId group, std::size_t call, TaskId member) {
  // A folded rank meets nobody.
  if (simulated_.size() == 1 || !HasPeers(graph, group)) return;
  const auto [position, is_new] = rendezvous_.try_emplace({group, call}, RendezvousId{});
  if (is_new) position->second = graph.AddRendezvous();
  graph.Join(position->second, member);
}

void Meetings::JoinTransfer(TaskGraphBuilder& graph, GroupId group, std::int64_t key,
                            TaskId member) {
  const auto [position, is_new] = transfers_.try_emplace({group, key}, RendezvousId{});
  if (is_new) position->second = graph.AddRendezvous();
  graph.Join(position->second, member);
}

RankProgram::RankProgram(TaskGraphBuilder& graph, Meetings& meetings, RankId rank,
                         const LaunchModel& model)
    : graph_(graph),
      meetings_(meetings),
      rank_(rank),
      model_(model),
      queues_(model.connections),
      current_(AddStream("compute")),
      pace_(model.pace.At(0, 0)) {
  if (model.has_host) host_ = graph_.AddStream(rank_, "host");
}

StreamId RankProgram::AddStream(const std::string& name, bool has_queue) {
  const auto [known, is_new] = named_.try_emplace(name, StreamId{});
  if (!is_new) return known->second;
  const StreamId stream = known->second = graph_.AddStream(rank_, name);
  streams_[stream].name = name;
  if (has_queue) queues_.AddStream(stream);
  return stream;
}

StreamId RankProgram::AddCommunicator(const std::string& name) {
  const auto [known, is_new] = named_.try_emplace(name, StreamId{});
  if (is_new) known->second = graph_.AddStream(rank_, name, /*is_queue=*/true);
  return known->second;
}

void RankProgram::SetPosition(Phase phase, Position position) {
  phase_ = phase;
  position_ = position;
  pace_ = model_.pace.At(position.step, position.microstep);
}

TaskId RankProgram::AddTask(StreamId stream, const Work& work, std::string name, Site site,
                            StreamId queue) {
  graph_.SetPosition(position_);
  const LabelId label = graph_.AddLabel({std::move(name), site, phase_});
  if (queue == kNoId<StreamId>) return graph_.AddTask(AddWork(work), label, stream);
  return graph_.AddTask(AddWork(work), label, std::array{stream, queue});
}

// Kernels of a slow rank are works of their own.
WorkId RankProgram::AddWork(const Work& work) {
  const auto* kernel = std::get_if<ComputeWork>(&work);
  if (kernel == nullptr || pace_ == kNormalPace) return graph_.AddWork(work);
  ComputeWork slow = *kernel;
  slow.pace = pace_;
  return graph_.AddWork(slow);
}

void RankProgram::Count(const HostWork& work) {
  host_work_.launches += work.launches;
  host_work_.graph_nodes += work.graph_nodes;
  host_work_.collective_calls += work.collective_calls;
  host_work_.graph_launches += work.graph_launches;
}

// What the host does for one kernel. Returns what the kernel waits for, kNoId for nothing.
TaskId RankProgram::LaunchFromHost(Stream& stream, const Work& work) {
  if (is_beforehand_) return kNoId<TaskId>;
  if (model_.captures_graphs) {
    return std::exchange(stream.graph_launch, graph_launch_) == graph_launch_ ? kNoId<TaskId>
                                                                              : graph_launch_;
  }
  HostWork host;
  if (const auto* kernel = std::get_if<ComputeWork>(&work)) {
    host.launches = kernel->kernels;
  } else if (IsLibraryCall(work)) {
    host.collective_calls = 1;
  } else {
    host.launches = 1;
  }
  const bool is_launched =
      host.launches + host.collective_calls > 0;  // else: inside another kernel
  Count(host);
  return host_ == kNoId<StreamId> || !is_launched ? kNoId<TaskId> : AddHostTask(host, "launch");
}

// The event's way takes its time beside the streams: it uses nothing of the device.
StreamEvent RankProgram::HandOver(StreamId events, const StreamEvent& event) {
  const TaskId task = AddTask(events, HostWork{.handovers = 1}, "event", Site::kNone);
  graph_.AddDependency(event.last, task);
  return {task, events, {}};
}

// With this many launches that the device has not begun, the next one blocks the host thread.
void RankProgram::Queue(TaskId task) {
  constexpr std::int64_t kQueueLength = 1024;
  const std::int64_t launches = host_work_.launches + host_work_.collective_calls;
  queued_.emplace_back(launches, task);
  for (; queued_.front().first + kQueueLength <= launches; queued_.pop_front()) {
    dequeued_ = queued_.front().second;
  }
}

TaskId RankProgram::Launch(StreamId stream, const Work& work, std::string name, Site site) {
  return LaunchOn(stream, kNoId<StreamId>, work, std::move(name), site);
}

TaskId RankProgram::LaunchOn(StreamId stream, StreamId queue, const Work& work, std::string name,
                             Site site) {
  Stream& state = streams_.at(stream);
  const TaskId launch = LaunchFromHost(state, work);
  if (model_.has_handovers) {
    for (StreamEvent& event : state.waits) {
      if (state.events == kNoId<StreamId>)
        state.events = graph_.AddStream(rank_, "events to " + state.name);
      event = HandOver(state.events, event);
    }
  }
  std::vector<StreamEvent> waits = std::exchange(state.waits, {});
  const StreamEvent previous = Record(stream);
  const TaskId task = AddTask(stream, work, std::move(name), site, queue);
  if (first_task_ == kNoId<TaskId>) first_task_ = task;
  Queue(task);
  if (launch != kNoId<TaskId>) graph_.AddDependency(launch, task);
  for (const StreamEvent& event : waits) graph_.AddDependency(event.last, task);
  if (queues_.are_shared() && !is_beforehand_) {
    LaunchQueues::Before before;
    if (previous.last != kNoId<TaskId>) before[stream] = previous.last;
    for (const StreamEvent& event : waits) {
      const auto [known, is_new] = before.emplace(event.stream, event.last);
      if (Index(known->second) < Index(event.last)) known->second = event.last;
    }
    for (const TaskId other : queues_.Launch(stream, std::move(before))) {
      graph_.AddDependency(other, task);
    }
  }
  return task;
}

TaskId RankProgram::LaunchCollective(StreamId stream, const CollectiveWork& work, std::string name,
                                     Site site, StreamId communicator) {
  const TaskId task = LaunchOn(stream, communicator, work, std::move(name), site);
  meetings_.Join(graph_, work.group, calls_[work.group]++, task);
  return task;
}

TaskId RankProgram::LaunchCollectiveOfLast(StreamId stream, const CollectiveWork& work,
                                           std::string name, Site site, StreamId communicator) {
  const TaskId made = Record(stream).last;
  const TaskId task = LaunchCollective(stream, work, std::move(name), site, communicator);
  if (made != kNoId<TaskId>) graph_.AddDependency(made, task);
  return task;
}

TaskId RankProgram::LaunchTransfer(StreamId stream, const CollectiveWork& work, std::string name,
                                   std::int64_t key) {
  const TaskId task =
      LaunchOn(stream, kNoId<StreamId>, work, std::move(name), Site::kPipelineTransfer);
  has_transfers_ = true;
  meetings_.JoinTransfer(graph_, work.group, key, task);
  return task;
}

void RankProgram::RunOnHost(const HostWork& work, std::string name) {
  Count(work);
  if (host_ != kNoId<StreamId>) AddHostTask(work, std::move(name));
}

// On the host thread, behind what the host waits for.
TaskId RankProgram::AddHostTask(const HostWork& work, std::string name) {
  const TaskId task = AddTask(host_, work, std::move(name), Site::kNone);
  for (const StreamEvent& event : std::exchange(host_waits_, {})) {
    graph_.AddDependency(event.last, task);
  }
  return task;
}

// Of two events of one stream the later one is enough.
void RankProgram::AddWait(std::vector<StreamEvent>& waits, StreamEvent event) {
  for (StreamEvent& wait : waits) {
    if (wait.stream != event.stream) continue;
    if (Index(wait.last) < Index(event.last)) wait.last = event.last;
    return;
  }
  waits.push_back(event);
}

void RankProgram::BlockHost(StreamEvent event) {
  for (const StreamEvent& wait : event.waits) BlockHost(wait);
  if (event.last == kNoId<TaskId>) return;
  event.waits.clear();
  if (host_ != kNoId<StreamId>) return AddWait(host_waits_, std::move(event));
  const TaskId before = host_point_.last;
  if (before == kNoId<TaskId> || Index(before) < Index(event.last)) host_point_ = event;
  for (auto& [stream, state] : streams_) AddWait(state.waits, event);
}

void RankProgram::BlockHostOnDevice() {
  std::vector<StreamEvent> events;
  for (const auto& [stream, state] : streams_) events.push_back(Record(stream));
  for (StreamEvent& event : events) BlockHost(std::move(event));
}

void RankProgram::AllocateAtLaunch(TaskId task, const std::string& category, Bytes bytes) {
  const TaskId launch = host_ == kNoId<StreamId> ? kNoId<TaskId> : graph_.last_on(host_);
  if (launch != kNoId<TaskId>) {
    graph_.AddMemoryEvent(launch, /*at_end=*/false, category, bytes);
  } else if (host_ == kNoId<StreamId> && dequeued_ != kNoId<TaskId> &&
             (host_point_.last == kNoId<TaskId> || Index(host_point_.last) < Index(dequeued_))) {
    graph_.AddMemoryEvent(dequeued_, /*at_end=*/false, category, bytes);
  } else if (host_ == kNoId<StreamId> && host_point_.last != kNoId<TaskId>) {
    graph_.AddMemoryEvent(host_point_.last, /*at_end=*/true, category, bytes);
  } else {
    graph_.AddMemoryEvent(first_task_ == kNoId<TaskId> ? task : first_task_, /*at_end=*/false,
                          category, bytes);
  }
}

void RankProgram::BeginGraph() {
  if (!model_.captures_graphs) return;
  const HostWork launch{.graph_launches = 1};
  Count(launch);
  if (host_ == kNoId<StreamId>) return;
  graph_launch_ = AddHostTask(launch, "graph launch");
}

void RankProgram::Synchronize() {
  if (host_ == kNoId<StreamId>) return;
  const TaskId task = AddHostTask(HostWork{}, "synchronize");
  for (const auto& [stream, state] : streams_) {
    const StreamEvent event = Record(stream);
    if (event.last != kNoId<TaskId>) graph_.AddDependency(event.last, task);
  }
}

StreamEvent RankProgram::Record(StreamId stream) const {
  return {graph_.last_on(stream), stream, streams_.at(stream).waits};
}

void RankProgram::Wait(StreamId stream, StreamEvent event) {
  std::vector<StreamEvent>& waits = streams_.at(stream).waits;
  const std::vector<StreamEvent> behind = std::exchange(event.waits, {});
  const auto is_own = [&](const StreamEvent& e) { return e.stream == stream; };  // in order anyway
  if (event.last != kNoId<TaskId> && !is_own(event)) waits.push_back(std::move(event));
  for (const StreamEvent& wait : behind) {
    if (!is_own(wait)) AddWait(waits, wait);
  }
}

}  // namespace stepsim
