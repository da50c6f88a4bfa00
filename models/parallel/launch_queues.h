// In which order does the device accept launches? Streams share a few hardware queues
// (CUDA_DEVICE_MAX_CONNECTIONS), round robin as they were made. What stands in one queue starts in
// launch order, whatever its stream: a kernel may not start before the one launched before it does.
//
//   1 queue, launched K1 (compute), G (compute), R (nccl):   R waits for K1, since G does
//
// "Y has started" is no kind of dependency in a TaskGraph. It is the same as "all that Y waits for
// has ended": Y's dependencies, its predecessor on its stream, and what its queue made it wait for.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "sim/base/ids.h"

namespace stepsim {

class LaunchQueues {
 public:
  // The latest task of each stream that has to be over.
  using Before = std::map<StreamId, TaskId>;

  explicit LaunchQueues(std::int64_t count);

  void AddStream(StreamId stream);
  // Otherwise every stream has a queue of its own, and there is nothing to keep in order.
  bool are_shared() const { return queue_of_.size() > queues_.size(); }

  // A launch on `stream` after `own`: its events and the task before it on its stream. Returns what
  // it waits for because of its queue; nothing that `own` already implies.
  std::vector<TaskId> Launch(StreamId stream, Before own);

 private:
  struct Queue {
    StreamId stream = kNoId<StreamId>;  // of the launch before
    Before before;                      // all that it waited for
  };

  std::vector<Queue> queues_;
  std::map<StreamId, std::size_t> queue_of_;
};

}  // namespace stepsim
