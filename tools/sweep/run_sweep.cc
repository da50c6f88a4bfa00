#include "tools/sweep/run_sweep.h"

#include <tbb/enumerable_thread_specific.h>
#include <tbb/global_control.h>
#include <tbb/parallel_pipeline.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

namespace stepsim {
namespace {

constexpr std::uint64_t kLargestGroup = 16;  // neighbours that one thread runs in a row
constexpr std::size_t kGroupsPerThread = 4;  // held at a time

using Group = std::vector<std::uint64_t>;
struct Rows {
  std::string lines;
  SweepCounts counts;
};

void Add(const PointRow& row, SweepCounts& counts) {
  ++counts.points;
  if (row.kind == PointKind::kDone) {
    ++counts.done;
  } else if (row.kind == PointKind::kFiltered) {
    ++counts.filtered;
  } else if (counts.errors++ == 0) {
    counts.first_error_kind = row.kind;
    counts.first_error = row.error;
  }
}

void Add(const SweepCounts& more, SweepCounts& counts) {
  if (counts.errors == 0) {
    counts.first_error_kind = more.first_error_kind;
    counts.first_error = more.first_error;
  }
  counts.points += more.points;
  counts.done += more.done;
  counts.filtered += more.filtered;
  counts.errors += more.errors;
}

Group NextGroup(PointSequence& points, std::uint64_t size) {
  Group group;
  while (group.size() < size) {
    const auto index = points.Next();
    if (!index) break;
    group.push_back(*index);
  }
  return group;
}

Rows RunGroup(const Group& group, PointRunner& runner) {
  Rows rows;
  for (const std::uint64_t index : group) {
    const PointRow row = runner.Run(index);
    rows.lines += row.line;
    Add(row, rows.counts);
  }
  return rows;
}

}  // namespace

SweepCounts RunSweep(const Grid& grid, const JobVariants& variants, PointSequence& points,
                     std::uint64_t expected, std::size_t jobs,
                     const std::function<void(std::string_view, std::uint64_t)>& write) {
  if (jobs == 0) jobs = static_cast<std::size_t>(tbb::this_task_arena::max_concurrency());
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, jobs);
  const std::uint64_t group_size =
      std::clamp<std::uint64_t>(expected / (jobs * kGroupsPerThread), 1, kLargestGroup);
  tbb::enumerable_thread_specific<std::unique_ptr<PointRunner>> runners;
  SweepCounts total;

  const auto source = tbb::make_filter<void, std::shared_ptr<Group>>(
      tbb::filter_mode::serial_in_order, [&](tbb::flow_control& flow) {
        auto group = std::make_shared<Group>(NextGroup(points, group_size));
        if (group->empty()) flow.stop();
        return group;
      });
  const auto work = tbb::make_filter<std::shared_ptr<Group>, std::shared_ptr<Rows>>(
      tbb::filter_mode::parallel, [&](const std::shared_ptr<Group>& group) {
        std::unique_ptr<PointRunner>& runner = runners.local();
        if (runner == nullptr) runner = std::make_unique<PointRunner>(grid, variants);
        return std::make_shared<Rows>(RunGroup(*group, *runner));
      });
  const auto sink = tbb::make_filter<std::shared_ptr<Rows>, void>(
      tbb::filter_mode::serial_in_order, [&](const std::shared_ptr<Rows>& rows) {
        write(rows->lines, rows->counts.points);
        Add(rows->counts, total);
      });
  tbb::task_arena arena(static_cast<int>(jobs));
  arena.execute([&] { tbb::parallel_pipeline(jobs * kGroupsPerThread, source & work & sink); });
  return total;
}

}  // namespace stepsim
