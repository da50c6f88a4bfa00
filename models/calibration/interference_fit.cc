#include "models/calibration/interference_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>

#include "models/calibration/error_statistics.h"
#include "models/calibration/kernel_calibration.h"
#include "models/calibration/robust_fit.h"
#include "models/contention/contention.h"
#include "models/cost/collective_cost.h"
#include "models/cost/kernel_cost.h"
#include "models/topology/placement.h"

namespace stepsim {
namespace {

using Pairs = std::vector<const MeasuredInterference*>;

Occupancy OccupancyOf(const MeasuredGemm& gemm, const GpuSpec& gpu) {
  const ComputeWork work = WorkOf(gemm);
  const KernelCost cost = PriceKernel(work, gpu);
  Occupancy occupancy;
  occupancy.compute_class = work.compute_class;
  occupancy.tiles = cost.tiles;
  occupancy.partial_wave = cost.partial_wave;
  if (cost.seconds > 0) occupancy.hbm = ToDouble(work.bytes) / cost.seconds;
  return occupancy;
}

Occupancy OccupancyOf(const MeasuredCall& call, const HardwareSpec& hardware) {
  CollectiveModelSpec spec;
  spec.max_ctas = call.max_ctas;
  CollectiveRequest request;
  request.op = call.op;
  request.bytes = Bytes{call.bytes};
  const std::int64_t per_node =
      std::max<std::int64_t>(call.ranks / std::max<std::int64_t>(call.nodes, 1), 1);
  request.placement.ranks = call.ranks;
  request.placement.nodes = call.nodes;
  request.placement.ranks_per_node = per_node;
  request.placement.job_gpus_per_node = per_node;
  request.placement.last_node = call.nodes - 1;
  const CollectiveCost cost = CollectivePricer(hardware, spec)(request);
  Occupancy occupancy;
  occupancy.kind = TaskKind::kTransfer;
  occupancy.sms = cost.sms;
  occupancy.intra = cost.intra_share;
  occupancy.network = cost.network_share;
  if (cost.seconds > 0) occupancy.hbm = cost.hbm_bytes / cost.seconds;
  if (call.backend != "nccl") {
    occupancy.sms = occupancy.hbm = 0;
    occupancy.intra = call.nodes > 1 ? 0 : 1;
    occupancy.network = call.nodes > 1 ? 1 : 0;
  }
  return occupancy;
}

bool IsUsable(const MeasuredInterference& pair, const GpuSpec& gpu) {
  const MeasuredGemm& c = pair.compute;
  const auto area = [](std::int64_t a, std::int64_t b) {
    return static_cast<double>(a) * static_cast<double>(b);
  };
  const bool is_small = std::max({area(c.m, c.n), area(c.m, c.k), area(c.n, c.k)}) < 1e13;
  const bool has_group = !pair.is_collective || (pair.collective.ranks > 1 &&
                                                 pair.collective.nodes <= pair.collective.ranks);
  return is_small && has_group && PeakOf(gpu, c.dtype).value > 0 && pair.compute_alone > 0 &&
         pair.compute_beside > 0;
}

// One parameter: which pairs tell it, and by which of their two slow-downs.
struct Parameter {
  const char* name;
  double ContentionSpec::*field;
  double most;
  bool is_of_compute;
  bool (*tells)(const MeasuredInterference& pair);
};

bool IsNccl(const MeasuredInterference& pair) {
  return pair.is_collective && pair.collective.backend == "nccl";
}
bool IsHost(const MeasuredInterference& pair) {
  return pair.is_collective && pair.collective.backend != "nccl";
}
// In the order in which they are found: each with those before it.
constexpr std::array kParameters = {
    Parameter{"sm_loss", &ContentionSpec::sm_loss, 10, true,
              [](const MeasuredInterference& p) { return !p.is_collective && p.sms > 0; }},
    Parameter{"gemm", &ContentionSpec::gemm, 10, true, IsNccl},
    Parameter{"communication", &ContentionSpec::communication, 10, false, IsNccl},
    Parameter{"transfer_on_compute", &ContentionSpec::transfer_on_compute, 100, true, IsHost},
    Parameter{"compute_on_transfer", &ContentionSpec::compute_on_transfer, 100, false, IsHost},
};

double MeasuredSlowdown(const MeasuredInterference& pair, bool is_of_compute) {
  if (is_of_compute) return pair.compute_beside / pair.compute_alone;
  return pair.beside_alone > 0 ? pair.beside_beside / pair.beside_alone : 0;
}

double Predicted(const MeasuredInterference& pair, const HardwareSpec& hardware,
                 bool is_of_compute) {
  const Slowdown slowdown = PredictSlowdown(pair, hardware);
  return is_of_compute ? slowdown.compute : slowdown.beside;
}

// The value under which the prediction meets the measurement; nullopt where none matters to it.
std::optional<double> Implied(const Parameter& parameter, const MeasuredInterference& pair,
                              HardwareSpec hardware) {
  const double measured = MeasuredSlowdown(pair, parameter.is_of_compute);
  double& value = hardware.gpu.contention.*parameter.field;
  const auto at = [&](double x) {
    value = x;
    return Predicted(pair, hardware, parameter.is_of_compute);
  };
  const double least = at(0), most = at(parameter.most);
  constexpr double kMatters = 1.001;
  if (measured <= 0 || most < least * kMatters) return std::nullopt;
  if (measured <= least) return 0;
  if (measured >= most) return parameter.most;
  double low = 0, high = parameter.most;
  for (int i = 0; i < 50; ++i) {
    const double middle = (low + high) / 2;
    (at(middle) < measured ? low : high) = middle;
  }
  return (low + high) / 2;
}

void FitOne(const Parameter& parameter, const Pairs& pairs, HardwareSpec& fitted,
            std::vector<FitRecord>& records) {
  std::vector<double> values;
  Pairs telling;
  for (const MeasuredInterference* pair : pairs) {
    if (!parameter.tells(*pair)) continue;
    const std::optional<double> value = Implied(parameter, *pair, fitted);
    if (!value) continue;
    values.push_back(*value);
    telling.push_back(pair);
  }
  if (values.empty()) return;
  const RobustMedian median = MedianOf(values);
  fitted.gpu.contention.*parameter.field = median.value;
  std::vector<double> errors, slowdowns;
  for (const MeasuredInterference* pair : telling) {
    const double measured = MeasuredSlowdown(*pair, parameter.is_of_compute);
    slowdowns.push_back(measured);
    errors.push_back(std::abs(Predicted(*pair, fitted, parameter.is_of_compute) / measured - 1));
  }
  FitRecord record;
  record.what = fmt::format("contention.{}", parameter.name);
  record.value = fmt::format("{:.3f} ± {:.3f}", median.value, median.error);
  record.points = static_cast<std::int64_t>(values.size());
  record.residual = Quantile(errors, 0.5);
  record.residual_p90 = Quantile(errors, 0.9);
  const auto [low, high] = std::minmax_element(slowdowns.begin(), slowdowns.end());
  record.range = fmt::format("slow-downs of {:.2f} to {:.2f}", *low, *high);
  records.push_back(std::move(record));
}

}  // namespace

Slowdown PredictSlowdown(const MeasuredInterference& pair, const HardwareSpec& hardware) {
  IdVector<WorkId, Occupancy> works;
  works.push_back(OccupancyOf(pair.compute, hardware.gpu));
  if (pair.is_collective) {
    works.push_back(OccupancyOf(pair.collective, hardware));
  } else {
    Occupancy copy;
    copy.kind = TaskKind::kTransfer;
    copy.sms = pair.sms;
    works.push_back(copy);
  }
  Contention contention(works, hardware, {});
  const std::array running = {RunningTask{TaskId{0}, WorkId{0}}, RunningTask{TaskId{1}, WorkId{1}}};
  std::array<double, 2> rates = {1, 1};
  contention.Rates(RankId{0}, running, rates);
  return {1 / rates[0], 1 / rates[1]};
}

void FitInterference(const std::vector<MeasuredInterference>& pairs, HardwareSpec& fitted,
                     std::vector<FitRecord>& records) {
  Pairs usable;
  for (const MeasuredInterference& pair : pairs) {
    if (IsUsable(pair, fitted.gpu)) usable.push_back(&pair);
  }
  for (const Parameter& parameter : kParameters) FitOne(parameter, usable, fitted, records);
}

}  // namespace stepsim
