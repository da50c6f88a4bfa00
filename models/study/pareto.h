// Which of several points are worth having, and how far may one stray from the best?
//
//   FindPlateau({10.2, 10.0, 10.05, 12.0})          -> best 1, plateau {1, 2}
//   FindPareto({{10, 80}, {12, 40}, {13, 60}})      -> {0, 1}: time and memory; 13, 60 is beaten
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace stepsim {

struct Plateau {
  std::size_t best = 0;
  std::vector<std::size_t> values;  // within `tolerance` of it, in their order, the best among them
};

// Of times; unset entries were not possible. Of equal ones the first is best. nullopt: none is.
std::optional<Plateau> FindPlateau(const std::vector<std::optional<double>>& times,
                                   double tolerance = 0.01);

struct TimeAndMemory {
  double time = 0;
  double memory = 0;
};

// Those than which no other is at least as good in both and better in one, from the fastest to the
// leanest; of equal ones the first.
std::vector<std::size_t> FindPareto(const std::vector<TimeAndMemory>& points);

}  // namespace stepsim
