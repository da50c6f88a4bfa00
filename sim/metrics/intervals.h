// How long is at least one of them running? Unions and differences of half-open time intervals.
#pragma once

#include <vector>

#include "sim/base/time.h"

namespace stepsim {

struct Interval {
  SimTime begin{};
  SimTime end{};
};

// Sorted, disjoint, not empty intervals covering the same moments.
std::vector<Interval> Union(std::vector<Interval> intervals);

// The parts of `interval` that none of `holes` covers. REQUIRES: holes is a Union result.
std::vector<Interval> Subtract(Interval interval, const std::vector<Interval>& holes);

// The part of an interval inside a window (empty when begin >= end).
Interval Clip(Interval interval, Interval window);

Duration Measure(const std::vector<Interval>& intervals);

}  // namespace stepsim
