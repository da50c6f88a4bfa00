#include "models/calibration/collective_validation.h"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>

#include "models/calibration/error_statistics.h"
#include "models/cost/collective_correction.h"
#include "models/spec/gpu_generation.h"
#include "sim/base/diagnostics.h"
#include "sim/base/time.h"

namespace stepsim {
namespace {

// Hops of the textbook ring.
constexpr double kNvlinkHop = 1e-6;
constexpr double kPcieHop = 2e-6;
constexpr double kNetworkHop = 5e-6;

CollectiveRequest RequestOf(const MeasuredCollective& point, const MeasuredSystem& system) {
  return {
      .op = point.op, .bytes = point.size, .dtype = DType::kFp32, .placement = system.placement};
}

struct PricedPoint {
  CollectiveCost cost;
  std::string problem;  // "" or why there is none
};

// A pinned algorithm may not know the collective: the row keeps the model's reason.
PricedPoint Price(const CollectivePricer& pricer, const CollectiveRequest& request) {
  try {
    return {pricer(request), ""};
  } catch (const ConfigError& error) {
    return {{}, error.diagnostics().front().message};
  }
}

HardwareSpec Textbook(HardwareSpec hardware) {
  hardware.intra_node.efficiency = 1;
  hardware.intra_node.latency =
      DurationFromSeconds(hardware.intra_node.type == "nvlink" ? kNvlinkHop : kPcieHop);
  hardware.network.link.efficiency = 1;
  hardware.network.link.latency = DurationFromSeconds(kNetworkHop);
  hardware.network.oversubscription = 1;
  return hardware;
}

// Which sizes of a curve a prediction is told.
std::set<std::int64_t> CalibrationSizes(const std::set<std::int64_t>& sizes, KnownSizes kind) {
  if (kind == KnownSizes::kNone || sizes.empty()) return {};
  std::set<std::int64_t> told{*sizes.begin(), *sizes.rbegin()};
  if (kind == KnownSizes::kKnots) {
    bool is_knot = true;
    for (const std::int64_t size : sizes) {
      if (is_knot) told.insert(size);
      is_knot = !is_knot;
    }
  }
  return told;
}

}  // namespace

struct CollectiveValidation::Curve {
  std::vector<std::size_t> points;
};

CollectiveValidation::CollectiveValidation(std::vector<MeasuredCollective> points,
                                           const ConfigSource& configs)
    : points_(std::move(points)) {
  const SystemMapper mapper(configs);
  using Key = std::tuple<std::string, std::string, std::int64_t, std::int64_t, std::int64_t,
                         std::string, std::string, std::string>;
  std::map<Key, std::size_t> known;
  for (const MeasuredCollective& p : points_) {
    const Key key{p.system_id, p.gpu, p.nodes,        p.gpus_per_node,
                  p.ranks,     p.nic, p.intra_fabric, p.nccl_version};
    const auto [at, is_new] = known.emplace(key, systems_.size());
    if (is_new) systems_.push_back(mapper.Map(p));
    system_of_.push_back(at->second);
  }
  FindFitPoints();
}

bool CollectiveValidation::IsScored(std::size_t point) const {
  return system(point).status == PointStatus::kScored && points_[point].size >= kSmallest;
}

// What NCCL's table alone says of every scored point.
void CollectiveValidation::FindFitPoints() {
  std::vector<std::optional<CollectivePricer>> pricers(systems_.size());
  for (std::size_t i = 0; i < points_.size(); ++i) {
    if (!IsScored(i)) continue;
    const MeasuredSystem& machine = system(i);
    auto& pricer = pricers[system_of_[i]];
    if (!pricer) pricer.emplace(machine.hardware, machine.model);
    const PricedPoint priced = Price(*pricer, RequestOf(points_[i], machine));
    if (!priced.problem.empty()) continue;
    const CollectiveCost& cost = priced.cost;
    FitPoint point;
    point.group = machine.group;
    point.transport = CorrectionTransport(machine.hardware, machine.placement.nodes);
    point.generation = ToString(GenerationOf(machine.hardware.gpu.compute_capability));
    point.algorithm = cost.algorithm;
    point.protocol = cost.protocol;
    point.size = points_[i].size;
    point.latency = cost.latency_seconds;
    point.transfer = cost.seconds - cost.latency_seconds;
    point.measured = points_[i].seconds;
    fit_points_.push_back(std::move(point));
  }
}

CollectiveCorrections CollectiveValidation::Fit(const std::string& name) const {
  return FitCorrections(fit_points_, name);
}

std::vector<CollectiveValidation::Curve> CollectiveValidation::Curves() const {
  std::map<std::pair<std::size_t, CollectiveOp>, std::size_t> known;
  std::vector<Curve> curves;
  for (std::size_t i = 0; i < points_.size(); ++i) {
    const auto [at, is_new] = known.emplace(std::pair(system_of_[i], points_[i].op), curves.size());
    if (is_new) curves.emplace_back();
    curves[at->second].points.push_back(i);
  }
  return curves;
}

std::vector<Prediction> CollectiveValidation::Predict(const ValidationOptions& options) const {
  std::vector<Prediction> predictions(points_.size());
  for (std::size_t i = 0; i < points_.size(); ++i) predictions[i].point = i;
  std::map<std::string, CollectiveCorrections> fitted;  // by the group left out
  for (const Curve& curve : Curves()) {
    const MeasuredSystem& machine = system(curve.points.front());
    if (machine.status == PointStatus::kNotPredicted) continue;
    if (!options.leave_one_out) {
      PredictCurve(curve, options, options.corrections, predictions);
      continue;
    }
    const auto [at, is_new] = fitted.emplace(machine.group, CollectiveCorrections{});
    if (is_new) {
      std::vector<FitPoint> others;
      for (const FitPoint& point : fit_points_) {
        if (point.group != machine.group) others.push_back(point);
      }
      at->second = FitCorrections(others, "without " + machine.group);
    }
    PredictCurve(curve, options, at->second, predictions);
  }
  return predictions;
}

void CollectiveValidation::PredictCurve(const Curve& curve, const ValidationOptions& options,
                                        const CollectiveCorrections& corrections,
                                        std::vector<Prediction>& predictions) const {
  const MeasuredSystem& machine = system(curve.points.front());
  HardwareSpec hardware = machine.hardware;
  CollectiveModelSpec model = machine.model;
  if (options.predictor == Predictor::kModel) model.correction_table = corrections;
  if (options.predictor == Predictor::kNaiveRing) {
    model.model = CollectiveModel::kAlphaBeta;
    hardware = Textbook(std::move(hardware));
  }
  std::map<std::int64_t, std::vector<double>> times;  // scored sizes
  for (const std::size_t i : curve.points) {
    if (points_[i].size >= kSmallest) times[points_[i].size.value].push_back(points_[i].seconds);
  }
  std::set<std::int64_t> sizes;
  for (const auto& [size, list] : times) sizes.insert(size);
  const std::set<std::int64_t> told = CalibrationSizes(sizes, options.calibration);
  for (const std::int64_t size : told) {
    hardware.calibration.push_back(
        {.collective = std::string(ToString(points_[curve.points.front()].op)),
         .nodes = machine.placement.nodes,
         .ranks = machine.placement.ranks,
         .size = Bytes{size},
         .time = DurationFromSeconds(Quantile(times[size], 0.5))});
  }
  const CollectivePricer pricer(hardware, model);
  for (const std::size_t i : curve.points) {
    const CollectiveOp op = points_[i].op;
    const bool has_ring = op != CollectiveOp::kAllToAll && op != CollectiveOp::kSendRecv;
    if (options.predictor == Predictor::kNaiveRing && !has_ring) continue;
    Prediction& prediction = predictions[i];
    const PricedPoint priced = Price(pricer, RequestOf(points_[i], machine));
    prediction.problem = priced.problem;
    if (!priced.problem.empty()) continue;
    const CollectiveCost& cost = priced.cost;
    const bool is_bare = options.predictor == Predictor::kBareNccl;
    prediction.seconds = is_bare ? cost.nccl_seconds : cost.seconds;
    prediction.algorithm = cost.algorithm;
    prediction.protocol = cost.protocol;
    prediction.is_calibration = told.count(points_[i].size.value) > 0;
    prediction.is_predicted = true;
  }
}

}  // namespace stepsim
