#include "models/study/required.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "sim/base/diagnostics.h"

namespace stepsim {
namespace {

constexpr double kPrecision = 1.005;  // two neighbours of a threshold differ by half a percent

class Search {
 public:
  Search(Trial& trial, const FreeVariable& variable, const Target& target)
      : trial_(trial), variable_(variable), target_(target) {}

  Requirement Run() {
    Requirement result;
    result.now = variable_.now(trial_.job());
    std::vector<Point> points;
    for (const double value : Grid(result.now)) {
      const std::optional<Point> point = At(value);
      if (point) points.push_back(*point);
    }
    if (points.empty()) return result;
    result.is_flat = IsFlat(points);
    result.best = Best(points);
    if (variable_.wants_most) std::reverse(points.begin(), points.end());
    Settle(std::move(points), &result);
    return result;
  }

 private:
  struct Point {
    TriedValue tried;
    bool holds = false;
  };

  // From which point on do all hold, towards the end that is usually better? Else towards the
  // other: more tokens make a step longer. Else nowhere but around the best.
  void Settle(std::vector<Point> points, Requirement* result) {
    if (!points.back().holds && points.front().holds) {
      std::reverse(points.begin(), points.end());
      result->is_reversed = true;
    }
    auto first = points.end();
    while (first != points.begin() && std::prev(first)->holds) --first;
    if (first == points.end()) {
      const auto holds = [](const Point& point) { return point.holds; };
      result->is_island = std::any_of(points.begin(), points.end(), holds);
      if (result->is_island) result->needed = result->best;
      return;
    }
    result->is_always = first == points.begin();
    result->needed = first->tried;
    if (!result->is_always) result->needed = Narrow(std::prev(first)->tried.value, first->tried);
  }

  // Doubling, through the value of now.
  std::vector<double> Grid(double now) const {
    std::vector<double> values;
    const double least = variable_.is_whole ? variable_.least : now * variable_.least;
    const double most = variable_.is_whole ? variable_.most : now * variable_.most;
    double value = now;
    while (value / 2 >= least) value /= 2;
    for (; value <= most; value *= 2) {
      const double at = variable_.is_whole ? std::floor(value) : value;
      if (values.empty() || at > values.back()) values.push_back(at);
    }
    if (values.front() > least) values.insert(values.begin(), least);
    return values;
  }

  std::optional<Point> At(double value) {
    try {
      const StepReport report = trial_.Try(variable_.set(trial_.job(), value));
      return Point{
          {value, ValueOf(target_.kind, report), report.account().step, report.memory.total},
          Holds(target_, report)};
    } catch (const ConfigError&) {
      return std::nullopt;  // no value for this job
    } catch (const SimulationError&) {
      return std::nullopt;
    }
  }

  static bool IsFlat(const std::vector<Point>& points) {
    return points.size() > 1 && std::all_of(points.begin(), points.end(), [&](const Point& p) {
             return p.tried.step == points.front().tried.step;
           });
  }

  TriedValue Best(const std::vector<Point>& points) const {
    const bool wants_high = target_.kind == TargetKind::kMfu;
    return std::min_element(points.begin(), points.end(),
                            [&](const Point& a, const Point& b) {
                              return wants_high ? a.tried.reached > b.tried.reached
                                                : a.tried.reached < b.tried.reached;
                            })
        ->tried;
  }

  // Between a value that fails and one that holds.
  TriedValue Narrow(double fails, TriedValue holds) {
    while (!IsNarrow(fails, holds.value)) {
      const std::optional<Point> point = NearMiddle(fails, holds.value);
      if (!point) break;
      if (point->holds) {
        holds = point->tried;
      } else {
        fails = point->tried.value;
      }
    }
    return holds;
  }

  // The value nearest to the middle that is one for the job; nullopt: none is between the two.
  std::optional<Point> NearMiddle(double a, double b) {
    if (!variable_.is_whole) return At(std::sqrt(a * b));
    const double low = std::min(a, b), high = std::max(a, b);
    const double middle = std::floor((low + high) / 2);
    for (double off = 0; middle - off > low || middle + off < high; ++off) {
      for (const double value : {middle - off, middle + off}) {
        if (value <= low || value >= high) continue;
        if (const std::optional<Point> point = At(value)) return point;
      }
    }
    return std::nullopt;
  }
  bool IsNarrow(double a, double b) const {
    if (variable_.is_whole) return std::abs(a - b) <= 1;
    return std::max(a, b) / std::min(a, b) < kPrecision;
  }

  Trial& trial_;
  const FreeVariable& variable_;
  const Target& target_;
};

}  // namespace

Requirement FindRequired(Trial& trial, const FreeVariable& variable, const Target& target) {
  return Search(trial, variable, target).Run();
}

}  // namespace stepsim
