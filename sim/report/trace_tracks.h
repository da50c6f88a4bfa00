// On which line of the picture does a task stand? A rank is a process, a stream a thread.
//
//   pid 1 (rank 0)   tid 1 "compute"   tid 2 "nccl dp"   tid 3 "step"   tid 4 "exposed"
//
// Processes, threads and streams count from 1: viewers keep process and thread 0 for the idle loop
// of a kernel, and some readers take only streams above 0 for a GPU's.
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
    std::int32_t pid = 0;  // the global rank, from 1
    std::int32_t tid = 0;  // the number of the stream within its rank, from 1
    bool is_used = false;
    bool is_host = false;   // a thread of the host rather than a stream of the GPU
    std::string place;      // "pid":1,"tid":2,"ts":
    std::string arguments;  // "stream":2,"device":0,"correlation":
  };

  explicit TraceTracks(const TaskGraph& graph);

  // A task that occupies several streams is shown once: on its CUDA stream rather than on the queue
  // that stands for its communicator.
  StreamId ShownStream(TaskId task) const;
  const Track& Of(TaskId task) const { return tracks_[ShownStream(task)]; }
  const Track& Of(StreamId stream) const { return tracks_[stream]; }
  Track StepTrack(RankId rank) const;
  Track ExposedTrack(RankId rank) const;
  std::int32_t Pid(RankId rank) const { return graph_.rank_info(rank).global_rank + 1; }

 private:
  Track MakeTrack(RankId rank, std::int32_t tid) const;

  const TaskGraph& graph_;
  IdVector<StreamId, Track> tracks_;
  IdVector<RankId, std::int32_t> stream_counts_;
};

}  // namespace stepsim
