#include "tools/sweep/curve.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "sim/base/nearest.h"
#include "sim/base/units.h"

namespace stepsim {
namespace {

constexpr std::string_view kDefaultY = "step_time_s";

template <class Names>
[[noreturn]] void FailUnknown(std::string_view option, const std::string& name,
                              const Names& names) {
  const std::string nearest = Nearest(name, names);
  throw ConfigError(
      {std::string(option), 0, 0},
      fmt::format("found '{}', allowed: {}{}", name, fmt::join(names, ", "),
                  nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest)));
}

class CurveMaker {
 public:
  CurveMaker(const SweepResults& results, const CurveSpec& spec)
      : results_(results), header_(results.header()), spec_(spec) {}

  Curve Make() {
    ChooseY();
    ChooseX();
    ChooseSeries();
    results_.VisitRows([this](const ResultRow& row) { Add(row); });
    for (CurveSeries& series : curve_.series) Finish(series);
    curve_.is_log_x = !curve_.has_text_x && IsLogX();
    curve_.is_log_y = IsLogY();
    return std::move(curve_);
  }

 private:
  std::size_t AxisIndex(std::string_view option, const std::string& path) const {
    std::vector<std::string> paths;
    for (std::size_t i = 0; i < header_.axes.size(); ++i) {
      const std::string& full = header_.axes[i].path;
      if (full == path || full == "hardware." + path) return i;
      paths.push_back(full);
    }
    FailUnknown(option, path, paths);
  }

  void ChooseY() {
    curve_.sweep = header_.sweep;
    const bool has_default =
        std::count(header_.metrics.begin(), header_.metrics.end(), kDefaultY) > 0;
    curve_.y = !spec_.y.empty() ? spec_.y
               : has_default    ? std::string(kDefaultY)
                                : header_.metrics.front();
    const auto found = std::find(header_.metrics.begin(), header_.metrics.end(), curve_.y);
    if (found == header_.metrics.end()) FailUnknown("curve.y", curve_.y, header_.metrics);
    y_ = static_cast<std::size_t>(found - header_.metrics.begin());
    for (const Metric& metric : Metrics()) {
      if (metric.name != curve_.y) continue;
      curve_.y_unit = metric.unit;
      curve_.more_is_better = metric.more_is_better;
    }
  }

  // The axis of numbers with the most values, of equal ones the last.
  void ChooseX() {
    std::vector<bool> has_text(header_.axes.size());
    std::vector<std::set<std::string>> values(header_.axes.size());
    results_.VisitRows([&](const ResultRow& row) {
      for (std::size_t i = 0; i < row.resolved.size(); ++i) {
        if (!row.resolved[i]) has_text[i] = true;
        values[i].insert(row.axes[i]);
      }
    });
    x_ = header_.axes.size() - 1;
    std::size_t most = 0;
    for (std::size_t i = 0; i < has_text.size() && spec_.x.empty(); ++i) {
      if (has_text[i] || values[i].size() < most) continue;
      x_ = i;
      most = values[i].size();
    }
    if (!spec_.x.empty()) x_ = AxisIndex("curve.x", spec_.x);
    curve_.has_text_x = has_text[x_];
    curve_.x = header_.axes[x_].path;
    // The texts of quantities have their unit.
    if (!header_.axes[x_].is_quantity) curve_.x_unit = header_.axes[x_].unit;
  }

  void ChooseSeries() {
    std::vector<bool> is_used(header_.axes.size());
    is_used[x_] = true;
    for (const std::string& path : spec_.series) {
      const std::size_t axis = AxisIndex("curve.series", path);
      if (!is_used[axis]) series_.push_back(axis);
      is_used[axis] = true;
    }
    for (std::size_t i = 0; i < is_used.size(); ++i) {
      if (is_used[i]) continue;
      if (spec_.series.empty()) {
        series_.push_back(i);
      } else {
        curve_.best_of.push_back(header_.axes[i].path);
      }
    }
  }

  std::string SeriesName(const ResultRow& row) const {
    std::string name;
    for (const std::size_t axis : series_) {
      if (!name.empty()) name += ", ";
      const std::string& path = header_.axes[axis].path;
      const std::string& text = row.axes[axis];
      const bool is_number =
          !text.empty() && text.find_first_not_of("0123456789.e+-") == std::string::npos;
      const bool speaks_for_itself =
          series_.size() == 1 && !is_number && text != "true" && text != "false";
      name +=
          speaks_for_itself ? text : fmt::format("{}={}", path.substr(path.rfind('.') + 1), text);
    }
    return name;
  }

  void Add(const ResultRow& row) {
    if (!row.error_kind.empty() && curve_.errors++ == 0) curve_.first_error = row.error_text;
    if (!row.filtered.empty()) ++curve_.filtered;
    if (!row.HasStep() || !row.metrics[y_]) return;
    CurvePoint point;
    point.label = row.axes[x_];
    point.y = *row.metrics[y_];
    const auto number =
        static_cast<double>(texts_.emplace(point.label, texts_.size()).first->second);
    point.x = curve_.has_text_x ? number : *row.resolved[x_];
    const std::string name = SeriesName(row);
    auto [slot, is_new] = by_name_.emplace(name, curve_.series.size());
    if (is_new) curve_.series.push_back({name, {}, 0, 0, 0});
    points_[{slot->second, point.x}] = Better(points_, {slot->second, point.x}, point);
  }

  using Points = std::map<std::pair<std::size_t, double>, CurvePoint>;
  CurvePoint Better(const Points& points, const Points::key_type& key,
                    const CurvePoint& point) const {
    const auto found = points.find(key);
    return found == points.end() || IsBetter(point.y, found->second.y) ? point : found->second;
  }
  bool IsBetter(double a, double b) const { return curve_.more_is_better ? a > b : a < b; }

  void Finish(CurveSeries& series) {
    const auto number = static_cast<std::size_t>(&series - curve_.series.data());
    for (auto it = points_.lower_bound({number, -HUGE_VAL});
         it != points_.end() && it->first.first == number; ++it) {
      series.points.push_back(it->second);
    }
    for (std::size_t i = 1; i < series.points.size(); ++i) {
      if (IsBetter(series.points[i].y, series.points[series.best].y)) series.best = i;
    }
    const double best = series.points[series.best].y;
    const auto is_near = [&](std::size_t i) {
      return std::abs(series.points[i].y - best) <= kPlateau * std::abs(best);
    };
    series.plateau_begin = series.plateau_end = series.best;
    while (series.plateau_begin > 0 && is_near(series.plateau_begin - 1)) --series.plateau_begin;
    while (series.plateau_end + 1 < series.points.size() && is_near(series.plateau_end + 1)) {
      ++series.plateau_end;
    }
  }

  // Are the steps between neighbours more even as factors than as differences?
  bool IsLogX() const {
    std::vector<double> all;
    for (const auto& [key, point] : points_) all.push_back(key.second);
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    if (all.size() < 3 || all.front() <= 0) return false;
    std::vector<double> steps, factors;
    for (std::size_t i = 1; i < all.size(); ++i) {
      steps.push_back(all[i] - all[i - 1]);
      factors.push_back(std::log(all[i] / all[i - 1]));
    }
    return Unevenness(factors) < Unevenness(steps);
  }

  // Standard deviation over mean.
  static double Unevenness(const std::vector<double>& values) {
    double sum = 0, squares = 0;
    for (const double value : values) {
      sum += value;
      squares += value * value;
    }
    const double count = static_cast<double>(values.size());
    const double mean = sum / count;
    return std::sqrt(std::max(squares / count - mean * mean, 0.0)) / mean;
  }

  bool IsLogY() const {
    constexpr double kWide = 8;
    double low = HUGE_VAL, high = -HUGE_VAL;
    for (const auto& [key, point] : points_) {
      low = std::min(low, point.y);
      high = std::max(high, point.y);
    }
    return low > 0 && high / low > kWide;
  }

  const SweepResults& results_;
  const ResultHeader& header_;
  const CurveSpec& spec_;
  Curve curve_;
  std::size_t x_ = 0, y_ = 0;
  std::vector<std::size_t> series_;  // axes
  std::map<std::string, std::size_t> texts_, by_name_;
  Points points_;
};

std::string_view Short(const std::string& path) {
  return std::string_view(path).substr(path.rfind('.') + 1);
}

std::string DescribeSeries(const Curve& curve, const CurveSeries& series) {
  const CurvePoint& best = series.points[series.best];
  std::string text = series.name.empty() ? "" : series.name + ": ";
  text +=
      fmt::format("best {} at {} {}", FormatY(curve, best.y), Short(curve.x), FormatX(curve, best));
  if (curve.has_text_x || series.points.size() == 1) return text;
  const CurvePoint& begin = series.points[series.plateau_begin];
  const CurvePoint& end = series.points[series.plateau_end];
  if (series.plateau_begin == series.plateau_end) return text + "; no other is within 1 %";
  text += fmt::format("; within 1 % from {} to {}", FormatX(curve, begin), FormatX(curve, end));
  if (series.plateau_begin == 0) text += ", the smallest tried";
  if (series.plateau_end + 1 == series.points.size()) text += ", the largest tried";
  return text;
}

}  // namespace

Curve MakeCurve(const SweepResults& results, const CurveSpec& spec) {
  return CurveMaker(results, spec).Make();
}

std::string FormatY(const Curve& curve, double value) {
  if (curve.y_unit == "s") return FormatTime(value);
  if (curve.y_unit == "bytes") return FormatMemory(Bytes{static_cast<std::int64_t>(value)});
  if (curve.y_unit == "fraction") return fmt::format("{:.1f} %", value * 100);
  return curve.y_unit == "count" ? fmt::format("{:.4g}", value)
                                 : fmt::format("{:.4g} {}", value, curve.y_unit);
}

std::string FormatX(const Curve& curve, const CurvePoint& point) {
  const bool is_plain = curve.x_unit.empty() || curve.has_text_x;
  return is_plain ? point.label : fmt::format("{} {}", point.label, curve.x_unit);
}

std::size_t BestSeries(const Curve& curve) {
  const auto y = [&](std::size_t i) { return curve.series[i].points[curve.series[i].best].y; };
  std::size_t best = 0;
  for (std::size_t i = 1; i < curve.series.size(); ++i) {
    if (curve.more_is_better ? y(i) > y(best) : y(i) < y(best)) best = i;
  }
  return best;
}

std::string DescribeCurve(const Curve& curve) {
  std::string text = fmt::format("{} over {}", curve.y, curve.x);
  if (!curve.best_of.empty()) text += fmt::format(", best of {}", fmt::join(curve.best_of, ", "));
  text += "\n";
  const std::size_t shown = std::min(curve.series.size(), kMostShownSeries);
  for (std::size_t i = 0; i < shown; ++i) {
    text += fmt::format("  {}\n", DescribeSeries(curve, curve.series[i]));
  }
  if (shown < curve.series.size()) {
    text += fmt::format("  ... and {} more curves; --export has them all\n",
                        curve.series.size() - shown);
  }
  if (curve.series.size() > 1) {
    text +=
        fmt::format("  best of all: {}\n", DescribeSeries(curve, curve.series[BestSeries(curve)]));
  }
  return text;
}

}  // namespace stepsim
