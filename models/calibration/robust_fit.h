// Which non-negative parameters explain measurements, when some of those are wrong?
//
//   t = alpha + beta x size:
//   const LinearFit fit = FitNonNegative({{1, 1024}, {1, 2048}, ...}, seconds, {});
//   fit.parameters  -> {alpha, beta};  fit.errors -> halves of their 95 % intervals
//
// Weighted least squares with the weights of Huber, then of Tukey's biweight, on errors relative to
// the predicted time: points far off lose all their weight. Deterministic.
#pragma once

#include <cstddef>
#include <vector>

namespace stepsim {

struct RobustOptions {
  double relative = 0.02;  // errors as small as this share of a time are noise, and count fully
  double floor = 1e-7;     // and so are these seconds: what a timer resolves
};

struct LinearFit {
  std::vector<double> parameters;  // >= 0
  std::vector<double> errors;      // half of the 95 % interval; 0 where the parameter is 0
  std::vector<double> weights;     // by point, 0..1: 0 is an outlier
  double residual = 0;             // median |prediction / measurement - 1|
  double residual_p90 = 0;
};

// REQUIRES: 1 to 4 columns in every row, values >= 0, as many rows as times, times > 0; `spreads`
// is empty or has a standard deviation in seconds for each.
LinearFit FitNonNegative(const std::vector<std::vector<double>>& rows,
                         const std::vector<double>& times, const std::vector<double>& spreads,
                         const RobustOptions& options = {});

// The median of `values`, and the factor that 95 % of medians of so many values lie within.
// REQUIRES: values not empty.
struct RobustMedian {
  double value = 0;
  double error = 0;  // half of the 95 % interval
};
RobustMedian MedianOf(const std::vector<double>& values);

}  // namespace stepsim
