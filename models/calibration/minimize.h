// Which parameters make a function smallest? Nelder and Mead's simplex with the coefficients of Gao
// and Han for many dimensions, restarted around the best vertex. Deterministic.
#pragma once

#include <functional>
#include <vector>

namespace stepsim {

struct MinimizeOptions {
  int evaluations = 3000;  // per start
  int starts = 3;
  double step = 0.15;       // of the first simplex, added to each coordinate in turn
  double tolerance = 1e-7;  // of the function over the simplex
};

std::vector<double> Minimize(const std::function<double(const std::vector<double>&)>& function,
                             std::vector<double> start, const MinimizeOptions& options = {});

}  // namespace stepsim
