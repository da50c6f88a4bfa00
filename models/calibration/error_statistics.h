// How wrong are predictions? Medians and tails of relative errors.
#pragma once

#include <cstddef>
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

}  // namespace stepsim
