#include "models/calibration/robust_fit.h"

#include <Eigen/Dense>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>

#include "models/calibration/error_statistics.h"
#include "sim/base/check.h"

namespace stepsim {
namespace {

using Matrix = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;

constexpr int kIterations = 25;
constexpr double kHuber = 1.345;  // the usual constants: 95 % efficient on clean normal errors
constexpr double kBiweight = 4.685;
constexpr double kMadToSigma = 1.4826;

// Least squares with parameters >= 0: of all sets of parameters that may differ from 0, the best
// one whose solution is positive. At most 15 sets.
Vector SolveNonNegative(const Matrix& a, const Vector& b) {
  const Eigen::Index columns = a.cols();
  Vector best = Vector::Zero(columns);
  double best_loss = b.squaredNorm();
  for (unsigned set = 1; set < (1U << columns); ++set) {
    std::vector<Eigen::Index> used;
    for (Eigen::Index i = 0; i < columns; ++i) {
      if ((set >> i & 1U) != 0) used.push_back(i);
    }
    Matrix part(a.rows(), static_cast<Eigen::Index>(used.size()));
    for (std::size_t i = 0; i < used.size(); ++i) {
      part.col(static_cast<Eigen::Index>(i)) = a.col(used[i]);
    }
    const Vector solved = part.colPivHouseholderQr().solve(b);
    if (!solved.allFinite() || (solved.array() < 0).any()) continue;
    const double loss = (part * solved - b).squaredNorm();
    if (loss >= best_loss) continue;
    best_loss = loss;
    best.setZero();
    for (std::size_t i = 0; i < used.size(); ++i) {
      best[used[i]] = solved[static_cast<Eigen::Index>(i)];
    }
  }
  return best;
}

// Student's t, 97.5 %.
double StudentT(std::ptrdiff_t freedom) {
  constexpr std::array<double, 10> kFew = {12.71, 4.303, 3.182, 2.776, 2.571,
                                           2.447, 2.365, 2.306, 2.262, 2.228};
  if (freedom < 1) return 0;
  const auto index = static_cast<std::size_t>(freedom - 1);
  return index < kFew.size() ? kFew[index] : 1.96 + 2.6 / static_cast<double>(freedom);
}

class Fitter {
 public:
  Fitter(const std::vector<std::vector<double>>& rows, const std::vector<double>& times,
         const std::vector<double>& spreads, const RobustOptions& options)
      : options_(options) {
    const auto count = static_cast<Eigen::Index>(rows.size());
    const auto columns = static_cast<Eigen::Index>(rows.front().size());
    a_.resize(count, columns);
    y_.resize(count);
    spread_ = Vector::Zero(count);
    for (Eigen::Index i = 0; i < count; ++i) {
      const auto& row = rows[static_cast<std::size_t>(i)];
      SIM_CHECK(static_cast<Eigen::Index>(row.size()) == columns, "all rows have the same columns");
      for (Eigen::Index j = 0; j < columns; ++j) a_(i, j) = row[static_cast<std::size_t>(j)];
      y_[i] = times[static_cast<std::size_t>(i)];
      if (!spreads.empty()) spread_[i] = spreads[static_cast<std::size_t>(i)];
    }
    // Sizes are a million times a latency: each column by its largest value.
    scale_ = a_.cwiseAbs().colwise().maxCoeff().transpose();
    for (Eigen::Index j = 0; j < columns; ++j) {
      if (scale_[j] <= 0) scale_[j] = 1;
      a_.col(j) /= scale_[j];
    }
  }

  LinearFit Run() {
    weights_ = Vector::Ones(y_.size());
    sigma_ = Sigma(y_);
    p_ = Solve();
    for (const bool is_biweight : {false, true}) {
      for (int i = 0; i < kIterations; ++i) {
        const Vector predicted = a_ * p_;
        sigma_ = Sigma(predicted);
        Reweigh((predicted - y_).cwiseQuotient(sigma_), is_biweight);
        const Vector next = Solve();
        const bool is_done = (next - p_).norm() <= 1e-12 * (p_.norm() + 1e-300);
        p_ = next;
        if (is_done) break;
      }
    }
    return Result();
  }

 private:
  // What counts as noise at each point.
  Vector Sigma(const Vector& level) const {
    Vector sigma(y_.size());
    for (Eigen::Index i = 0; i < y_.size(); ++i) {
      // A prediction near 0 must not make a point all-important.
      const double at = std::max(level[i], 0.05 * y_[i]);
      sigma[i] = std::sqrt(std::pow(options_.relative * at, 2) + std::pow(options_.floor, 2) +
                           std::pow(spread_[i], 2));
    }
    return sigma;
  }

  Vector Solve() const {
    const Vector root = weights_.cwiseSqrt().cwiseQuotient(sigma_);
    return SolveNonNegative(root.asDiagonal() * a_, root.cwiseProduct(y_));
  }

  void Reweigh(const Vector& errors, bool is_biweight) {
    std::vector<double> absolute(static_cast<std::size_t>(errors.size()));
    for (Eigen::Index i = 0; i < errors.size(); ++i) {
      absolute[static_cast<std::size_t>(i)] = std::abs(errors[i]);
    }
    // Never below the noise: a perfect fit would make outliers of rounding.
    const double scale = std::max(1.0, kMadToSigma * Quantile(absolute, 0.5));
    for (Eigen::Index i = 0; i < errors.size(); ++i) {
      const double x = std::abs(errors[i]) / scale;
      if (is_biweight) {
        const double rest = 1 - std::pow(x / kBiweight, 2);
        weights_[i] = rest > 0 ? rest * rest : 0;
      } else {
        weights_[i] = x <= kHuber ? 1 : kHuber / x;
      }
    }
  }

  LinearFit Result() const {
    LinearFit fit;
    const Vector predicted = a_ * p_;
    std::vector<double> errors;
    for (Eigen::Index i = 0; i < y_.size(); ++i) {
      errors.push_back(std::abs(predicted[i] / y_[i] - 1));
      fit.weights.push_back(weights_[i]);
    }
    fit.residual = Quantile(errors, 0.5);
    fit.residual_p90 = Quantile(errors, 0.9);
    const Vector halves = Intervals(predicted);
    for (Eigen::Index j = 0; j < p_.size(); ++j) {
      fit.parameters.push_back(p_[j] / scale_[j]);
      fit.errors.push_back(halves[j] / scale_[j]);
    }
    return fit;
  }

  // From the curvature around the solution, of the parameters that are not 0.
  Vector Intervals(const Vector& predicted) const {
    Vector halves = Vector::Zero(p_.size());
    std::vector<Eigen::Index> used;
    for (Eigen::Index j = 0; j < p_.size(); ++j) {
      if (p_[j] > 0) used.push_back(j);
    }
    const auto n = static_cast<Eigen::Index>(used.size());
    const auto freedom = static_cast<std::ptrdiff_t>((weights_.array() > 0.1).count()) -
                         static_cast<std::ptrdiff_t>(n);
    if (n == 0 || freedom < 1) return halves;
    const Vector root = weights_.cwiseSqrt().cwiseQuotient(sigma_);
    Matrix part(a_.rows(), n);
    for (Eigen::Index j = 0; j < n; ++j)
      part.col(j) = root.cwiseProduct(a_.col(used[static_cast<std::size_t>(j)]));
    const double squares = root.cwiseProduct(predicted - y_).squaredNorm();
    const double variance = squares / static_cast<double>(freedom);
    const Matrix inverse =
        (part.transpose() * part).ldlt().solve(Matrix::Identity(n, n)) * variance;
    if (!inverse.allFinite()) return halves;
    for (Eigen::Index j = 0; j < n; ++j) {
      halves[used[static_cast<std::size_t>(j)]] =
          StudentT(freedom) * std::sqrt(std::max(0.0, inverse(j, j)));
    }
    return halves;
  }

  RobustOptions options_;
  Matrix a_;
  Vector y_, spread_, scale_;
  Vector weights_, sigma_, p_;
};

}  // namespace

LinearFit FitNonNegative(const std::vector<std::vector<double>>& rows,
                         const std::vector<double>& times, const std::vector<double>& spreads,
                         const RobustOptions& options) {
  SIM_CHECK(!rows.empty() && rows.size() == times.size(), "a time for every row, and one at least");
  SIM_CHECK(!rows.front().empty() && rows.front().size() <= 4, "1 to 4 parameters");
  SIM_CHECK(spreads.empty() || spreads.size() == times.size(), "a spread for every time, or none");
  return Fitter(rows, times, spreads, options).Run();
}

RobustMedian MedianOf(const std::vector<double>& values) {
  SIM_CHECK(!values.empty(), "no values have no median");
  RobustMedian median{Quantile(values, 0.5), 0};
  std::vector<double> away;
  for (const double value : values) away.push_back(std::abs(value - median.value));
  const auto n = static_cast<double>(values.size());
  // A median of normal values scatters 1.2533 times as much as their mean.
  median.error = StudentT(static_cast<std::ptrdiff_t>(values.size()) - 1) * 1.2533 * kMadToSigma *
                 Quantile(away, 0.5) / std::sqrt(n);
  return median;
}

}  // namespace stepsim
