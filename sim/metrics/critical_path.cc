#include "sim/metrics/critical_path.h"

#include <algorithm>

#include "sim/base/check.h"

namespace stepsim {
namespace {

// The task with which the window ends: a kernel before a transfer that ends at the same time, since
// a step ends with its last kernel; without one that ends just then, the last before.
TaskId LastTask(const TaskGraph& graph, const Timeline& timeline, SimTime end) {
  TaskId last = kNoId<TaskId>;
  const auto is_transfer = [&](TaskId t) { return graph.kind(t) == TaskKind::kTransfer; };
  for (const TaskId t : AllIds<TaskId>(graph.task_count())) {
    if (timeline.end[t] > end) continue;
    if (last == kNoId<TaskId> || timeline.end[t] > timeline.end[last] ||
        (timeline.end[t] == timeline.end[last] && is_transfer(last) && !is_transfer(t))) {
      last = t;
    }
  }
  return last;
}

bool IsAlike(const PathRun& run, const PathRun& other) {
  return run.kind == other.kind && run.site == other.site && run.phase == other.phase;
}

}  // namespace

std::vector<PathPiece> StepPath(const TaskGraph& graph, const Timeline& timeline, Window window) {
  std::vector<PathPiece> path;
  const TaskId last = LastTask(graph, timeline, window.end);
  if (last == kNoId<TaskId>) return path;
  SimTime covered = window.end;
  for (TaskId task = last; covered > window.begin;) {
    const SimTime begin = std::max(TransferStart(graph, timeline, task), window.begin);
    if (begin < covered) path.push_back({task, begin, covered});
    covered = std::min(begin, covered);
    const BoundBy cause = CauseOf(graph, timeline, task);
    if (cause.bound() == Bound::kBegin) break;
    task = cause.task();
  }
  SIM_CHECK(covered == window.begin, "the chain of causes must reach the begin of the step");
  std::reverse(path.begin(), path.end());
  return path;
}

std::vector<PathRun> CondensePath(const TaskGraph& graph, const std::vector<PathPiece>& path) {
  std::vector<PathRun> runs;
  for (const PathPiece& piece : path) {
    const Label& label = graph.label(piece.task);
    PathRun run;
    run.kind = graph.kind(piece.task);
    if (run.kind == TaskKind::kTransfer) {
      run.site = label.site;
    } else {
      run.phase = label.phase;
    }
    if (runs.empty() || !IsAlike(runs.back(), run)) {
      run.begin = piece.begin;
      run.first = piece.task;
      runs.push_back(run);
    }
    PathRun& into = runs.back();
    into.end = piece.end;
    into.last = piece.task;
    ++into.pieces;
  }
  return runs;
}

std::string NameOf(const PathRun& run) {
  if (run.kind == TaskKind::kTransfer) return std::string(ToString(run.site));
  return std::string(run.kind == TaskKind::kHost ? "host " : "compute ") +
         std::string(ToString(run.phase));
}

std::vector<PathShare> SharesOf(const std::vector<PathRun>& runs) {
  std::vector<PathShare> shares;
  for (const PathRun& run : runs) {
    const std::string name = NameOf(run);
    auto share = std::find_if(shares.begin(), shares.end(),
                              [&](const PathShare& s) { return s.name == name; });
    if (share == shares.end()) share = shares.insert(share, PathShare{name, {}, 0, 0});
    share->length += run.length();
    ++share->runs;
    share->pieces += run.pieces;
  }
  std::stable_sort(shares.begin(), shares.end(),
                   [](const PathShare& a, const PathShare& b) { return a.length > b.length; });
  return shares;
}

}  // namespace stepsim
