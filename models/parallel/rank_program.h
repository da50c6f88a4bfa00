// What does one rank enqueue, in host order? Reads like the framework that it replays:
//
//   TaskId k = rank.Launch(rank.compute(), copy, {.name = "copy"});
//   rank.Wait(nccl, rank.Record(rank.compute()));      // cudaStreamWaitEvent(nccl, event)
//   TaskId r = rank.LaunchCollective(nccl, all_reduce, {.name = "bucket 0", .site = ...});
//   rank.Wait(rank.compute(), rank.Record(nccl));
//
// An event wait takes effect on the next launch of that stream. With a launch overhead every launch
// is preceded by its time on the rank's host thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/graph/task_graph_builder.h"

namespace stepsim {

// Collectives of one process group meet in launch order: the n-th call of one rank with the n-th
// call of every other simulated rank, as NCCL matches them.
class Meetings {
 public:
  explicit Meetings(std::size_t simulated_ranks) : simulated_ranks_(simulated_ranks) {}
  void Join(TaskGraphBuilder& graph, GroupId group, std::size_t call, TaskId member);

 private:
  std::size_t simulated_ranks_;
  std::map<std::pair<GroupId, std::size_t>, RendezvousId> rendezvous_;
};

// Everything recorded on a stream so far.
struct StreamEvent {
  TaskId last = kNoId<TaskId>;  // kNoId: nothing was there
};

class RankProgram {
 public:
  // `models_host`: launches cost time on a host thread.
  RankProgram(TaskGraphBuilder& graph, Meetings& meetings, RankId rank, bool models_host);

  RankId rank() const { return rank_; }
  StreamId compute() const { return compute_; }
  TaskGraphBuilder& graph() { return graph_; }
  StreamId AddStream(const std::string& name) { return NoteStream(graph_.AddStream(rank_, name)); }
  StreamId AddCommunicator(const std::string& name) {
    return NoteStream(graph_.AddStream(rank_, name, /*is_queue=*/true));
  }

  // Where the program is: recorded with every launch.
  void SetPosition(Phase phase, Position position);
  Phase phase() const { return phase_; }
  void SetPhase(Phase phase) { phase_ = phase; }

  TaskId Launch(StreamId stream, const Work& work, std::string name, Site site = Site::kNone);
  // `communicator`: a queue that this call shares with collectives on other streams (one NCCL
  // communicator runs its calls in launch order); kNoId where the stream has it to itself.
  TaskId LaunchCollective(StreamId stream, const CollectiveWork& work, std::string name, Site site,
                          StreamId communicator = kNoId<StreamId>);
  // Time on the host thread alone; does nothing when the host is not modelled.
  void RunOnHost(const HostWork& work, std::string name);

  // The host waits for an event (cudaEventSynchronize): nothing launched from here on, on whatever
  // stream, starts before it.
  void BlockHost(StreamEvent event);

  StreamEvent Record(StreamId stream) const { return {graph_.last_on(stream)}; }
  void Wait(StreamId stream, StreamEvent event);

 private:
  StreamId NoteStream(StreamId stream);
  void AddWaits(StreamId stream, TaskId task);
  TaskId AddTask(StreamId stream, const Work& work, std::string name, Site site,
                 StreamId queue = kNoId<StreamId>);
  TaskId LaunchOn(StreamId stream, StreamId queue, const Work& work, std::string name, Site site);

  TaskGraphBuilder& graph_;
  Meetings& meetings_;
  RankId rank_;
  std::map<StreamId, std::vector<TaskId>> waits_;  // events that the next launch waits for
  StreamId host_ = kNoId<StreamId>;
  StreamId compute_;
  std::map<GroupId, std::size_t> calls_;  // collectives issued so far, per group
  Phase phase_ = Phase::kOther;
  Position position_;
};

}  // namespace stepsim
