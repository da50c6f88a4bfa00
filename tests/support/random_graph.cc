#include "tests/support/random_graph.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <numeric>
#include <string>
#include <utility>

namespace stepsim {
namespace {

constexpr std::array<Site, 4> kSites = {Site::kGradientReduce, Site::kParameterGather,
                                        Site::kTensorParallel, Site::kPipelineTransfer};

class JobMaker {
 public:
  JobMaker(Random* random) : random_(*random), ranks_(Pick(1, 4)), streams_(Pick(1, 4)) {}

  RandomJob Make(std::size_t size) {
    while (job_.tasks.size() < size) {
      if (ranks_ > 1 && Pick(0, 4) == 0) {
        AddMeeting();
      } else {
        Add(Pick(0, ranks_ - 1), RandomKind(), RandomDuration(), -1);
      }
    }
    return std::move(job_);
  }

 private:
  int Pick(int low, int high) { return static_cast<int>(random_.Between(low, high)); }

  Duration RandomDuration() { return std::chrono::microseconds(std::max(0, Pick(-3, 20))); }

  TaskKind RandomKind() {
    constexpr std::array<TaskKind, 5> kKinds = {TaskKind::kCompute, TaskKind::kCompute,
                                                TaskKind::kCompute, TaskKind::kTransfer,
                                                TaskKind::kHost};
    return kKinds[static_cast<std::size_t>(Pick(0, 4))];
  }

  void AddMeeting() {
    const Duration duration = RandomDuration();
    const int first = Pick(0, ranks_ - 1), count = Pick(1, ranks_);
    for (int i = 0; i < count; ++i) {
      Add((first + i) % ranks_, TaskKind::kTransfer, duration, meetings_);
    }
    ++meetings_;
  }

  void Add(int rank, TaskKind kind, Duration duration, int meeting) {
    RandomTask task{.rank = rank, .kind = kind, .duration = duration, .meeting = meeting};
    if (kind == TaskKind::kTransfer) task.site = kSites[static_cast<std::size_t>(Pick(0, 3))];
    const int first = Pick(0, streams_ - 1);
    const int count = Pick(0, 3) == 0 ? Pick(1, streams_) : 1;
    for (int i = 0; i < count; ++i) task.streams.push_back((first + i) % streams_);
    // Nothing may follow a fellow member: it would wait for its own meeting.
    std::size_t earlier = job_.tasks.size();
    while (meeting >= 0 && earlier > 0 && job_.tasks[earlier - 1].meeting == meeting) --earlier;
    for (int i = Pick(0, 3); i > 0 && earlier > 0; --i) {
      const auto newest = static_cast<std::int64_t>(earlier) - 1;
      const std::int64_t oldest = std::max<std::int64_t>(0, newest - 10);
      task.after.push_back(static_cast<std::size_t>(random_.Between(oldest, newest)));
    }
    job_.tasks.push_back(std::move(task));
  }

  Random& random_;
  int ranks_, streams_;
  int meetings_ = 0;
  RandomJob job_;
};

// The streams of a task as global numbers.
std::vector<int> GlobalStreams(const RandomTask& task) {
  std::vector<int> streams;
  for (const int s : task.streams) streams.push_back(task.rank * 100 + s);
  return streams;
}

}  // namespace

RandomJob MakeRandomJob(std::size_t size, Random* random) { return JobMaker(random).Make(size); }

Sketched BuildJob(const RandomJob& job, const std::vector<std::size_t>& order) {
  std::vector<std::size_t> by_id(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) by_id[order[i]] = i;
  const auto id_of = [&](std::size_t i) { return TaskId{static_cast<std::uint32_t>(order[i])}; };
  GraphSketch sketch;
  for (const std::size_t i : by_id) {
    const RandomTask& task = job.tasks[i];
    std::vector<StreamId> streams;
    for (const int s : task.streams) streams.push_back(sketch.Stream(task.rank, std::to_string(s)));
    sketch.Add(task.kind, streams, task.duration, {.name = std::to_string(i), .site = task.site});
  }
  std::map<int, std::vector<TaskId>> meetings;
  for (std::size_t i = 0; i < job.tasks.size(); ++i) {
    for (const std::size_t before : job.tasks[i].after) {
      sketch.builder().AddDependency(id_of(before), id_of(i));
    }
    if (job.tasks[i].meeting >= 0) meetings[job.tasks[i].meeting].push_back(id_of(i));
  }
  for (const auto& [meeting, members] : meetings) sketch.Meet(members);
  return sketch.Build();
}

Sketched BuildJob(const RandomJob& job) {
  std::vector<std::size_t> order(job.tasks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  return BuildJob(job, order);
}

std::vector<std::size_t> MakeRandomOrder(const RandomJob& job, Random* random) {
  // Swap neighbours that share no stream, many times.
  std::vector<std::size_t> by_id(job.tasks.size());
  std::iota(by_id.begin(), by_id.end(), std::size_t{0});
  for (std::size_t swaps = by_id.size() * by_id.size(); by_id.size() > 1 && swaps > 0; --swaps) {
    const auto at =
        static_cast<std::size_t>(random->Between(0, static_cast<std::int64_t>(by_id.size()) - 2));
    const std::vector<int> a = GlobalStreams(job.tasks[by_id[at]]);
    const std::vector<int> b = GlobalStreams(job.tasks[by_id[at + 1]]);
    const bool share = std::find_first_of(a.begin(), a.end(), b.begin(), b.end()) != a.end();
    if (!share) std::swap(by_id[at], by_id[at + 1]);
  }
  std::vector<std::size_t> order(by_id.size());
  for (std::size_t id = 0; id < by_id.size(); ++id) order[by_id[id]] = id;
  return order;
}

DirectTimes EvaluateDirectly(const RandomJob& job, bool with_streams) {
  const std::size_t count = job.tasks.size();
  DirectTimes times{std::vector<SimTime>(count), std::vector<SimTime>(count), kStepBegin};
  std::map<int, SimTime> stream_end;
  for (std::size_t i = 0; i < count;) {
    // [i, last): one task, or the members of one meeting.
    std::size_t last = i + 1;
    while (last < count && job.tasks[i].meeting >= 0 &&
           job.tasks[last].meeting == job.tasks[i].meeting) {
      ++last;
    }
    SimTime together = kStepBegin;
    for (std::size_t k = i; k < last; ++k) {
      for (const std::size_t before : job.tasks[k].after) {
        times.start[k] = std::max(times.start[k], times.end[before]);
      }
      for (const int s : GlobalStreams(job.tasks[k])) {
        if (with_streams) times.start[k] = std::max(times.start[k], stream_end[s]);
      }
      together = std::max(together, times.start[k]);
    }
    const SimTime end = together + job.tasks[i].duration;
    for (std::size_t k = i; k < last; ++k) {
      times.end[k] = end;
      for (const int s : GlobalStreams(job.tasks[k])) stream_end[s] = end;
    }
    times.makespan = std::max(times.makespan, end);
    i = last;
  }
  return times;
}

}  // namespace stepsim
