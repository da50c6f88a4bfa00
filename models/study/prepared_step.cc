#include "models/study/prepared_step.h"

#include <algorithm>
#include <array>
#include <utility>

#include "models/spec/check_job.h"
#include "models/spec/expand_job.h"
#include "models/spec/spec_fields.h"
#include "models/step_context.h"
#include "models/uneven_ranks.h"
#include "sim/base/diagnostics.h"
#include "sim/config/read_fields.h"
#include "sim/metrics/build_report.h"

namespace stepsim {
namespace {

// A field, or every field below one. The graph of a job is the same whatever they say
// (tests/unit/models/study/prepared_step_test.cc tries each).
constexpr std::array<std::string_view, 12> kCosts = {
    "hardware.gpu.peak",
    "hardware.gpu.hbm_bandwidth",
    "hardware.gpu.gemm_efficiency",
    "hardware.gpu.attention_efficiency",
    "hardware.gpu.memory_efficiency",
    "hardware.gpu.kernel_latency",
    "hardware.gpu.contention",
    "hardware.intra_node.bandwidth",
    "hardware.intra_node.efficiency",
    "hardware.network.link.bandwidth",
    "hardware.network.link.efficiency",
    "contention",
};

bool HasNoEffect(std::string_view path, const JobSpec& job) {
  if (job.nodes == 1 && IsAtOrBelow(path, "hardware.network")) return true;
  const std::vector<std::string_view> idle = KeysWithoutEffect(job);
  return std::any_of(idle.begin(), idle.end(),
                     [&](std::string_view key) { return IsAtOrBelow(path, key); });
}

bool SetCost(const Setting& setting, JobSpec* job) {
  constexpr std::string_view kHardware = "hardware.";
  const std::string_view path = setting.path;
  if (path.substr(0, kHardware.size()) != kHardware) {
    return SetField(setting.value, JobFields().fields(), path, job);
  }
  return SetField(setting.value, HardwareFields().fields(), path.substr(kHardware.size()),
                  &job->hardware);
}

}  // namespace

bool ChangesCostsAlone(std::string_view path) {
  return std::any_of(kCosts.begin(), kCosts.end(),
                     [&](std::string_view field) { return IsAtOrBelow(path, field); });
}

std::optional<JobSpec> WithCosts(const JobSpec& job, const Changes& changes) {
  Diagnostics problems;
  const std::vector<Setting> settings = ParseSettings(changes, problems);
  if (!problems.empty()) return std::nullopt;
  JobSpec changed = job;
  for (const Setting& setting : settings) {
    if (!ChangesCostsAlone(setting.path) || setting.value.IsNull()) return std::nullopt;
    if (!SetCost(setting, &changed)) return std::nullopt;
  }
  const bool is_idle = std::any_of(settings.begin(), settings.end(), [&](const Setting& setting) {
    return HasNoEffect(setting.path, changed);
  });
  if (is_idle || !IsPossible(changed)) return std::nullopt;
  return changed;
}

PreparedStep::PreparedStep(const ResolvedJob& base)
    : base_(base.job),
      workload_(BuildWorkload(base_)),
      graphs_(base_, workload_),
      context_(MakeStepContext(base, workload_)) {
  StepReport warned;
  AddUnevenRanks(base_, &warned);
  for (std::string& warning : warned.context.warnings) {
    context_.warnings.insert(context_.warnings.begin(), std::move(warning));
  }
  context_.assumptions.clear();
  context_.resolved_json.clear();
}

StepReport PreparedStep::Try(const JobSpec& job) {
  const TimedGraph timed = TimeJob(job, graphs_);
  StepContext context = context_;
  context.peak = PeakOf(job.hardware.gpu, job.precision.compute);
  return BuildTotals(graphs_.Get(timed.host).graph, timed.priced.costs, timed.timeline,
                     std::move(context));
}

}  // namespace stepsim
