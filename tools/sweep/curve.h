// How does a metric go along an axis, where is its best value, and how far may one be off?
//
//   ethernet-25g: best 1.43 s at 50 MiB, within 1 % from 25 to 100 MiB
//
// Where several points of one curve share an x (axes that are neither x nor series), the best of
// them stands there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/metrics/metric_table.h"
#include "tools/sweep/results.h"

namespace stepsim {

inline constexpr double kPlateau = 0.01;  // of the best value

struct CurvePoint {
  double x = 0;       // of texts their number, in the order in which they came
  std::string label;  // of x
  double y = 0;
};

struct CurveSeries {
  std::string name;                // "" where there is one curve
  std::vector<CurvePoint> points;  // ascending x
  std::size_t best = 0;
  std::size_t plateau_begin = 0, plateau_end = 0;  // first and last of those around the best
};

struct Curve {
  std::string sweep;
  std::string x, x_unit;
  std::string y, y_unit;
  bool more_is_better = false;
  bool has_text_x = false;
  bool is_log_x = false, is_log_y = false;
  std::vector<CurveSeries> series;
  std::vector<std::string> best_of;  // axes of which the best point was taken
  std::uint64_t errors = 0, filtered = 0;
  std::string first_error;
};

// `spec`: empty parts are chosen. Throws ConfigError when it names what the results do not have.
Curve MakeCurve(const SweepResults& results, const CurveSpec& spec);

std::string FormatY(const Curve& curve, double value);             // "1.43 s", "38.1 %", "61.2 GiB"
std::string FormatX(const Curve& curve, const CurvePoint& point);  // "50 MiB"

// Of the best point of all. REQUIRES: a series.
std::size_t BestSeries(const Curve& curve);

// Text and plot show the first so many.
inline constexpr std::size_t kMostShownSeries = 12;

// Best value and plateau of each series, one line each.
std::string DescribeCurve(const Curve& curve);
// Braille, with axes, at most `width` columns.
std::string PlotCurve(const Curve& curve, std::size_t width);
std::string CurveSvg(const Curve& curve);

}  // namespace stepsim
