// Which graphs are benchmarks and golden tests made of? Synthetic steps and random graphs that
// other engines have simulated too, built through the public builder. Works come from Lasting()
// (sketch.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "sim/graph/task_graph.h"

namespace stepsim {

struct StepShape {
  int ranks = 1;
  int layers = 1;
};

// One data-parallel training step on `ranks` ranks with two in-order streams each.
//   compute: 12 forward kernels a layer (kernel k lasts 20 + 7k mod 13 us); then, last layer first,
//            24 backward kernels a layer (40 + 5k mod 17 us); then one optimizer kernel a layer (5
//            us) in the order in which the all-reduces were issued.
//   comm:    one all-reduce a layer in backward order, after the last backward kernel of its layer.
// The optimizer kernel of a layer waits for the layer's all-reduce. 38 tasks per layer and rank.
TaskGraph BuildStep(StepShape shape);

// The same at layer grain: one forward (240 us), backward (960 us), all-reduce and optimizer
// kernel.
TaskGraph BuildStepLayer(StepShape shape);

// A ring all-reduce of 25 MiB at 50 GB/s with 0.5 us per step, in whole microseconds, rounded down:
// floor(2(R-1) x 0.5 + 2(R-1)/R x 26,214,400 / 50,000).
std::int64_t AllReduceMicroseconds(int ranks);

enum class RandomShape { kNarrow, kWide };

struct RandomGraph {
  RandomShape shape = RandomShape::kNarrow;
  std::size_t tasks = 0;
  bool is_shuffled = false;  // ids permuted in memory
  std::uint64_t seed = 1;
};

// Task i depends on two earlier ones, lasts 1 to 1000 us and has a stream of its own.
//   narrow: i-1-a and i-1-b, a in 0..7, b in 0..4095: about 20 tasks are ready at once
//   wide:   both 32,768 to 65,535 back: about 43,600 events are pending at once
TaskGraph BuildRandom(const RandomGraph& random);

// A small stateless-seeded generator with the same numbers on every platform (splitmix64).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t Next();
  // Uniform in low..high, both included.
  std::int64_t Between(std::int64_t low, std::int64_t high);

 private:
  std::uint64_t state_;
};

}  // namespace stepsim
