// What does any job look like? Random tasks as plain data, so that a property test can change one
// and build the graph again. Tasks stand in program order: dependencies point backwards and the
// members of a meeting follow each other, so that the job can always finish.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/graph/task_graph.h"
#include "tests/support/sketch.h"
#include "tests/support/workloads.h"

namespace stepsim {

struct RandomTask {
  int rank = 0;
  std::vector<int> streams;  // of its rank
  TaskKind kind = TaskKind::kCompute;
  Site site = Site::kNone;
  Duration duration{};
  std::vector<std::size_t> after;  // earlier tasks
  int meeting = -1;                // tasks of one number meet
};

struct RandomJob {
  std::vector<RandomTask> tasks;
};

// About `size` tasks on one to four ranks with one to four streams each; durations of 0 to 20
// microseconds in whole ones, so that equal times are frequent.
RandomJob MakeRandomJob(std::size_t size, Random* random);

// The task `i` of the job becomes the id order[i]. REQUIRES: the order keeps the order of tasks
// that share a stream.
Sketched BuildJob(const RandomJob& job, const std::vector<std::size_t>& order);
Sketched BuildJob(const RandomJob& job);  // ids in program order

// An order as BuildJob requires, otherwise random.
std::vector<std::size_t> MakeRandomOrder(const RandomJob& job, Random* random);

// Start and end of every task by one pass in program order: the semantics in ten lines. Without
// streams only dependencies and meetings bind.
struct DirectTimes {
  std::vector<SimTime> start, end;
  SimTime makespan{};
};
DirectTimes EvaluateDirectly(const RandomJob& job, bool with_streams = true);

}  // namespace stepsim
