// How far from measured matrix products are the predictions? Every row priced on the profile of its
// GPU, by the shipped curve or by one fitted without its shape.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "models/calibration/kernel_fit.h"
#include "models/calibration/kernel_table.h"
#include "models/spec/config_source.h"

namespace stepsim {

// The rows of one profile whose operands are equally wide: they share a curve.
struct KernelGroup {
  std::string profile;  // "a100-80g-pcie"
  DType dtype = DType::kBf16;
  std::vector<std::size_t> rows;  // indices into KernelValidation::rows()
};

struct KernelPrediction {
  double seconds = 0;
  bool is_left_out = false;  // by a curve that has not seen the shape; else the shipped one
};

class KernelValidation {
 public:
  KernelValidation(KernelTable table, const ConfigSource& configs);

  const std::vector<KernelRow>& rows() const { return table_.rows; }
  const KernelTable& table() const { return table_; }
  const std::vector<KernelGroup>& groups() const { return groups_; }
  // Names of GPUs that no profile has.
  const std::vector<std::string>& unknown_gpus() const { return unknown_gpus_; }

  // By row; nullopt where there is no profile or its GPU has no unit for the type. `left_out`: by
  // fits without the row's shape, where the group has rows enough to fit.
  std::vector<std::optional<KernelPrediction>> Predict(bool left_out) const;

  // A curve fitted to all rows of a group, with the residual of shapes left out; nullopt: too few.
  std::optional<GemmCurve> Fit(const KernelGroup& group) const;
  double GemmEfficiencyOf(const KernelGroup& group) const;

 private:
  // The rows that a curve is fitted to; empty: too few.
  std::vector<std::size_t> RowsToFit(const KernelGroup& group) const;
  std::vector<KernelPoint> PointsOf(const std::vector<std::size_t>& rows) const;
  const HardwareSpec& HardwareOf(const KernelGroup& group) const;

  KernelTable table_;
  std::vector<HardwareSpec> hardware_;  // sorted by name of the file
  std::vector<KernelGroup> groups_;
  std::vector<std::string> unknown_gpus_;
};

}  // namespace stepsim
