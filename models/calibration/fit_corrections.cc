#include "models/calibration/fit_corrections.h"

#include <Eigen/Dense>
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

#include "models/calibration/error_statistics.h"
#include "models/cost/collective_correction.h"
#include "sim/base/time.h"

namespace stepsim {
namespace {

// Logarithms of the latency factor, the time factor and the ramp in seconds.
using Parameters = Eigen::Vector3d;

// Errors beyond this count linearly (pseudo-Huber), so that outliers cannot drag a row.
constexpr double kOutlier = 0.1;
// A system counts as this many points, whatever it has; one with few counts for less.
constexpr double kSystemWeight = 2;
constexpr double kFewPoints = 8;
constexpr double kMicrosecond = 1e-6;
// Where nothing is known, and how far a level may stray from the one above (standard deviations of
// the logarithms).
const Parameters kStart(0.3, 0.0, std::log(7 * kMicrosecond));
const Parameters kRootSpread(0.7, 0.15, 2.0);
const Parameters kLevelSpread(0.4, 0.08, 0.8);
constexpr int kIterations = 60;

struct WeightedPoint {
  const FitPoint* point = nullptr;
  double weight = 1;
};

double Predict(const Parameters& p, const FitPoint& point) {
  const double filling = std::sqrt(std::exp(p[2]) / point.transfer);
  return std::exp(p[0]) * point.latency + std::exp(p[1]) * point.transfer * (1 + filling);
}

double LogError(const Parameters& p, const FitPoint& point) {
  return std::log(Predict(p, point) / point.measured) / kOutlier;
}

// d LogError / d parameters.
Parameters Gradient(const Parameters& p, const FitPoint& point) {
  const double filling = std::sqrt(std::exp(p[2]) / point.transfer);
  const double latency = std::exp(p[0]) * point.latency;
  const double transfer = std::exp(p[1]) * point.transfer;
  const double sum = latency + transfer * (1 + filling);
  return Parameters(latency, transfer * (1 + filling), transfer * filling * 0.5) / (sum * kOutlier);
}

class RowFit {
 public:
  // `least_time`: bound of the time factor's logarithm.
  RowFit(const std::vector<WeightedPoint>& points, const Parameters& mean, const Parameters& spread,
         double least_time)
      : points_(points), mean_(mean), spread_(spread), least_time_(least_time) {
    mean_[1] = std::max(mean_[1], least_time);
  }

  // The best of three starts: the error has more than one valley in latency and ramp.
  Parameters Run() const {
    Parameters best = mean_;
    double best_cost = Cost(best);
    for (const double step : {0.0, 1.0, -1.0}) {
      const Parameters found = Descend(mean_ + step * Parameters(0.5, 0, 1));
      const double cost = Cost(found);
      if (cost < best_cost) {
        best = found;
        best_cost = cost;
      }
    }
    return best;
  }

 private:
  double Cost(const Parameters& p) const {
    double cost = (p - mean_).cwiseQuotient(spread_).squaredNorm();
    for (const WeightedPoint& w : points_) {
      const double error = LogError(p, *w.point);
      cost += w.weight * 2 * (std::sqrt(1 + error * error) - 1);
    }
    return cost;
  }

  // Levenberg-Marquardt on reweighted squares.
  Parameters Descend(Parameters p) const {
    double cost = Cost(p);
    double damping = 1e-3;
    for (int i = 0; i < kIterations && damping < 1e9; ++i) {
      const Parameters inverse = spread_.cwiseProduct(spread_).cwiseInverse();
      Eigen::Matrix3d normal = inverse.asDiagonal();
      Parameters slope = inverse.cwiseProduct(p - mean_);
      for (const WeightedPoint& w : points_) {
        const double error = LogError(p, *w.point);
        const Parameters gradient = Gradient(p, *w.point);
        const double weight = w.weight / std::sqrt(1 + error * error);
        normal += weight * gradient * gradient.transpose();
        slope += weight * error * gradient;
      }
      normal.diagonal() *= 1 + damping;
      Parameters next = p - normal.ldlt().solve(slope);
      next[1] = std::max(next[1], least_time_);
      const double next_cost = next.allFinite() ? Cost(next) : cost;
      if (next_cost < cost) {
        p = next;
        cost = next_cost;
        damping = std::max(damping / 10, 1e-9);
      } else {
        damping *= 10;
      }
    }
    return p;
  }

  const std::vector<WeightedPoint>& points_;
  Parameters mean_, spread_;
  double least_time_;
};

struct RowKey {
  std::string transport, generation, algorithm, protocol;
  bool operator<(const RowKey& other) const {
    return std::tie(transport, generation, algorithm, protocol) <
           std::tie(other.transport, other.generation, other.algorithm, other.protocol);
  }
};

// A ring of the Simple protocol and point-to-point run at the rate of the links, which the profile
// states: no correction makes them faster.
double LeastTime(const RowKey& key) {
  const bool is_bound_by_links =
      (key.algorithm == "ring" && key.protocol == "simple") || key.algorithm == "p2p";
  return is_bound_by_links ? 0 : -std::numeric_limits<double>::infinity();
}

enum Level { kKind, kTransport, kGeneration, kAlgorithm, kAny };
constexpr std::array kLevels = {kKind, kTransport, kGeneration};
// For what no system of the table chose: an algorithm under another protocol, another algorithm.
constexpr std::array kLastResorts = {kAlgorithm, kAny};

RowKey KeyOf(const FitPoint& point, Level level) {
  const std::string kind = IsWithinNode(point.transport) ? "node" : "network";
  if (level == kAlgorithm) return {kind, "*", point.algorithm, "*"};
  if (level == kAny) return {kind, "*", "*", "*"};
  return {level == kKind ? kind : point.transport, level == kGeneration ? point.generation : "*",
          point.algorithm, point.protocol};
}

// The points of each row; in a row every system weighs the same.
std::map<RowKey, std::vector<WeightedPoint>> RowsOf(const std::vector<FitPoint>& points,
                                                    Level level) {
  std::map<RowKey, std::vector<WeightedPoint>> rows;
  for (const FitPoint& point : points) {
    const bool is_usable = point.latency > 0 && point.transfer > 0 && point.measured > 0;
    if (is_usable) rows[KeyOf(point, level)].push_back({&point, 1});
  }
  for (auto& [key, members] : rows) {
    std::map<std::string_view, double> count;
    for (const WeightedPoint& w : members) ++count[w.point->group];
    for (WeightedPoint& w : members) {
      w.weight = kSystemWeight / std::max(kFewPoints, count[w.point->group]);
    }
  }
  return rows;
}

CollectiveCorrection MakeRow(const RowKey& key, const Parameters& p,
                             const std::vector<WeightedPoint>& points) {
  CollectiveCorrection row;
  row.transport = key.transport;
  row.generation = key.generation;
  row.algorithm = key.algorithm;
  row.protocol = key.protocol;
  row.latency_factor = std::exp(p[0]);
  row.time_factor = std::exp(p[1]);
  row.ramp = DurationFromSeconds(std::exp(p[2]));
  std::vector<double> errors;
  row.smallest = row.largest = points.front().point->size;
  for (const WeightedPoint& w : points) {
    row.smallest = std::min(row.smallest, w.point->size);
    row.largest = std::max(row.largest, w.point->size);
    errors.push_back(std::abs(Predict(p, *w.point) / w.point->measured - 1));
  }
  row.residual = Quantile(std::move(errors), 0.5);
  return row;
}

}  // namespace

CollectiveCorrections FitCorrections(const std::vector<FitPoint>& points, const std::string& name) {
  std::map<RowKey, Parameters> found;
  std::vector<std::vector<CollectiveCorrection>> levels;
  for (const Level level : kLevels) {
    levels.emplace_back();
    for (const auto& [key, members] : RowsOf(points, level)) {
      const bool is_root = level == kKind;
      const FitPoint& first = *members.front().point;
      const Parameters mean =
          is_root ? kStart : found.at(KeyOf(first, kLevels[std::size_t{level} - 1U]));
      const Parameters p =
          RowFit(members, mean, is_root ? kRootSpread : kLevelSpread, LeastTime(key)).Run();
      found[key] = p;
      levels.back().push_back(MakeRow(key, p, members));
    }
  }
  CollectiveCorrections table;
  table.name = name;
  for (auto level = levels.rbegin(); level != levels.rend(); ++level) {
    table.rows.insert(table.rows.end(), level->begin(), level->end());
  }
  for (const Level level : kLastResorts) {
    for (const auto& [key, members] : RowsOf(points, level)) {
      const Parameters p = RowFit(members, kStart, kRootSpread, LeastTime(key)).Run();
      table.rows.push_back(MakeRow(key, p, members));
    }
  }
  return table;
}

}  // namespace stepsim
