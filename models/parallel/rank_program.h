// What does one rank enqueue, in host order? Reads like the framework that it replays:
//
//   TaskId k = rank.Launch(rank.compute(), copy, {.name = "copy"});
//   rank.Wait(nccl, rank.Record(rank.compute()));      // cudaStreamWaitEvent(nccl, event)
//   TaskId r = rank.LaunchCollective(nccl, all_reduce, {.name = "bucket 0", .site = ...});
//   rank.Wait(rank.compute(), rank.Record(nccl));
//
// An event wait takes effect on the next launch of that stream. What the launches cost and how the
// device orders them follows from the LaunchModel.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "models/parallel/launch_queues.h"
#include "models/spec/rank_pace.h"
#include "sim/graph/task_graph_builder.h"

namespace stepsim {

// Collectives of one process group meet in launch order: the n-th call of one rank with the n-th
// call of every other simulated rank of the group, as NCCL matches them.
class Meetings {
 public:
  // `simulated`: global ranks, ascending.
  explicit Meetings(std::vector<std::int32_t> simulated) : simulated_(std::move(simulated)) {}
  void Join(TaskGraphBuilder& graph, GroupId group, std::size_t call, TaskId member);
  // The two ends of a transfer between the ranks of a group, matched by what they move.
  void JoinTransfer(TaskGraphBuilder& graph, GroupId group, std::int64_t key, TaskId member);

 private:
  bool HasPeers(const TaskGraphBuilder& graph, GroupId group);

  std::vector<std::int32_t> simulated_;
  std::map<GroupId, bool> has_peers_;
  std::map<std::pair<GroupId, std::size_t>, RendezvousId> rendezvous_;
  std::map<std::pair<GroupId, std::int64_t>, RendezvousId> transfers_;
};

// The kernels that do one thing, in launch order; kNoId: there are none.
struct TaskSpan {
  TaskId first = kNoId<TaskId>;
  TaskId last = kNoId<TaskId>;
};

struct LaunchModel {
  bool has_host = false;          // every launch is a task on the rank's host thread
  bool has_handovers = false;     // an event takes time from one stream to another
  bool captures_graphs = false;   // launches belong to the CUDA graph begun last
  std::int64_t connections = 32;  // hardware queues (launch_queues.h)
  RankPace pace;                  // of the compute kernels, by micro-step
};

// Everything recorded on a stream so far.
struct StreamEvent {
  TaskId last = kNoId<TaskId>;  // kNoId: nothing was there
  StreamId stream = kNoId<StreamId>;
  std::vector<StreamEvent> waits;  // of the stream, behind `last`: the event comes after them, too
};

class RankProgram {
 public:
  RankProgram(TaskGraphBuilder& graph, Meetings& meetings, RankId rank, const LaunchModel& model);

  RankId rank() const { return rank_; }
  // The stream that kernels go to: that of compute, but for the life of an OnStream.
  StreamId compute() const { return current_; }
  class OnStream {
   public:
    OnStream(RankProgram& rank, StreamId stream)
        : rank_(rank), before_(std::exchange(rank.current_, stream)) {}
    ~OnStream() { rank_.current_ = before_; }
    OnStream(const OnStream&) = delete;
    OnStream& operator=(const OnStream&) = delete;

   private:
    RankProgram& rank_;
    StreamId before_;
  };
  TaskGraphBuilder& graph() { return graph_; }
  // `has_queue`: launches on it stand in one of the hardware queues.
  // One that has been added by this name before is shared: model chunks of one rank have theirs in
  // common, as they do in a process.
  StreamId AddStream(const std::string& name, bool has_queue = true);
  // A queue that is no stream of its own: NCCL's order of the calls of one communicator.
  StreamId AddCommunicator(const std::string& name);

  // Where the program is: recorded with every launch.
  void SetPosition(Phase phase, Position position);
  Phase phase() const { return phase_; }
  void SetPhase(Phase phase) { phase_ = phase; }

  TaskId Launch(StreamId stream, const Work& work, std::string name, Site site = Site::kNone);
  // `communicator`: a queue that this call shares with collectives on other streams (one NCCL
  // communicator runs its calls in launch order); kNoId where the stream has it to itself.
  TaskId LaunchCollective(StreamId stream, const CollectiveWork& work, std::string name, Site site,
                          StreamId communicator = kNoId<StreamId>);
  // A copy between this rank's memory and a peer's: not a call that the peers join. Those of one
  // `engine` (AddCommunicator) run one after the other in launch order.
  TaskId LaunchCopy(StreamId stream, const CollectiveWork& work, std::string name, Site site,
                    StreamId engine) {
    return LaunchOn(stream, engine, work, std::move(name), site);
  }
  // The same, of what the stream made last: the collective depends on it, not only on its place.
  TaskId LaunchCollectiveOfLast(StreamId stream, const CollectiveWork& work, std::string name,
                                Site site, StreamId communicator = kNoId<StreamId>);
  // One end of a transfer between two ranks, which meet by `key`.
  TaskId LaunchTransfer(StreamId stream, const CollectiveWork& work, std::string name,
                        std::int64_t key);
  // Time on the host thread alone.
  void RunOnHost(const HostWork& work, std::string name);
  // A step begins: its host has waited for nothing yet.
  void BeginStep() { host_point_ = Record(current_); }
  // What-if: while on, launches cost the host nothing and stand in no hardware queue.
  void LaunchBeforehand(bool on) { is_beforehand_ = on; }
  // The launches that follow are nodes of one CUDA graph. Does nothing when none are captured.
  void BeginGraph();
  // The host waits until the device has done everything that was launched.
  void Synchronize();

  // The host waits for an event (cudaEventSynchronize): nothing launched from here on, on whatever
  // stream, starts before it.
  void BlockHost(StreamEvent event);

  // The same, for everything that the device has been given (cudaDeviceSynchronize).
  void BlockHostOnDevice();

  // Memory for `task` that the host takes as it launches it, however long before the device comes
  // to it. A host that is always ahead does that as soon as what it waited for last (BlockHost) is
  // over, else at the begin of the step, but never more launches ahead than the driver's queue
  // holds.
  void AllocateAtLaunch(TaskId task, const std::string& category, Bytes bytes);

  StreamEvent Record(StreamId stream) const;
  void Wait(StreamId stream, StreamEvent event);

  // Process groups that have been used so far: a communicator each.
  std::size_t communicator_count() const { return calls_.size() + (has_transfers_ ? 1 : 0); }

  // All that the host thread has done so far, modelled as tasks or not.
  const HostWork& host_work() const { return host_work_; }

 private:
  struct Stream {
    std::string name;
    std::vector<StreamEvent> waits;       // what the next launch waits for
    StreamId events = kNoId<StreamId>;    // where the hand-overs to it take their time
    TaskId graph_launch = kNoId<TaskId>;  // of the CUDA graph that its last kernel belongs to
  };

  TaskId AddTask(StreamId stream, const Work& work, std::string name, Site site,
                 StreamId queue = kNoId<StreamId>);
  WorkId AddWork(const Work& work);
  TaskId LaunchOn(StreamId stream, StreamId queue, const Work& work, std::string name, Site site);
  TaskId AddHostTask(const HostWork& work, std::string name);
  static void AddWait(std::vector<StreamEvent>& waits, StreamEvent event);
  void Count(const HostWork& work);
  TaskId LaunchFromHost(Stream& stream, const Work& work);
  StreamEvent HandOver(StreamId events, const StreamEvent& event);
  void Queue(TaskId task);

  TaskGraphBuilder& graph_;
  Meetings& meetings_;
  RankId rank_;
  LaunchModel model_;
  LaunchQueues queues_;
  std::map<StreamId, Stream> streams_;
  std::map<std::string, StreamId> named_;
  StreamId host_ = kNoId<StreamId>;
  StreamId current_;
  TaskId graph_launch_ = kNoId<TaskId>;   // of the CUDA graph begun last
  std::map<GroupId, std::size_t> calls_;  // collectives issued so far, per group
  Phase phase_ = Phase::kOther;
  Position position_;
  std::int32_t pace_;
  HostWork host_work_;
  std::vector<StreamEvent> host_waits_;  // what the host thread waits for before it goes on
  StreamEvent host_point_;               // what a host that is ahead has waited for
  std::deque<std::pair<std::int64_t, TaskId>> queued_;  // launches up to a task that may wait yet
  TaskId dequeued_ = kNoId<TaskId>;    // begun before a host that is ahead can launch
  TaskId first_task_ = kNoId<TaskId>;  // of the rank
  bool is_beforehand_ = false;
  bool has_transfers_ = false;  // between pipeline stages: one communicator more
};

}  // namespace stepsim
