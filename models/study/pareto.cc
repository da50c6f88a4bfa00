#include "models/study/pareto.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace stepsim {

std::optional<Plateau> FindPlateau(const std::vector<std::optional<double>>& times,
                                   double tolerance) {
  std::optional<Plateau> plateau;
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (times[i] && (!plateau || *times[i] < *times[plateau->best])) plateau = Plateau{i, {}};
  }
  if (!plateau) return plateau;
  const double most = *times[plateau->best] * (1 + tolerance);
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (times[i] && *times[i] <= most) plateau->values.push_back(i);
  }
  return plateau;
}

std::vector<std::size_t> FindPareto(const std::vector<TimeAndMemory>& points) {
  std::vector<std::size_t> order(points.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if (points[a].time != points[b].time) return points[a].time < points[b].time;
    return points[a].memory < points[b].memory;
  });
  std::vector<std::size_t> front;
  double least = std::numeric_limits<double>::infinity();
  for (const std::size_t i : order) {
    if (points[i].memory >= least) continue;
    least = points[i].memory;
    front.push_back(i);
  }
  return front;
}

}  // namespace stepsim
