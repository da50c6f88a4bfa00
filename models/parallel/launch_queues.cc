#include "models/parallel/launch_queues.h"

#include <algorithm>
#include <utility>

namespace stepsim {

LaunchQueues::LaunchQueues(std::int64_t count) : queues_(static_cast<std::size_t>(count)) {}

void LaunchQueues::AddStream(StreamId stream) {
  queue_of_.emplace(stream, queue_of_.size() % queues_.size());
}

std::vector<TaskId> LaunchQueues::Launch(StreamId stream, Before own) {
  Queue& queue = queues_[queue_of_.at(stream)];
  std::vector<TaskId> inherited;
  if (queue.stream != kNoId<StreamId> && queue.stream != stream) {
    for (const auto& [other, task] : queue.before) {
      const auto [known, is_new] = own.emplace(other, task);
      if (!is_new && Index(known->second) >= Index(task)) continue;
      known->second = task;
      inherited.push_back(task);
    }
  }
  queue = {stream, std::move(own)};
  return inherited;
}

}  // namespace stepsim
