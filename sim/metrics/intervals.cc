#include "sim/metrics/intervals.h"

#include <algorithm>

namespace stepsim {

std::vector<Interval> Union(std::vector<Interval> intervals) {
  const auto is_earlier = [](const Interval& a, const Interval& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  };
  // Kernels of one stream come in order.
  if (!std::is_sorted(intervals.begin(), intervals.end(), is_earlier)) {
    std::sort(intervals.begin(), intervals.end(), is_earlier);
  }
  std::vector<Interval> merged;
  for (const Interval& interval : intervals) {
    if (interval.begin >= interval.end) continue;
    if (!merged.empty() && interval.begin <= merged.back().end) {
      merged.back().end = std::max(merged.back().end, interval.end);
    } else {
      merged.push_back(interval);
    }
  }
  return merged;
}

std::vector<Interval> Subtract(Interval interval, const std::vector<Interval>& holes) {
  std::vector<Interval> rest;
  auto hole = std::lower_bound(
      holes.begin(), holes.end(), interval.begin,
      [](const Interval& candidate, SimTime time) { return candidate.end <= time; });
  SimTime from = interval.begin;
  for (; hole != holes.end() && hole->begin < interval.end; ++hole) {
    if (hole->begin > from) rest.push_back({from, hole->begin});
    from = std::max(from, hole->end);
  }
  if (from < interval.end) rest.push_back({from, interval.end});
  return rest;
}

Interval Clip(Interval interval, Interval window) {
  return {std::max(interval.begin, window.begin), std::min(interval.end, window.end)};
}

Duration Measure(const std::vector<Interval>& intervals) {
  Duration sum{};
  for (const Interval& interval : intervals) {
    if (interval.end > interval.begin) sum += interval.end - interval.begin;
  }
  return sum;
}

}  // namespace stepsim
