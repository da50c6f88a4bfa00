#include "models/calibration/kernel_validation.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "models/cost/kernel_cost.h"
#include "models/spec/load_job.h"
#include "sim/base/check.h"

namespace stepsim {
namespace {

constexpr std::size_t kFolds = 5;
constexpr std::size_t kFewestRows = 25;  // for about a dozen parameters

// bf16 and fp16 run on the same units at the same speed.
DType CurveType(DType dtype) { return dtype == DType::kFp16 ? DType::kBf16 : dtype; }

}  // namespace

KernelValidation::KernelValidation(KernelTable table, const ConfigSource& configs)
    : table_(std::move(table)), hardware_(LoadAllHardware(configs)) {
  std::vector<std::string> gpus;
  for (const HardwareSpec& hardware : hardware_) gpus.push_back(hardware.gpu.name);
  std::map<std::pair<std::string, DType>, KernelGroup> groups;
  std::set<std::string> unknown;
  for (std::size_t i = 0; i < table_.rows.size(); ++i) {
    const KernelRow& row = table_.rows[i];
    const std::optional<std::size_t> match = MatchGpu(row.gpu, gpus);
    if (!match.has_value()) {
      unknown.insert(row.gpu);
      continue;
    }
    const HardwareSpec& hardware = hardware_[*match];
    if (PeakOf(hardware.gpu, row.work.dtype).value <= 0) continue;
    KernelGroup& group = groups[{hardware.name, CurveType(row.work.dtype)}];
    if (group.rows.empty()) {
      group.profile = hardware.name;
      group.dtype = row.work.dtype;
    }
    group.rows.push_back(i);
  }
  for (auto& [key, group] : groups) groups_.push_back(std::move(group));
  unknown_gpus_.assign(unknown.begin(), unknown.end());
}

const HardwareSpec& KernelValidation::HardwareOf(const KernelGroup& group) const {
  const auto hardware =
      std::find_if(hardware_.begin(), hardware_.end(),
                   [&](const HardwareSpec& h) { return h.name == group.profile; });
  SIM_CHECK(hardware != hardware_.end(), "a group's profile was loaded");
  return *hardware;
}

// Single products: kernels for experts reach the memory less well, and would bend the curve.
std::vector<std::size_t> KernelValidation::RowsToFit(const KernelGroup& group) const {
  std::vector<std::size_t> rows;
  for (const std::size_t i : group.rows) {
    if (table_.rows[i].work.batch == 1) rows.push_back(i);
  }
  return rows.size() < kFewestRows ? std::vector<std::size_t>{} : rows;
}

std::vector<KernelPoint> KernelValidation::PointsOf(const std::vector<std::size_t>& rows) const {
  std::vector<KernelPoint> points;
  for (const std::size_t i : rows) points.push_back({table_.rows[i].work, table_.rows[i].seconds});
  return points;
}

std::vector<std::optional<KernelPrediction>> KernelValidation::Predict(bool left_out) const {
  std::vector<std::optional<KernelPrediction>> predictions(table_.rows.size());
  for (const KernelGroup& group : groups_) {
    const GpuSpec& shipped = HardwareOf(group).gpu;
    const std::vector<std::size_t> rows = left_out ? RowsToFit(group) : std::vector<std::size_t>{};
    GpuSpec gpu = shipped;
    if (!rows.empty()) {
      gpu.gemm = {FitGemmCurve(PointsOf(rows), shipped, group.dtype)};
    }
    for (const std::size_t i : group.rows) {
      predictions[i] =
          KernelPrediction{PriceKernel(table_.rows[i].work, gpu).seconds, !rows.empty()};
    }
    if (rows.empty()) continue;
    const std::vector<double> seconds =
        PredictLeftOut(PointsOf(rows), shipped, group.dtype, kFolds);
    for (std::size_t i = 0; i < rows.size(); ++i) predictions[rows[i]]->seconds = seconds[i];
  }
  return predictions;
}

std::optional<GemmCurve> KernelValidation::Fit(const KernelGroup& group) const {
  const std::vector<KernelPoint> points = PointsOf(RowsToFit(group));
  if (points.empty()) return std::nullopt;
  const GpuSpec& gpu = HardwareOf(group).gpu;
  GemmCurve curve = FitGemmCurve(points, gpu, group.dtype);
  curve.residual = MedianError(points, PredictLeftOut(points, gpu, group.dtype, kFolds));
  return curve;
}

double KernelValidation::GemmEfficiencyOf(const KernelGroup& group) const {
  return HardwareOf(group).gpu.gemm_efficiency;
}

}  // namespace stepsim
