// The curve as a picture for a page: lines, points, the best point of each curve ringed and its
// plateau drawn thick.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "tools/sweep/curve.h"
#include "tools/sweep/curve_scale.h"

namespace stepsim {
namespace {

// Told apart by people who do not see red or green (Okabe and Ito 2008).
constexpr std::array<std::string_view, 8> kColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                      "#e69f00", "#56b4e9", "#000000", "#8c6d1f"};
constexpr double kLeft = 86, kTop = 52, kPlotWidth = 620, kPlotHeight = 360, kBottom = 62;
constexpr double kLegendRow = 34;
constexpr double kLetterWidth = 6.6;  // of 12-pixel text, at most about
constexpr double kDigitWidth = 7.7;   // of the widest usual font
constexpr std::size_t kTicks = 6;
constexpr std::size_t kLongestLegend = 24;

std::string Escape(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '&') {
      escaped += "&amp;";
    } else if (c == '<') {
      escaped += "&lt;";
    } else if (c == '>') {
      escaped += "&gt;";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string Text(double x, double y, std::string_view anchor, std::string_view text,
                 std::string_view more = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y,
                     anchor, more, Escape(text));
}

class SvgWriter {
 public:
  explicit SvgWriter(const Curve& curve) : curve_(curve), x_(ScaleX(curve)), y_(ScaleY(curve)) {}

  std::string Write() {
    const double legend = LegendWidth();
    const double width = kLeft + kPlotWidth + 24 + legend;
    const double rows = static_cast<double>(LegendRows());
    const double height = std::max(kTop + kPlotHeight + kBottom, kTop + rows * kLegendRow + 30);
    text_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
        "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"sans-serif\" font-size=\"12\" "
        "fill=\"#222\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
        width, height);
    text_ += Text(kLeft, 26, "start", curve_.sweep, " font-size=\"16\" font-weight=\"bold\"");
    DrawGrid();
    for (std::size_t i = 0; i < curve_.series.size(); ++i) DrawSeries(i);
    DrawLegend();
    return text_ + "</svg>\n";
  }

 private:
  double X(double value) const { return kLeft + x_.At(value) * kPlotWidth; }
  double Y(double value) const { return kTop + (1 - y_.At(value)) * kPlotHeight; }
  std::string_view Colour(std::size_t i) const { return kColours[i % kColours.size()]; }
  // After all colours once the lines are dashed.
  std::string_view Dash(std::size_t i) const {
    return i < kColours.size() ? "" : " stroke-dasharray=\"6 3\"";
  }

  std::string BestText(const CurveSeries& series) const {
    const CurvePoint& best = series.points[series.best];
    return fmt::format("best {} at {}", FormatY(curve_, best.y), FormatX(curve_, best));
  }

  std::size_t LegendRows() const { return std::min(curve_.series.size(), kLongestLegend); }

  double LegendWidth() const {
    std::size_t longest = 0;
    for (const CurveSeries& series : curve_.series) {
      longest = std::max({longest, series.name.size(), BestText(series).size()});
    }
    return static_cast<double>(longest) * kLetterWidth + 44;
  }

  void Line(double x0, double y0, double x1, double y1, std::string_view colour) {
    text_ += fmt::format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"/>\n", x0, y0,
        x1, y1, colour);
  }

  void DrawGrid() {
    const double bottom = kTop + kPlotHeight, right = kLeft + kPlotWidth;
    for (const Tick& tick : TicksY(curve_, y_, kTicks)) {
      Line(kLeft, Y(tick.value), right, Y(tick.value), "#e4e4e4");
      text_ += Text(kLeft - 8, Y(tick.value) + 4, "end", tick.label);
    }
    double free_from = 0;
    for (const Tick& tick : TicksX(curve_)) {
      Line(X(tick.value), bottom, X(tick.value), bottom + 5, "#444");
      const double half = static_cast<double>(tick.label.size()) * kDigitWidth / 2;
      if (X(tick.value) - half < free_from) continue;
      free_from = X(tick.value) + half + 8;
      text_ += Text(X(tick.value), bottom + 19, "middle", tick.label);
    }
    Line(kLeft, bottom, right, bottom, "#444");
    Line(kLeft, kTop, kLeft, bottom, "#444");
    text_ += Text(
        kLeft + kPlotWidth / 2, bottom + 44, "middle",
        fmt::format("{}{}{}", curve_.x, curve_.x_unit.empty() ? "" : " [" + curve_.x_unit + "]",
                    x_.is_log ? ", log" : ""));
    text_ +=
        Text(kLeft, kTop - 10, "start", fmt::format("{}{}", curve_.y, y_.is_log ? ", log" : ""));
  }

  std::string Path(const CurveSeries& series, std::size_t begin, std::size_t end) const {
    std::string path;
    for (std::size_t i = begin; i <= end; ++i) {
      const CurvePoint& point = series.points[i];
      path += fmt::format("{}{:.1f},{:.1f}", path.empty() ? "" : " ", X(point.x), Y(point.y));
    }
    return path;
  }

  void DrawSeries(std::size_t number) {
    const CurveSeries& series = curve_.series[number];
    const std::string_view colour = Colour(number);
    text_ += fmt::format("<g stroke=\"{}\" fill=\"none\" stroke-linejoin=\"round\">\n", colour);
    text_ += fmt::format(
        "<polyline points=\"{}\" stroke-width=\"7\" stroke-opacity=\"0.25\" "
        "stroke-linecap=\"round\"/>\n",
        Path(series, series.plateau_begin, series.plateau_end));
    text_ += fmt::format("<polyline points=\"{}\" stroke-width=\"1.8\"{}/>\n",
                         Path(series, 0, series.points.size() - 1), Dash(number));
    for (const CurvePoint& point : series.points) {
      text_ += fmt::format(
          "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.6\" fill=\"{}\"><title>{}: {}</title>"
          "</circle>\n",
          X(point.x), Y(point.y), colour, Escape(FormatX(curve_, point)),
          Escape(FormatY(curve_, point.y)));
    }
    const CurvePoint& best = series.points[series.best];
    text_ +=
        fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"6.5\" stroke-width=\"1.8\"/>\n</g>\n",
                    X(best.x), Y(best.y));
  }

  void DrawLegend() {
    const double left = kLeft + kPlotWidth + 24;
    for (std::size_t i = 0; i < LegendRows(); ++i) {
      const CurveSeries& series = curve_.series[i];
      const double y = kTop + static_cast<double>(i) * kLegendRow;
      text_ += fmt::format(
          "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" "
          "stroke-width=\"2.5\"{}/>\n",
          left, y + 4, left + 22, y + 4, Colour(i), Dash(i));
      text_ += Text(left + 30, y + 8, "start", series.name.empty() ? curve_.y : series.name);
      text_ +=
          Text(left + 30, y + 23, "start", BestText(series), " fill=\"#666\" font-size=\"11\"");
    }
    const double y = kTop + static_cast<double>(LegendRows()) * kLegendRow + 12;
    if (LegendRows() < curve_.series.size()) {
      text_ += Text(left, y + 16, "start",
                    fmt::format("and {} more", curve_.series.size() - LegendRows()),
                    " fill=\"#666\" font-size=\"11\"");
    }
    text_ +=
        Text(left, y, "start", "ring: best; thick: within 1 %", " fill=\"#666\" font-size=\"11\"");
  }

  const Curve& curve_;
  Scale x_, y_;
  std::string text_;
};

}  // namespace

std::string CurveSvg(const Curve& curve) { return SvgWriter(curve).Write(); }

}  // namespace stepsim
