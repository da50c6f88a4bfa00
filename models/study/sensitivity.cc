#include "models/study/sensitivity.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "models/study/try_changes.h"
#include "sim/base/diagnostics.h"
#include "sim/base/dtype.h"
#include "sim/base/units.h"

namespace stepsim {
namespace {

constexpr double kMore = kMoreOfIt;

struct Row {
  std::string_view name;
  bool (*applies)(const JobSpec&);
  std::string (*change)(const JobSpec&);
  bool is_share = true;  // a tenth more, not a unit
};

bool HasNetwork(const JobSpec& job) { return job.nodes > 1 && job.plan.communicates(); }
bool HasNodeLink(const JobSpec& job) { return job.gpus_per_node > 1 && job.plan.communicates(); }
bool Always(const JobSpec&) { return true; }

// Alpha-beta has one latency; NCCL has its own, on top of which comes the network's. There is no
// tenth of nothing: ten microseconds more of either, which show.
std::string MoreLatency(const JobSpec& job) {
  const LinkSpec& link = job.hardware.network.link;
  const bool is_nccl = job.collectives.model == CollectiveModel::kNccl;
  const double now = ToSeconds(is_nccl ? link.added_latency : link.latency);
  return fmt::format("hardware.network.link.{}={}", is_nccl ? "added_latency" : "latency",
                     WriteQuantity(now + 10e-6, Unit::kTime));
}

constexpr std::array kRows = {
    Row{"network bandwidth", HasNetwork,
        [](const JobSpec& j) {
          return "hardware.network.link.bandwidth=" +
                 WriteQuantity(j.hardware.network.link.bandwidth.value * kMore, Unit::kBandwidth);
        }},
    Row{"network latency: 10 us more", HasNetwork, MoreLatency, false},
    Row{"bandwidth inside the node", HasNodeLink,
        [](const JobSpec& j) {
          return "hardware.intra_node.bandwidth=" +
                 WriteQuantity(j.hardware.intra_node.bandwidth.value * kMore, Unit::kBandwidth);
        }},
    Row{"peak of matrix products", Always,
        [](const JobSpec& j) {
          const DType dtype = j.precision.compute;
          return fmt::format(
              "hardware.gpu.peak.{}={}", ToString(dtype),
              WriteQuantity(PeakOf(j.hardware.gpu, dtype).value * kMore, Unit::kFlopRate));
        }},
    Row{"HBM bandwidth", Always,
        [](const JobSpec& j) {
          return "hardware.gpu.hbm_bandwidth=" +
                 WriteQuantity(j.hardware.gpu.hbm_bandwidth.value * kMore, Unit::kBandwidth);
        }},
    Row{"SMs, at the same peak", Always,
        [](const JobSpec& j) {
          const double sms = std::round(static_cast<double>(j.hardware.gpu.sms) * kMore);
          return fmt::format("hardware.gpu.sms={}", static_cast<std::int64_t>(sms));
        }},
};

}  // namespace

std::vector<Sensitivity> FindSensitivities(const JobVariants& variants, const Changes& changes) {
  const JobVariants around([&](const Changes& more) {
    Changes all = changes;
    all.insert(all.end(), more.begin(), more.end());
    return variants.With(all);
  });
  Trial trial(around);
  const Duration now = trial.Try({}).account().step;
  std::vector<Sensitivity> found;
  for (const Row& row : kRows) {
    if (!row.applies(trial.job())) continue;
    const std::string change = row.change(trial.job());
    try {
      const Duration then = trial.Try({change}).account().step;
      found.push_back({row.name, change, now, then, {}});
      const double ratio = ToSeconds(then) / ToSeconds(now);
      if (row.is_share) found.back().elasticity = std::log(ratio) / std::log(kMore);
    } catch (const ConfigError&) {
      continue;  // the job has no such thing
    } catch (const SimulationError&) {
      continue;
    }
  }
  return found;
}

}  // namespace stepsim
