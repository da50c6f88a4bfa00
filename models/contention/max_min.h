// Who gets how much of something that is not enough for all? Max-min fair shares: nobody who wants
// less than an equal part goes short, and the rest is split evenly among the others.
#pragma once

#include <span>

namespace stepsim {

// Lowers each demand to its share of `capacity`. Demands that fit together stay as they are.
//   {1, 4, 5} of 8  ->  {1, 3.5, 3.5}
// REQUIRES: demands and capacity are not negative.
void ShareMaxMin(double capacity, std::span<double> demands);

}  // namespace stepsim
