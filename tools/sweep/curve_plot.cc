// The curve on a terminal: braille lines, a letter at each point where there are several curves.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "tools/sweep/curve.h"
#include "tools/sweep/curve_scale.h"

namespace stepsim {
namespace {

constexpr std::size_t kRows = 16;
constexpr std::size_t kWidest = 100;
constexpr std::size_t kNarrowest = 20;
constexpr std::size_t kMargin = 11;  // for the values of y
constexpr std::size_t kTicks = 4;

// Two by four dots a character.
class Canvas {
 public:
  Canvas(std::size_t columns, std::size_t rows)
      : columns_(columns), rows_(rows), dots_(columns * rows), letters_(columns * rows) {}

  double width() const { return static_cast<double>(columns_ * 2 - 1); }
  double height() const { return static_cast<double>(rows_ * 4 - 1); }

  // From the lower left, in dots.
  void Dot(double x, double y) {
    const auto column = static_cast<std::size_t>(std::lround(x));
    const auto row = static_cast<std::size_t>(std::lround(height() - y));
    constexpr std::uint8_t kBits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    dots_[Cell(column, row)] |= kBits[row % 4][column % 2];
  }
  void Line(double x0, double y0, double x1, double y1) {
    const double steps = std::max({std::abs(x1 - x0), std::abs(y1 - y0), 1.0});
    for (double i = 0; i <= steps; ++i) {
      Dot(x0 + (x1 - x0) * i / steps, y0 + (y1 - y0) * i / steps);
    }
  }
  void Letter(double x, double y, char letter) {
    letters_[Cell(static_cast<std::size_t>(std::lround(x)),
                  static_cast<std::size_t>(std::lround(height() - y)))] = letter;
  }

  std::string Row(std::size_t row) const {
    std::string text;
    for (std::size_t i = row * columns_; i < (row + 1) * columns_; ++i) {
      if (letters_[i] != '\0') {
        text += letters_[i];
      } else if (dots_[i] == 0) {
        text += ' ';
      } else {  // U+2800 and the dots, as UTF-8
        text += '\xe2';
        text += static_cast<char>(0xa0 + dots_[i] / 64);
        text += static_cast<char>(0x80 + dots_[i] % 64);
      }
    }
    while (!text.empty() && text.back() == ' ') text.pop_back();
    return text;
  }

 private:
  std::size_t Cell(std::size_t column, std::size_t row) const {
    return std::min(row / 4, rows_ - 1) * columns_ + std::min(column / 2, columns_ - 1);
  }

  std::size_t columns_, rows_;
  std::vector<std::uint8_t> dots_;
  std::vector<char> letters_;
};

char LetterOf(const Curve& curve, std::size_t series) {
  if (curve.series.size() == 1) return '*';
  constexpr std::size_t kLetters = 26;
  return static_cast<char>('a' + series % kLetters);
}

std::size_t Shown(const Curve& curve) { return std::min(curve.series.size(), kMostShownSeries); }

void Draw(const Curve& curve, const Scale& x, const Scale& y, Canvas& canvas) {
  for (std::size_t s = 0; s < Shown(curve); ++s) {
    const CurveSeries& series = curve.series[s];
    const auto at_x = [&](const CurvePoint& p) { return x.At(p.x) * canvas.width(); };
    const auto at_y = [&](const CurvePoint& p) { return y.At(p.y) * canvas.height(); };
    for (std::size_t i = 0; i + 1 < series.points.size(); ++i) {
      const CurvePoint &a = series.points[i], &b = series.points[i + 1];
      canvas.Line(at_x(a), at_y(a), at_x(b), at_y(b));
    }
  }
  for (std::size_t s = 0; s < Shown(curve); ++s) {
    const CurveSeries& series = curve.series[s];
    for (std::size_t i = 0; i < series.points.size(); ++i) {
      const CurvePoint& point = series.points[i];
      const double column = x.At(point.x) * canvas.width(), row = y.At(point.y) * canvas.height();
      canvas.Dot(column, row);
      const bool is_shown = curve.series.size() > 1 || i == series.best;
      if (is_shown) canvas.Letter(column, row, LetterOf(curve, s));
    }
  }
}

// Labels of x below the picture, as many as find room.
std::string LabelsX(const Curve& curve, const Scale& x, std::size_t columns) {
  std::string line(columns + kMargin, ' ');
  std::size_t free_from = 0;
  for (const Tick& tick : TicksX(curve)) {
    const double middle = x.At(tick.value) * static_cast<double>(columns - 1);
    const double half = static_cast<double>(tick.label.size()) / 2;
    const auto begin = static_cast<std::size_t>(std::max(middle - half + 0.5, 0.0));
    const std::size_t end = begin + tick.label.size();
    if (begin < free_from || end > line.size()) continue;
    line.replace(begin, tick.label.size(), tick.label);
    free_from = end + 2;
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

}  // namespace

std::string PlotCurve(const Curve& curve, std::size_t width) {
  if (curve.series.empty()) return "";
  const std::size_t columns =
      std::clamp(width, kNarrowest + kMargin, kWidest + kMargin) - kMargin - 1;
  const Scale x = ScaleX(curve), y = ScaleY(curve);
  Canvas canvas(columns, kRows);
  Draw(curve, x, y, canvas);
  std::vector<std::string> labels(kRows);
  for (const Tick& tick : TicksY(curve, y, kTicks)) {
    const double row = (1 - y.At(tick.value)) * static_cast<double>(kRows - 1);
    labels[static_cast<std::size_t>(std::lround(std::clamp(row, 0.0, kRows - 1.0)))] = tick.label;
  }
  std::string text = fmt::format("{}{}\n", curve.y, curve.is_log_y ? " (log)" : "");
  for (std::size_t i = 0; i < kRows; ++i) {
    text += fmt::format("{:>{}} {}{}\n", labels[i], kMargin - 2,
                        labels[i].empty() ? "\u2502" : "\u2524", canvas.Row(i));
  }
  text += std::string(kMargin - 1, ' ') + "\u2514";
  for (std::size_t i = 0; i < columns; ++i) text += "\u2500";
  text += "\n" + std::string(kMargin, ' ') + LabelsX(curve, x, columns) + "\n";
  text +=
      fmt::format("{:>{}}\n",
                  fmt::format("{}{}{}", curve.x, curve.x_unit.empty() ? "" : ", " + curve.x_unit,
                              curve.is_log_x ? " (log)" : ""),
                  columns + kMargin);
  if (curve.series.size() == 1) return text;
  for (std::size_t i = 0; i < Shown(curve); ++i) {
    text += fmt::format("  {} {}\n", LetterOf(curve, i), curve.series[i].name);
  }
  return text;
}

}  // namespace stepsim
