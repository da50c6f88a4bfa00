// In which order do the points of a sweep come? Points are made from their number, not stored.
//
//   Grid grid(sweep);              // ConfigError when the filters leave nothing
//   PointSequence points(grid, shard);
//   while (const auto index = points.Next()) ... grid.ValuesOf(*index) ...
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tools/sweep/shard.h"
#include "tools/sweep/sweep.h"

namespace stepsim {

class Grid {
 public:
  // Counts the points that the filters on axes alone leave. Throws ConfigError with these filters
  // when there is none. REQUIRES: `sweep` outlives this object.
  explicit Grid(const Sweep& sweep);

  const Sweep& sweep() const { return sweep_; }
  std::uint64_t size() const { return size_; }    // before filters
  std::uint64_t total() const { return total_; }  // after those on axes

  // The values of all axes, in the order of Sweep::axes().
  std::vector<const AxisValue*> ValuesOf(std::uint64_t index) const;
  // Whether the filters on axes keep the point.
  bool IsKept(std::uint64_t index) const;

  // The value that a filter sees for a field: that of the axis over it; nullopt without one.
  static std::optional<std::size_t> AxisOf(const Sweep& sweep, const JobField& field);
  // Whether the filter can be judged by the values of axes.
  static bool UsesAxesAlone(const Sweep& sweep, const StepCondition& condition);

 private:
  // A filter and the axis of each of its names.
  struct AxisFilter {
    const StepCondition* condition = nullptr;
    std::vector<std::size_t> axes;
  };
  bool Holds(const AxisFilter& filter, const std::vector<const AxisValue*>& values) const;
  [[noreturn]] void FailWithNothingLeft() const;

  const Sweep& sweep_;
  std::vector<AxisFilter> filters_;
  std::uint64_t size_ = 0;
  std::uint64_t total_ = 0;
};

// The points of a shard, ascending.
class PointSequence {
 public:
  PointSequence(const Grid& grid, const Shard& shard) : grid_(grid), shard_(shard) {}
  std::optional<std::uint64_t> Next();

 private:
  const Grid& grid_;
  Shard shard_;
  std::uint64_t index_ = 0;
  std::uint64_t ordinal_ = 0;  // kept points before index_
};

}  // namespace stepsim
