#include "tools/calibrate/statistics.h"

#include <algorithm>
#include <cmath>

#include "sim/base/check.h"

namespace stepsim::measure {

double Percentile(const std::vector<double>& sorted, double fraction) {
  SIM_CHECK(!sorted.empty(), "percentile of nothing");
  const double place = fraction * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(place));
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - std::floor(place)) * (sorted[above] - sorted[below]);
}

Spread Summarize(std::vector<double> values) {
  SIM_CHECK(!values.empty(), "summary of nothing");
  std::sort(values.begin(), values.end());
  return {Percentile(values, 0.5), Percentile(values, 0.1), Percentile(values, 0.9)};
}

}  // namespace stepsim::measure
