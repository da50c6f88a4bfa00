#include "models/calibration/live_link.h"

#include <fast_float/fast_float.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "models/calibration/error_statistics.h"
#include "models/cost/measured_curve.h"
#include "sim/base/diagnostics.h"

namespace stepsim {
namespace {

// "mlp32_a500_g1.5" -> "mlp32", "a500", "g1.5".
std::vector<std::string_view> Words(std::string_view text) {
  std::vector<std::string_view> words;
  while (true) {
    const std::size_t end = text.find('_');
    words.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return words;
    text.remove_prefix(end + 1);
  }
}

// The number behind a letter: "a500" with 'a' is 500. nullopt: another word.
std::optional<double> NumberAfter(char letter, std::string_view word) {
  if (word.size() < 2 || word[0] != letter) return std::nullopt;
  double value = 0;
  const auto [end, error] =
      fast_float::from_chars(word.data() + 1, word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size() || !(value > 0) || value > 1e9) {
    return std::nullopt;
  }
  return value;
}

bool IsCount(std::string_view word, std::string_view stem) {
  return word.size() > stem.size() && word.substr(0, stem.size()) == stem &&
         std::all_of(word.begin() + static_cast<std::ptrdiff_t>(stem.size()), word.end(),
                     [](char c) { return c >= '0' && c <= '9'; });
}

struct Line {
  double latency = 0, per_byte = 0;
  double At(double bytes) const { return latency + per_byte * bytes; }
};

// Least squares of relative errors. A latency below zero is the burst that a token bucket lets
// through at once after a pause; a busy link has none, and its rate is that of the long run.
Line FitLine(const std::vector<std::pair<double, double>>& points) {
  double w = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (const auto& [bytes, seconds] : points) {
    const double weight = 1 / (seconds * seconds);
    w += weight;
    x += weight * bytes;
    y += weight * seconds;
    xx += weight * bytes * bytes;
    xy += weight * bytes * seconds;
  }
  const double determinant = w * xx - x * x;
  Line line;
  if (determinant > 0) line.per_byte = (w * xy - x * y) / determinant;
  if (determinant <= 0) line.per_byte = xy / xx;
  if (line.per_byte <= 0) return {y / w, 1e-18};
  line.latency = std::max(0.0, (y - line.per_byte * x) / w);
  return line;
}

// The smallest of a function over 0, step, 2 step, ..., most.
template <class Function>
double SmallestOver(double step, double most, Function function) {
  double best = 0, least = function(0.0);
  for (double value = step; value <= most; value += step) {
    const double at = function(value);
    if (at < least) least = at, best = value;
  }
  return best;
}

// The line, with knots where it misses what was measured by more than kMiss anywhere. A burst gets
// none: what it lets through at once is not there on a busy link.
constexpr double kMiss = 0.05;
CollectiveCurve CurveOf(const std::vector<std::pair<double, double>>& points) {
  const Line line = FitLine(points);
  CollectiveCurve curve;
  curve.nodes = 2;
  curve.backend = "gloo";
  curve.latency = DurationFromSeconds(line.latency);
  curve.bandwidth = {1 / line.per_byte};
  const auto largest_miss = [&] {
    double miss = 0;
    for (const auto& [bytes, seconds] : points) {
      miss = std::max(miss, std::abs(CurveSeconds(curve, bytes) / seconds - 1));
    }
    return miss;
  };
  if (line.latency > 0 && largest_miss() > kMiss) {
    for (const auto& [bytes, seconds] : points) {
      curve.knots.push_back(
          {Bytes{static_cast<std::int64_t>(bytes)}, DurationFromSeconds(seconds)});
    }
  }
  std::vector<double> errors;
  for (const auto& [bytes, seconds] : points) {
    errors.push_back(std::abs(line.At(bytes) / seconds - 1));
  }
  curve.residual = Quantile(std::move(errors), 0.5);
  curve.smallest = Bytes{static_cast<std::int64_t>(points.front().first)};
  curve.largest = Bytes{static_cast<std::int64_t>(points.back().first)};
  curve.points = static_cast<std::int64_t>(points.size());
  return curve;
}

// A collective beside compute on one core: what the core gives to whom, fairly shared.
struct Together {
  double transfer = 0;  // seconds
  double compute = 1;   // speed of what computes meanwhile
};
Together Beside(const CollectiveCurve& curve, double bytes, double core_demand) {
  const double alone = CurveSeconds(curve, bytes);
  const double share = std::max(0.0, 1 - ToSeconds(curve.latency) / alone);
  const double demand = core_demand * share;
  const double got = std::min(demand, std::max(0.5, 1 - demand));
  return {demand > got ? alone * demand / got : alone, 1 - got};
}

// Matrix products beside collectives in a row: each waits for its turn, in which the products run
// undisturbed, then transfers beside them. One demand has to explain both: how long the collectives
// take and how slow the products are.
void FitContention(const std::vector<LiveOverlap>& overlaps, LiveLink* link) {
  const auto wait_with = [&](double demand) {
    std::vector<double> waits;
    for (const LiveOverlap& o : overlaps) {
      waits.push_back(o.beside -
                      Beside(link->curve, static_cast<double>(o.bytes), demand).transfer);
    }
    return std::max(0.0, Quantile(std::move(waits), 0.5));
  };
  link->core_demand = SmallestOver(0.01, 1, [&](double demand) {
    const double wait = wait_with(demand);
    double error = 0;
    for (const LiveOverlap& o : overlaps) {
      const Together together = Beside(link->curve, static_cast<double>(o.bytes), demand);
      const double time = wait + together.transfer;
      const double work = wait + together.transfer * together.compute;
      error += std::abs(std::log(time / o.beside)) + std::abs(std::log(time / work / o.slow_down));
    }
    return error;
  });
  link->core_wait = wait_with(link->core_demand);
}

}  // namespace

// Links: NAME[_fifo]_1thread runs one of gloo's threads (fifo: with real-time priority, measured
// apart), NAME_variants is NAME. Configurations: NETWORK_copy keeps gradients apart from the
// buckets, NETWORK_plain runs without hooks, NETWORK_kN accumulates (the table says so too),
// NETWORK[_burnN]_aA_gG is an emulated link of A us and G Gbit/s.
LiveExperiment ParseExperiment(const std::string& link, const std::string& config) {
  LiveExperiment experiment;
  std::vector<std::string_view> kept;
  bool is_real_time = false;
  for (const std::string_view word : Words(link)) {
    if (word == "1thread") experiment.threads = 1;
    if (word == "fifo") is_real_time = true;
    if (word != "1thread" && word != "variants" && word != "fifo") kept.push_back(word);
  }
  experiment.curve = fmt::format("{}", fmt::join(kept, "_"));
  if (is_real_time) experiment.curve += "_fifo_1thread";
  kept.clear();
  for (const std::string_view word : Words(config)) {
    if (const auto latency = NumberAfter('a', word)) {
      experiment.emulated_latency = *latency * 1e-6;
    } else if (const auto rate = NumberAfter('g', word)) {
      experiment.emulated_bandwidth = *rate * 1e9 / 8;
    } else if (word == "copy") {
      experiment.bucket_view = false;
    } else if (word != "plain" && !IsCount(word, "k") && !IsCount(word, "burn")) {
      kept.push_back(word);
    }
  }
  experiment.network = fmt::format("{}", fmt::join(kept, "_"));
  if (experiment.emulated_latency && experiment.emulated_bandwidth) {
    experiment.threads = 1;
  } else {
    experiment.emulated_latency.reset();
    experiment.emulated_bandwidth.reset();
  }
  return experiment;
}

LiveLink FitLink(const LiveSweep& sweep, const LiveExperiment& experiment,
                 const std::string& config, double smallest) {
  LiveLink link;
  if (experiment.emulated_latency) {
    link.curve.nodes = 2;
    link.curve.backend = "gloo";
    link.curve.latency = DurationFromSeconds(*experiment.emulated_latency);
    link.curve.bandwidth = {*experiment.emulated_bandwidth};
    const auto factor = sweep.slow_downs.find(config);
    if (factor != sweep.slow_downs.end()) {
      link.core_demand = std::max(0.0, 1 - 1 / factor->second);
    }
    link.is_always_full = true;
    return link;
  }
  std::vector<std::pair<double, double>> points;
  const auto curve = sweep.curves.find(experiment.curve);
  if (curve != sweep.curves.end()) {
    std::copy_if(curve->second.begin(), curve->second.end(), std::back_inserter(points),
                 [&](const auto& point) { return point.first >= smallest; });
  }
  if (points.empty()) {
    std::vector<std::string> known;
    for (const auto& [name, unused] : sweep.curves) known.push_back(name);
    throw ConfigError(
        Place{}, fmt::format("link {}: found no all_reduce of {:.0f} bytes or more, allowed: a "
                             "curve of the link; there are: {}",
                             experiment.curve, smallest, fmt::join(known, ", ")));
  }
  link.curve = CurveOf(points);
  const auto overlaps = sweep.overlaps.find(experiment.curve);
  if (overlaps != sweep.overlaps.end()) FitContention(overlaps->second, &link);
  return link;
}

}  // namespace stepsim
