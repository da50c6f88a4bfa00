// How far from measurements are the predictions? Every point of a table is predicted as a user's
// `stepsim cost` would, and scored.
//
//   CollectiveValidation validation(points, configs);
//   const auto predictions = validation.Predict({.corrections = table});
//   const auto left_out = validation.Predict({.leave_one_out = true});
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "models/calibration/fit_corrections.h"
#include "models/calibration/measured_collectives.h"
#include "models/calibration/measured_systems.h"

namespace stepsim {

// Measured points that a prediction is told; they are not scored.
enum class KnownSizes {
  kNone,
  kTwoPoint,  // the smallest and the largest size of each curve
  kKnots,     // every second size of each curve, from the smallest, and the largest
};

enum class Predictor {
  kModel,      // NCCL's table with corrections
  kBareNccl,   // the table by which NCCL chooses, with the rates that it assumes
  kNaiveRing,  // textbook ring: 1 us a hop on NVLink, 2 us on PCIe, 5 us between nodes; nominal
               // rates
};

struct ValidationOptions {
  Predictor predictor = Predictor::kModel;
  KnownSizes calibration = KnownSizes::kNone;
  CollectiveCorrections corrections;
  bool leave_one_out = false;  // corrections are fitted on the other systems of the table
};

struct Prediction {
  std::size_t point = 0;  // index into the table
  double seconds = 0;
  std::string algorithm, protocol;
  bool is_calibration = false;  // the prediction was told this point
  bool is_predicted = false;
  std::string problem;  // why not, where the model itself refuses

  double Error(const MeasuredCollective& measured) const { return seconds / measured.seconds - 1; }
};

class CollectiveValidation {
 public:
  // Sizes below are predicted but neither scored nor fitted.
  static constexpr Bytes kSmallest{1024};

  CollectiveValidation(std::vector<MeasuredCollective> points, const ConfigSource& configs);

  // One per point, in the order of the table.
  std::vector<Prediction> Predict(const ValidationOptions& options) const;
  // Corrections from all points that are scored.
  CollectiveCorrections Fit(const std::string& name) const;

  const std::vector<MeasuredCollective>& points() const { return points_; }
  const MeasuredSystem& system(std::size_t point) const { return systems_[system_of_[point]]; }
  bool IsScored(std::size_t point) const;

 private:
  struct Curve;  // one collective on one system and group

  void FindFitPoints();
  std::vector<Curve> Curves() const;
  void PredictCurve(const Curve& curve, const ValidationOptions& options,
                    const CollectiveCorrections& corrections,
                    std::vector<Prediction>& predictions) const;

  std::vector<MeasuredCollective> points_;
  std::vector<MeasuredSystem> systems_;
  std::vector<std::size_t> system_of_;  // by point
  std::vector<FitPoint> fit_points_;
};

}  // namespace stepsim
