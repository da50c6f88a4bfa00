// What set the length of the step? The chain of causes that ends it, cut to the step, and condensed
// to a few lines: what stands for how much of it.
//
//   | forward compute | tensor_parallel | backward compute | gradient_reduce | optimizer |
//
// The pieces tile the step without gap, so that they sum to it exactly.
#pragma once

#include <string>
#include <vector>

#include "sim/graph/site.h"
#include "sim/metrics/accounting.h"
#include "sim/timeline/timeline.h"

namespace stepsim {

// The chain that ends with the end of the window, earliest piece first; its pieces tile the window.
// Between the end of the window's last task and the window's end, if there is any time, that task's
// piece goes on.
std::vector<PathPiece> StepPath(const TaskGraph& graph, const Timeline& timeline, Window window);

// Consecutive pieces of one kind.
struct PathRun {
  TaskKind kind = TaskKind::kCompute;
  Site site = Site::kNone;      // of transfers
  Phase phase = Phase::kOther;  // of kernels and launches
  std::size_t pieces = 0;
  TaskId first{}, last{};
  SimTime begin{}, end{};
  Duration length() const { return end - begin; }
};
std::vector<PathRun> CondensePath(const TaskGraph& graph, const std::vector<PathPiece>& path);

// All runs of one kind together, the longest first.
struct PathShare {
  std::string name;  // "compute backward", "gradient_reduce", "host forward"
  Duration length{};
  std::size_t runs = 0, pieces = 0;
};
std::string NameOf(const PathRun& run);
std::vector<PathShare> SharesOf(const std::vector<PathRun>& runs);

}  // namespace stepsim
