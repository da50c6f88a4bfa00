#include "tools/sweep/curve_scale.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

namespace stepsim {
namespace {

void Cover(double value, bool is_first, Scale& scale) {
  scale.low = is_first ? value : std::min(scale.low, value);
  scale.high = is_first ? value : std::max(scale.high, value);
}

// A picture of one value has it in the middle; values that differ in rounding alone are one.
void Widen(Scale& scale) {
  constexpr double kSame = 1e-9;  // of the larger
  if (scale.high - scale.low > kSame * std::max(std::abs(scale.low), std::abs(scale.high))) return;
  const double room = scale.low == 0 ? 1 : std::abs(scale.low) / 2;
  scale.low -= room;
  scale.high += room;
}

// In which unit the values of an axis are shown: all in the same.
struct Shown {
  double factor = 1;
  const char* unit = "";
};
Shown ShownOf(const Curve& curve, double high) {
  constexpr double kGi = 1024.0 * 1024 * 1024;
  if (curve.y_unit == "fraction") return {100, " %"};
  if (curve.y_unit == "bytes") return {1 / kGi, " GiB"};
  if (curve.y_unit != "s") return {};
  if (high >= 1) return {1, " s"};
  return high >= 1e-3 ? Shown{1e3, " ms"} : Shown{1e6, " us"};
}

// 1, 2, 5, 10, ...: the smallest that is not less.
double RoundUp(double value) {
  const double power = std::pow(10, std::floor(std::log10(value)));
  for (const double step : {1.0, 2.0, 5.0}) {
    if (step * power >= value * (1 - 1e-9)) return step * power;
  }
  return 10 * power;
}

}  // namespace

double Scale::At(double value) const {
  if (is_log) return std::log(value / low) / std::log(high / low);
  return (value - low) / (high - low);
}

Scale ScaleX(const Curve& curve) {
  Scale scale;
  scale.is_log = curve.is_log_x;
  bool is_first = true;
  for (const CurveSeries& series : curve.series) {
    for (const CurvePoint& point : series.points) {
      Cover(point.x, is_first, scale);
      is_first = false;
    }
  }
  if (scale.high <= scale.low) scale.is_log = false;
  Widen(scale);
  return scale;
}

Scale ScaleY(const Curve& curve) {
  Scale scale;
  scale.is_log = curve.is_log_y;
  bool is_first = true;
  for (const CurveSeries& series : curve.series) {
    for (const CurvePoint& point : series.points) {
      Cover(point.y, is_first, scale);
      is_first = false;
    }
  }
  Widen(scale);
  if (scale.is_log) {
    scale.low /= 1.1;
    scale.high *= 1.1;
    return scale;
  }
  // A curve that uses most of its height from zero is shown from zero.
  const double room = (scale.high - scale.low) * 0.06;
  scale.low = scale.low >= 0 && scale.low < 0.4 * scale.high ? 0 : scale.low - room;
  scale.high += room;
  return scale;
}

std::vector<Tick> TicksX(const Curve& curve) {
  std::map<double, std::string> labels;
  for (const CurveSeries& series : curve.series) {
    for (const CurvePoint& point : series.points) labels.emplace(point.x, point.label);
  }
  std::vector<Tick> ticks;
  for (const auto& [value, label] : labels) ticks.push_back({value, label});
  return ticks;
}

std::vector<Tick> TicksY(const Curve& curve, const Scale& scale, std::size_t count) {
  const Shown shown = ShownOf(curve, scale.high);
  const double low = scale.low * shown.factor, high = scale.high * shown.factor;
  std::vector<Tick> ticks;
  const auto add = [&](double value) {
    if (value < low * (1 - 1e-12) || value > high) return;
    ticks.push_back({value / shown.factor, fmt::format("{:.6g}{}", value, shown.unit)});
  };
  if (scale.is_log && low > 0) {
    const bool is_narrow = high / low < 1e3;
    for (double power = std::pow(10, std::floor(std::log10(low))); power <= high; power *= 10) {
      add(power);
      if (is_narrow) add(2 * power);
      if (is_narrow) add(5 * power);
    }
    return ticks;
  }
  const double step = RoundUp((high - low) / static_cast<double>(std::max<std::size_t>(count, 1)));
  // No more than fit: RoundUp makes at most `count` steps of the range.
  const double first = std::ceil(low / step);
  for (std::size_t i = 0; i <= count && (first + static_cast<double>(i)) * step <= high; ++i) {
    add((first + static_cast<double>(i)) * step);
  }
  return ticks;
}

}  // namespace stepsim
