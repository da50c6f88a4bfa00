#include "models/calibration/curve_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "models/calibration/error_statistics.h"
#include "models/calibration/robust_fit.h"
#include "models/cost/measured_curve.h"
#include "sim/base/check.h"
#include "sim/base/units.h"

namespace stepsim {
namespace {

// Of a normal distribution: from the 10th to the 90th percentile.
constexpr double kSpreadToSigma = 2.563;
constexpr double kOutlierWeight = 0.05;  // below: the fit hardly looked at it

struct Key {
  std::string backend;
  CollectiveOp op = CollectiveOp::kAllReduce;
  std::int64_t nodes = 1, ranks = 1, max_ctas = 0;
  std::string algorithm, protocol;
  auto Tie() const { return std::tie(backend, op, nodes, ranks, max_ctas, algorithm, protocol); }
  bool operator<(const Key& other) const { return Tie() < other.Tie(); }
};

Key KeyOf(const MeasuredCall& call, bool by_algorithm) {
  return {call.backend,
          call.op,
          call.nodes,
          call.ranks,
          call.max_ctas,
          by_algorithm && !call.algorithm.empty() ? call.algorithm : "*",
          by_algorithm && !call.protocol.empty() ? call.protocol : "*"};
}

using Groups = std::map<Key, std::vector<MeasuredCall>>;

std::map<std::int64_t, std::vector<double>> TimesBySize(const std::vector<MeasuredCall>& calls) {
  std::map<std::int64_t, std::vector<double>> times;
  for (const MeasuredCall& call : calls) times[call.bytes].push_back(call.time.seconds);
  return times;
}

double SpreadOf(const Timing& time) {
  return time.p90 > time.p10 && time.p10 > 0 ? (time.p90 - time.p10) / kSpreadToSigma : 0;
}

// latency + beta S + gamma sqrt(S): linear in all three.
LinearFit FitSmooth(const std::vector<MeasuredCall>& calls) {
  std::vector<std::vector<double>> rows;
  std::vector<double> times, spreads;
  for (const MeasuredCall& call : calls) {
    const auto bytes = static_cast<double>(call.bytes);
    rows.push_back({1, bytes, std::sqrt(bytes)});
    times.push_back(call.time.seconds);
    spreads.push_back(SpreadOf(call.time));
  }
  return FitNonNegative(rows, times, spreads);
}

void SetSmooth(const LinearFit& fit, CollectiveCurve* curve) {
  const double latency = fit.parameters[0], beta = fit.parameters[1], gamma = fit.parameters[2];
  curve->latency = DurationFromSeconds(latency);
  curve->latency_error = latency > 0 ? fit.errors[0] / latency : 0;
  constexpr double kLeastBeta = 1e-17;  // no link is that fast: nothing depends on the size
  if (beta <= kLeastBeta) return;
  curve->bandwidth = Bandwidth{1 / beta};
  curve->bandwidth_error = fit.errors[1] / beta;
  // sqrt(ramp x T) = gamma sqrt(S) with T = beta S.
  constexpr double kLongestRamp = 3600;
  curve->ramp = DurationFromSeconds(std::min(gamma * gamma / beta, kLongestRamp));
}

void SetKnots(const std::vector<MeasuredCall>& calls, CollectiveCurve* curve) {
  curve->knots.clear();
  for (auto& [bytes, times] : TimesBySize(calls)) {
    curve->knots.push_back({Bytes{bytes}, DurationFromSeconds(Quantile(times, 0.5))});
  }
}

std::vector<MeasuredCall> Without(const std::vector<MeasuredCall>& calls, std::int64_t bytes) {
  std::vector<MeasuredCall> others;
  for (const MeasuredCall& call : calls) {
    if (call.bytes != bytes) others.push_back(call);
  }
  return others;
}

// Errors of sizes left out, smooth and with knots. The smallest and the largest stay: between
// measured sizes is where a curve is used.
struct LeftOut {
  std::vector<double> smooth, knots;
};
LeftOut PredictLeftOut(const std::vector<MeasuredCall>& calls, const CollectiveCurve& whole) {
  LeftOut errors;
  const auto times = TimesBySize(calls);
  for (auto it = std::next(times.begin()); std::next(it) != times.end(); ++it) {
    const std::vector<MeasuredCall> others = Without(calls, it->first);
    CollectiveCurve curve = whole;
    curve.knots.clear();
    SetSmooth(FitSmooth(others), &curve);
    const double measured = Quantile(it->second, 0.5);
    const auto bytes = static_cast<double>(it->first);
    errors.smooth.push_back(std::abs(SmoothSeconds(curve, bytes) / measured - 1));
    SetKnots(others, &curve);
    errors.knots.push_back(std::abs(CurveSeconds(curve, bytes) / measured - 1));
  }
  return errors;
}

// Small errors are noise, large ones count in proportion.
double Loss(const std::vector<double>& errors) {
  constexpr double kNoise = 0.02;
  double sum = 0;
  for (const double error : errors) sum += std::hypot(error, kNoise);
  return sum / static_cast<double>(errors.size());
}

std::string NameOf(const Key& key) {
  std::string name = fmt::format("{}, {} ranks on {} node{}", ToString(key.op), key.ranks,
                                 key.nodes, key.nodes == 1 ? "" : "s");
  if (key.backend != "nccl") name += ", " + key.backend;
  if (key.algorithm != "*") name += fmt::format(", {} {}", key.algorithm, key.protocol);
  if (key.max_ctas > 0) name += fmt::format(", at most {} CTAs", key.max_ctas);
  return name;
}

std::string RangeOf(const std::map<std::int64_t, std::vector<double>>& times) {
  return fmt::format("{} to {}", FormatBytes(Bytes{times.begin()->first}),
                     FormatBytes(Bytes{times.rbegin()->first}));
}

std::string ValueOf(const CollectiveCurve& curve) {
  const auto error = [](double fraction) {
    constexpr double kShown = 0.005;
    return fraction > kShown ? fmt::format(" ± {:.0f}%", 100 * fraction) : std::string();
  };
  std::string text =
      curve.latency > Duration::zero()
          ? fmt::format("{}{}", FormatTime(curve.latency), error(curve.latency_error))
          : "no latency";
  if (curve.bandwidth.value > 0) {
    text += fmt::format(" + S / {}{}", FormatBandwidth(curve.bandwidth.value),
                        error(curve.bandwidth_error));
  }
  if (curve.ramp > Duration::zero()) text += fmt::format(", ramp {}", FormatTime(curve.ramp));
  if (!curve.knots.empty()) text += fmt::format(", {} knots", curve.knots.size());
  return text;
}

bool IsUsable(const MeasuredCall& call) {
  constexpr double kShortest = 1e-9;  // seconds
  constexpr std::int64_t kMostRanks = 10'000'000, kMostNodes = 1'000'000;
  return call.time.seconds >= kShortest && call.bytes > 0 && call.ranks > 1 &&
         call.ranks <= kMostRanks && call.nodes <= std::min(call.ranks, kMostNodes);
}

// Groups whose algorithms are known stay apart where each has sizes enough.
Groups GroupsOf(const std::vector<MeasuredCall>& calls) {
  Groups whole;
  for (const MeasuredCall& call : calls) {
    if (IsUsable(call)) {
      whole[KeyOf(call, false)].push_back(call);
    }
  }
  Groups groups;
  for (auto& [key, members] : whole) {
    Groups parts;
    for (const MeasuredCall& call : members) parts[KeyOf(call, true)].push_back(call);
    const bool is_split = std::all_of(parts.begin(), parts.end(), [](const auto& part) {
      return part.first.algorithm != "*" && TimesBySize(part.second).size() >= kFewestSizes;
    });
    if (is_split) {
      groups.merge(parts);
    } else {
      groups[key] = std::move(members);
    }
  }
  return groups;
}

void AddPoints(const Key& key, const std::vector<MeasuredCall>& calls, CurveFits& fits) {
  const auto times = TimesBySize(calls);
  for (const auto& [bytes, values] : times) {
    CollectivePoint point;
    point.collective = ToString(key.op);
    point.nodes = key.nodes;
    point.ranks = key.ranks;
    point.size = Bytes{bytes};
    point.time = DurationFromSeconds(Quantile(values, 0.5));
    fits.points.push_back(std::move(point));
  }
  FitRecord record;
  record.what = NameOf(key);
  record.value =
      fmt::format("{} size{} taken as measured", times.size(), times.size() == 1 ? "" : "s");
  record.points = static_cast<std::int64_t>(calls.size());
  record.range = RangeOf(times);
  record.note = fmt::format("a curve needs {} sizes", kFewestSizes);
  fits.records.push_back(std::move(record));
}

}  // namespace

CurveFit FitCurve(const std::vector<MeasuredCall>& calls) {
  const auto times = TimesBySize(calls);
  SIM_CHECK(times.size() >= kFewestSizes, "a curve needs a few sizes");
  const LinearFit smooth = FitSmooth(calls);
  CurveFit fit;
  CollectiveCurve& curve = fit.curve;
  const MeasuredCall& first = calls.front();
  curve.collective = ToString(first.op);
  curve.ranks = first.ranks;
  curve.nodes = first.nodes;
  curve.backend = first.backend;
  curve.max_ctas = first.max_ctas;
  SetSmooth(smooth, &curve);
  const LeftOut left_out = PredictLeftOut(calls, curve);
  // More freedom must earn its place.
  constexpr double kEarned = 0.9;
  const bool has_knots = Loss(left_out.knots) < kEarned * Loss(left_out.smooth);
  if (has_knots) SetKnots(calls, &curve);
  const std::vector<double>& errors = has_knots ? left_out.knots : left_out.smooth;
  curve.residual = Quantile(errors, 0.5);
  curve.residual_p90 = Quantile(errors, 0.9);
  curve.smallest = Bytes{times.begin()->first};
  curve.largest = Bytes{times.rbegin()->first};
  curve.points = static_cast<std::int64_t>(calls.size());
  fit.record.points = curve.points;
  fit.record.outliers = has_knots ? 0
                                  : std::count_if(smooth.weights.begin(), smooth.weights.end(),
                                                  [](double w) { return w < kOutlierWeight; });
  fit.record.residual = curve.residual;
  fit.record.residual_p90 = curve.residual_p90;
  fit.record.range = RangeOf(times);
  fit.record.value = ValueOf(curve);
  if (curve.bandwidth.value <= 0) {
    fit.record.note = "sizes too small to tell the bandwidth";
  } else if (curve.latency == Duration::zero()) {
    fit.record.note = "sizes too large to tell the latency";
  }
  return fit;
}

CurveFits FitCurves(const std::vector<MeasuredCall>& calls) {
  CurveFits fits;
  for (auto& [key, members] : GroupsOf(calls)) {
    if (TimesBySize(members).size() < kFewestSizes) {
      AddPoints(key, members, fits);
      continue;
    }
    CurveFit fit = FitCurve(members);
    fit.curve.algorithm = key.algorithm;
    fit.curve.protocol = key.protocol;
    fit.record.what = NameOf(key);
    fits.curves.push_back(std::move(fit.curve));
    fits.records.push_back(std::move(fit.record));
  }
  return fits;
}

}  // namespace stepsim
