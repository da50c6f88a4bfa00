// Where on a picture does a value stand, and which values are named beside it?
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tools/sweep/curve.h"

namespace stepsim {

// One axis of a picture: values to [0, 1].
struct Scale {
  double low = 0, high = 1;
  bool is_log = false;
  double At(double value) const;
};

struct Tick {
  double value = 0;
  std::string label;
};

Scale ScaleX(const Curve& curve);
Scale ScaleY(const Curve& curve);

// Every x that was tried, ascending.
std::vector<Tick> TicksX(const Curve& curve);
// Round values, about `count` of them.
std::vector<Tick> TicksY(const Curve& curve, const Scale& scale, std::size_t count);

}  // namespace stepsim
