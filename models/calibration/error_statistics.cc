#include "models/calibration/error_statistics.h"

#include <algorithm>
#include <cmath>

#include "sim/base/check.h"

namespace stepsim {

double Quantile(std::vector<double> values, double q) {
  SIM_CHECK(q >= 0 && q <= 1, "a quantile is between 0 and 1");
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double at = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  const double share = at - static_cast<double>(below);
  return values[below] * (1 - share) + values[above] * share;
}

ErrorSummary Summarize(const std::vector<double>& errors) {
  std::vector<double> sizes;
  sizes.reserve(errors.size());
  for (const double error : errors) sizes.push_back(std::abs(error));
  return {.count = errors.size(),
          .median = Quantile(sizes, 0.5),
          .p90 = Quantile(sizes, 0.9),
          .bias = Quantile(errors, 0.5)};
}

std::vector<std::size_t> FarthestOff(std::vector<std::size_t> points,
                                     const std::function<double(std::size_t)>& error_of,
                                     std::size_t most) {
  const auto distance = [&](std::size_t point) { return std::abs(std::log1p(error_of(point))); };
  std::stable_sort(points.begin(), points.end(),
                   [&](std::size_t a, std::size_t b) { return distance(a) > distance(b); });
  points.resize(std::min(points.size(), most));
  return points;
}

}  // namespace stepsim
