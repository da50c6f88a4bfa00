// On which line of the picture does a task stand? A rank is a process, a stream a thread.
//
//   pid 0 (rank 0)   tid 0 "compute"   tid 1 "nccl dp"   tid 2 "step"   tid 3 "exposed"
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sim/base/ids.h"
#include "sim/graph/task_graph.h"

namespace stepsim {

class TraceTracks {
 public:
  struct Track {
    std::int32_t pid = 0;  // the global rank
    std::int32_t tid = 0;  // the number of the stream within its rank
    bool is_used = false;
    std::string place;      // "pid":0,"tid":1,"ts":
    std::string arguments;  // "stream":1,"device":0,"correlation":
  };

  explicit TraceTracks(const TaskGraph& graph);

  // A task that occupies several streams is shown once: on its CUDA stream rather than on the queue
  // that stands for its communicator.
  StreamId ShownStream(TaskId task) const;
  const Track& Of(TaskId task) const { return tracks_[ShownStream(task)]; }
  const Track& Of(StreamId stream) const { return tracks_[stream]; }
  Track StepTrack(RankId rank) const;
  Track ExposedTrack(RankId rank) const;

 private:
  Track MakeTrack(RankId rank, std::int32_t tid) const;

  const TaskGraph& graph_;
  IdVector<StreamId, Track> tracks_;
  IdVector<RankId, std::int32_t> stream_counts_;
};

}  // namespace stepsim
