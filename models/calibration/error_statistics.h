// How wrong are predictions? Medians and tails of relative errors.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace stepsim {

// The q-quantile of `values`, linear between neighbours; 0 for none. REQUIRES: 0 <= q <= 1.
double Quantile(std::vector<double> values, double q);

struct ErrorSummary {
  std::size_t count = 0;
  double median = 0;  // of |error|
  double p90 = 0;     // of |error|
  double bias = 0;    // median of the signed error
};
// `errors` are predicted / measured - 1.
ErrorSummary Summarize(const std::vector<double>& errors);

// At most `most` of `points`, those first whose prediction is the largest multiple or the smallest
// fraction of the measured value; equals in their order. `error_of` is as above.
std::vector<std::size_t> FarthestOff(std::vector<std::size_t> points,
                                     const std::function<double(std::size_t)>& error_of,
                                     std::size_t most);

}  // namespace stepsim
