#include "sim/report/trace_tracks.h"

#include <fmt/format.h>

#include <algorithm>

namespace stepsim {

TraceTracks::TraceTracks(const TaskGraph& graph)
    : graph_(graph), stream_counts_(graph.rank_count(), 0) {
  tracks_.reserve(graph.stream_count());
  for (const StreamId stream : AllIds<StreamId>(graph.stream_count())) {
    const RankId rank = graph.stream(stream).rank;
    tracks_.push_back(MakeTrack(rank, ++stream_counts_[rank]));
  }
  for (const TaskId task : AllIds<TaskId>(graph.task_count())) {
    Track& track = tracks_[ShownStream(task)];
    track.is_used = true;
    track.is_host = graph.kind(task) == TaskKind::kHost;
  }
}

StreamId TraceTracks::ShownStream(TaskId task) const {
  const std::span<const StreamId> streams = graph_.streams(task);
  if (streams.size() == 1) return streams.front();
  const auto shown = std::find_if(streams.begin(), streams.end(), [this](StreamId stream) {
    return !graph_.stream(stream).is_queue;
  });
  return shown == streams.end() ? streams.front() : *shown;
}

TraceTracks::Track TraceTracks::StepTrack(RankId rank) const {
  return MakeTrack(rank, stream_counts_[rank] + 1);
}

TraceTracks::Track TraceTracks::ExposedTrack(RankId rank) const {
  return MakeTrack(rank, stream_counts_[rank] + 2);
}

TraceTracks::Track TraceTracks::MakeTrack(RankId rank, std::int32_t tid) const {
  const std::int32_t pid = Pid(rank);
  return {.pid = pid,
          .tid = tid,
          .is_used = false,
          .is_host = false,
          .place = fmt::format(R"("pid":{},"tid":{},"ts":)", pid, tid),
          .arguments = fmt::format(R"("stream":{},"device":{},"correlation":)", tid,
                                   graph_.rank_info(rank).global_rank)};
}

}  // namespace stepsim
