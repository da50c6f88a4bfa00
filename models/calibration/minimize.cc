#include "models/calibration/minimize.h"

#include <Eigen/Dense>
#include <algorithm>
#include <utility>

namespace stepsim {
namespace {

using Point = Eigen::VectorXd;

class Simplex {
 public:
  Simplex(const std::function<double(const std::vector<double>&)>& function, const Point& start,
          double step)
      : function_(function) {
    vertices_.push_back({Value(start), start});
    for (Eigen::Index i = 0; i < start.size(); ++i) {
      Point other = start;
      other[i] += step;
      vertices_.push_back({Value(other), std::move(other)});
    }
    Sort();
  }

  int evaluations() const { return evaluations_; }
  double spread() const { return vertices_.back().first - vertices_.front().first; }
  const Point& best() const { return vertices_.front().second; }

  void Step() {
    const double n = static_cast<double>(best().size());
    const double expand = 1 + 2 / n, contract = 0.75 - 0.5 / n, shrink = 1 - 1 / n;
    Point center = Point::Zero(best().size());
    for (std::size_t i = 0; i + 1 < vertices_.size(); ++i) center += vertices_[i].second;
    center /= n;
    const Point away = center - vertices_.back().second;
    Vertex reflected = At(center + away);
    if (reflected.first < vertices_.front().first) {
      Vertex expanded = At(center + expand * away);
      Replace(expanded.first < reflected.first ? std::move(expanded) : std::move(reflected));
    } else if (reflected.first < vertices_[vertices_.size() - 2].first) {
      Replace(std::move(reflected));
    } else {
      const bool is_outside = reflected.first < vertices_.back().first;
      Vertex contracted = At(center + (is_outside ? contract : -contract) * away);
      if (contracted.first < std::min(reflected.first, vertices_.back().first)) {
        Replace(std::move(contracted));
      } else {
        Shrink(n > 1 ? shrink : 0.5);
      }
    }
  }

 private:
  using Vertex = std::pair<double, Point>;

  double Value(const Point& point) {
    ++evaluations_;
    return function_(std::vector<double>(point.data(), point.data() + point.size()));
  }
  Vertex At(Point point) {
    const double value = Value(point);
    return {value, std::move(point)};
  }
  void Replace(Vertex vertex) {
    vertices_.back() = std::move(vertex);
    Sort();
  }
  void Shrink(double factor) {
    for (std::size_t i = 1; i < vertices_.size(); ++i) {
      vertices_[i] = At(best() + factor * (vertices_[i].second - best()));
    }
    Sort();
  }
  void Sort() {
    std::stable_sort(vertices_.begin(), vertices_.end(),
                     [](const Vertex& a, const Vertex& b) { return a.first < b.first; });
  }

  const std::function<double(const std::vector<double>&)>& function_;
  std::vector<Vertex> vertices_;
  int evaluations_ = 0;
};

}  // namespace

std::vector<double> Minimize(const std::function<double(const std::vector<double>&)>& function,
                             std::vector<double> start, const MinimizeOptions& options) {
  if (start.empty()) return start;
  Point best = Eigen::Map<const Point>(start.data(), static_cast<Eigen::Index>(start.size()));
  for (int i = 0; i < options.starts; ++i) {
    // Around the best point found so far, each time from the other side and closer.
    Simplex simplex(function, best, (i % 2 == 0 ? options.step : -options.step) / (1 + i));
    while (simplex.evaluations() < options.evaluations && simplex.spread() > options.tolerance) {
      simplex.Step();
    }
    best = simplex.best();
  }
  return {best.data(), best.data() + best.size()};
}

}  // namespace stepsim
