#include "tests/support/workloads.h"

#include <chrono>
#include <numeric>
#include <utility>
#include <vector>

#include "sim/graph/task_graph_builder.h"
#include "tests/support/sketch.h"

namespace stepsim {
namespace {

using std::chrono::microseconds;

// What one layer of a Step is made of: kernels in microseconds.
struct LayerGrain {
  std::vector<int> forward;
  std::vector<int> backward;
};

LayerGrain KernelGrain() {
  LayerGrain grain;
  for (int k = 0; k < 12; ++k) grain.forward.push_back(20 + (7 * k) % 13);
  for (int k = 0; k < 24; ++k) grain.backward.push_back(40 + (5 * k) % 17);
  return grain;
}

class StepBuilder {
 public:
  StepBuilder(StepShape shape, const LayerGrain& grain) : shape_(shape) {
    const std::size_t per_layer = grain.forward.size() + grain.backward.size() + 2;
    const auto layers =
        static_cast<std::size_t>(shape.ranks) * static_cast<std::size_t>(shape.layers);
    builder_.Reserve(layers * per_layer, layers * 2);
    for (const int us : grain.forward) forward_.push_back(WorkOf(TaskKind::kCompute, us));
    for (const int us : grain.backward) backward_.push_back(WorkOf(TaskKind::kCompute, us));
    optimizer_ = WorkOf(TaskKind::kCompute, 5);
    all_reduce_ = WorkOf(TaskKind::kTransfer, AllReduceMicroseconds(shape.ranks));
    forward_label_ = builder_.AddLabel({.name = "forward", .phase = Phase::kForward});
    backward_label_ = builder_.AddLabel({.name = "backward", .phase = Phase::kBackward});
    optimizer_label_ = builder_.AddLabel({.name = "optimizer", .phase = Phase::kOptimizer});
    all_reduce_label_ = builder_.AddLabel(
        {.name = "all_reduce", .site = Site::kGradientReduce, .phase = Phase::kBackward});
  }

  TaskGraph Build() && {
    std::vector<RendezvousId> meetings;
    for (int i = 0; i < shape_.layers; ++i) meetings.push_back(builder_.AddRendezvous());
    for (int r = 0; r < shape_.ranks; ++r) AddRank(r, meetings);
    return std::move(builder_).Build();
  }

 private:
  WorkId WorkOf(TaskKind kind, std::int64_t us) {
    return builder_.AddWork(Lasting(kind, microseconds(us)));
  }

  void AddRank(int number, const std::vector<RendezvousId>& meetings) {
    const RankId rank = builder_.AddRank({.global_rank = number, .stands_for = 1});
    const StreamId compute = builder_.AddStream(rank, "compute");
    const StreamId comm = builder_.AddStream(rank, "comm");
    for (int layer = 0; layer < shape_.layers; ++layer) {
      for (const WorkId kernel : forward_) builder_.AddTask(kernel, forward_label_, compute);
    }
    std::vector<TaskId> all_reduces;
    for (int layer = shape_.layers; layer-- > 0;) {
      for (const WorkId kernel : backward_) builder_.AddTask(kernel, backward_label_, compute);
      const TaskId last_kernel = builder_.last_on(compute);
      const TaskId all_reduce = builder_.AddTask(all_reduce_, all_reduce_label_, comm);
      builder_.AddDependency(last_kernel, all_reduce);
      builder_.Join(meetings[all_reduces.size()], all_reduce);
      all_reduces.push_back(all_reduce);
    }
    for (const TaskId all_reduce : all_reduces) {
      builder_.AddDependency(all_reduce, builder_.AddTask(optimizer_, optimizer_label_, compute));
    }
  }

  StepShape shape_;
  TaskGraphBuilder builder_;
  std::vector<WorkId> forward_, backward_;
  WorkId optimizer_{}, all_reduce_{};
  LabelId forward_label_{}, backward_label_{}, optimizer_label_{}, all_reduce_label_{};
};

}  // namespace

std::int64_t AllReduceMicroseconds(int ranks) {
  const std::int64_t r = ranks;
  return (r - 1) + 2 * (r - 1) * 26'214'400 / (r * 50'000);
}

TaskGraph BuildStep(StepShape shape) { return StepBuilder(shape, KernelGrain()).Build(); }

TaskGraph BuildStepLayer(StepShape shape) {
  return StepBuilder(shape, {.forward = {240}, .backward = {960}}).Build();
}

std::uint64_t Random::Next() {
  std::uint64_t z = state_ += 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

std::int64_t Random::Between(std::int64_t low, std::int64_t high) {
  const auto range = static_cast<std::uint64_t>(high - low) + 1;
  return low + static_cast<std::int64_t>(Next() % range);
}

TaskGraph BuildRandom(const RandomGraph& random) {
  Random numbers(random.seed), shuffle(random.seed + 1);
  const auto count = static_cast<std::int64_t>(random.tasks);
  // place[i]: the position in memory, that is the id, of task i.
  std::vector<std::uint32_t> place(random.tasks);
  std::iota(place.begin(), place.end(), 0u);
  for (std::int64_t i = count - 1; random.is_shuffled && i > 0; --i) {
    std::swap(place[static_cast<std::size_t>(i)],
              place[static_cast<std::size_t>(shuffle.Between(0, i))]);
  }
  std::vector<std::uint32_t> microseconds_of(random.tasks);  // by id
  for (const std::uint32_t id : place) {
    microseconds_of[id] = static_cast<std::uint32_t>(numbers.Between(1, 1000));
  }
  TaskGraphBuilder builder;
  builder.Reserve(random.tasks, 2 * random.tasks);
  const RankId rank = builder.AddRank({});
  const LabelId label = builder.AddLabel({.name = "task"});
  std::vector<WorkId> works;
  for (int us = 0; us <= 1000; ++us) {
    works.push_back(builder.AddWork(Lasting(TaskKind::kCompute, microseconds(us))));
  }
  for (const std::uint32_t us : microseconds_of) {
    builder.AddTask(works[us], label, builder.AddStream(rank, ""));
  }
  const bool is_narrow = random.shape == RandomShape::kNarrow;
  for (std::int64_t i = 0; i < count; ++i) {
    for (const std::int64_t farthest : {std::int64_t{7}, std::int64_t{4095}}) {
      const std::int64_t back =
          is_narrow ? 1 + numbers.Between(0, farthest) : numbers.Between(32'768, 65'535);
      if (back > i) continue;
      builder.AddDependency(TaskId{place[static_cast<std::size_t>(i - back)]},
                            TaskId{place[static_cast<std::size_t>(i)]});
    }
  }
  return std::move(builder).Build();
}

}  // namespace stepsim
