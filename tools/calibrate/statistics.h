// How long did it take? The median of repeated timings, and how far they spread.
#pragma once

#include <vector>

namespace stepsim::measure {

struct Spread {
  double median = 0, p10 = 0, p90 = 0;
};

// The value below which `fraction` of the sorted values lie, between neighbours by interpolation
// (numpy's default). REQUIRES: `sorted` is not empty, 0 <= fraction <= 1.
double Percentile(const std::vector<double>& sorted, double fraction);

Spread Summarize(std::vector<double> values);  // REQUIRES: not empty

}  // namespace stepsim::measure
