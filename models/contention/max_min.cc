#include "models/contention/max_min.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace stepsim {

void ShareMaxMin(double capacity, std::span<double> demands) {
  if (std::accumulate(demands.begin(), demands.end(), 0.0) <= capacity) return;
  // Raise the water level until all of it is used: those below it keep their demand.
  double level = capacity / static_cast<double>(demands.size());
  while (true) {
    double modest = 0;
    std::size_t greedy = 0;
    for (const double demand : demands) {
      if (demand <= level) {
        modest += demand;
      } else {
        ++greedy;
      }
    }
    if (greedy == 0) break;  // rounding only: the demands exceed the capacity
    const double next = (capacity - modest) / static_cast<double>(greedy);
    if (next <= level) break;
    level = next;
  }
  for (double& demand : demands) demand = std::min(demand, level);
}

}  // namespace stepsim
