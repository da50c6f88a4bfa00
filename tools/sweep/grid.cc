#include "tools/sweep/grid.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>

#include "sim/base/diagnostics.h"

namespace stepsim {

std::optional<std::size_t> Grid::AxisOf(const Sweep& sweep, const JobField& field) {
  const std::vector<const Axis*> axes = sweep.axes();
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i]->field.path() == field.path()) return i;
  }
  return std::nullopt;
}

bool Grid::UsesAxesAlone(const Sweep& sweep, const StepCondition& condition) {
  return std::all_of(condition.meanings().begin(), condition.meanings().end(),
                     [&](const StepCondition::Meaning& meaning) {
                       return meaning.field && AxisOf(sweep, *meaning.field);
                     });
}

Grid::Grid(const Sweep& sweep) : sweep_(sweep), size_(sweep.points()) {
  for (const StepCondition& condition : sweep.where) {
    if (!UsesAxesAlone(sweep, condition)) continue;
    AxisFilter filter{&condition, {}};
    for (const StepCondition::Meaning& meaning : condition.meanings()) {
      filter.axes.push_back(*AxisOf(sweep, *meaning.field));
    }
    filters_.push_back(std::move(filter));
  }
  total_ = size_;
  if (filters_.empty()) return;
  total_ = 0;
  for (std::uint64_t i = 0; i < size_; ++i) total_ += IsKept(i) ? 1 : 0;
  if (total_ == 0) FailWithNothingLeft();
}

std::vector<const AxisValue*> Grid::ValuesOf(std::uint64_t index) const {
  std::vector<std::uint64_t> digits(sweep_.groups.size());
  for (std::size_t i = digits.size(); i-- > 0;) {
    digits[i] = index % sweep_.groups[i].size();
    index /= sweep_.groups[i].size();
  }
  std::vector<const AxisValue*> values;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    for (const Axis& axis : sweep_.groups[i].axes) values.push_back(&axis.values[digits[i]]);
  }
  return values;
}

bool Grid::Holds(const AxisFilter& filter, const std::vector<const AxisValue*>& values) const {
  std::vector<ConditionValue> seen;
  seen.reserve(filter.axes.size());
  for (const std::size_t axis : filter.axes) seen.push_back(values[axis]->value);
  return filter.condition->condition().Holds(seen);
}

bool Grid::IsKept(std::uint64_t index) const {
  if (filters_.empty()) return true;
  const std::vector<const AxisValue*> values = ValuesOf(index);
  return std::all_of(filters_.begin(), filters_.end(),
                     [&](const AxisFilter& filter) { return Holds(filter, values); });
}

void Grid::FailWithNothingLeft() const {
  std::vector<std::string> parts;
  for (const AxisFilter& filter : filters_) {
    std::uint64_t left = 0;
    for (std::uint64_t i = 0; i < size_; ++i) left += Holds(filter, ValuesOf(i)) ? 1 : 0;
    parts.push_back(fmt::format("'{}' alone keeps {}", filter.condition->condition().text(), left));
  }
  throw ConfigError(Place{}, fmt::format("where: found no point left of {}, allowed: filters that "
                                         "keep one; {}",
                                         size_, fmt::join(parts, ", ")));
}

std::optional<std::uint64_t> PointSequence::Next() {
  while (index_ < grid_.size()) {
    const std::uint64_t index = index_++;
    if (!grid_.IsKept(index)) continue;
    if (IsInShard(ordinal_++, grid_.total(), shard_)) return index;
  }
  return std::nullopt;
}

}  // namespace stepsim
