#include "models/costly_settings.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

#include "models/simulate_job.h"
#include "models/spec/check_job.h"
#include "models/spec/sharding.h"
#include "sim/base/units.h"

namespace stepsim {
namespace {

struct CostlySetting {
  std::string_view what;  // {microsteps} stands for their number
  std::string_view change;
  bool (*applies)(const JobSpec&);
  void (*make)(JobSpec&);
};

// With several micro-steps.
bool Accumulates(const JobSpec& job, std::string_view strategy) {
  return Uses(job, strategy) && job.batch.gradient_accumulation_steps > 1;
}
bool HasCopies(const JobSpec& job) { return ShardingOf(job).replicas > 1; }

constexpr std::string_view kReduced = "gradients are reduced in each of {microsteps} micro-steps";
constexpr std::string_view kGathered =
    "parameters are gathered in each of {microsteps} micro-steps";

constexpr std::array kSettings = {
    CostlySetting{kReduced, "plan.ddp.no_sync: true",
                  [](const JobSpec& j) { return Accumulates(j, "ddp") && !j.plan.ddp.no_sync; },
                  [](JobSpec& j) { j.plan.ddp.no_sync = true; }},
    CostlySetting{kReduced, "plan.fsdp1.no_sync: true",
                  [](const JobSpec& j) { return Accumulates(j, "fsdp1") && !j.plan.fsdp1.no_sync; },
                  [](JobSpec& j) { j.plan.fsdp1.no_sync = true; }},
    CostlySetting{kReduced, "plan.fsdp2.requires_gradient_sync: false",
                  [](const JobSpec& j) {
                    return Accumulates(j, "fsdp2") && j.plan.fsdp2.requires_gradient_sync;
                  },
                  [](JobSpec& j) { j.plan.fsdp2.requires_gradient_sync = false; }},
    CostlySetting{"gradients are summed over the copies in each of {microsteps} micro-steps",
                  "plan.fsdp2.requires_all_reduce: false",
                  [](const JobSpec& j) {
                    return Accumulates(j, "fsdp2") && HasCopies(j) &&
                           j.plan.fsdp2.requires_gradient_sync && j.plan.fsdp2.requires_all_reduce;
                  },
                  [](JobSpec& j) { j.plan.fsdp2.requires_all_reduce = false; }},
    CostlySetting{kReduced, "plan.zero.stage: 1",
                  [](const JobSpec& j) { return Accumulates(j, "zero") && j.plan.zero.stage == 2; },
                  [](JobSpec& j) { j.plan.zero.stage = 1; }},
    CostlySetting{
        "parameters are gathered and gradients reduced in each of {microsteps} micro-steps",
        "plan.zero.stage: 1",
        [](const JobSpec& j) { return Accumulates(j, "zero") && j.plan.zero.stage == 3; },
        [](JobSpec& j) { j.plan.zero.stage = 1; }},
    CostlySetting{kGathered, "plan.fsdp1.sharding_strategy: SHARD_GRAD_OP with no_sync",
                  [](const JobSpec& j) {
                    return Accumulates(j, "fsdp1") &&
                           j.plan.fsdp1.sharding_strategy == ShardingStrategy::kFullShard;
                  },
                  [](JobSpec& j) {
                    j.plan.fsdp1.sharding_strategy = ShardingStrategy::kShardGradOp;
                    j.plan.fsdp1.no_sync = true;
                  }},
    CostlySetting{kGathered, "plan.fsdp1.sharding_strategy: _HYBRID_SHARD_ZERO2 with no_sync",
                  [](const JobSpec& j) {
                    return Accumulates(j, "fsdp1") &&
                           j.plan.fsdp1.sharding_strategy == ShardingStrategy::kHybridShard;
                  },
                  [](JobSpec& j) {
                    j.plan.fsdp1.sharding_strategy = ShardingStrategy::kHybridShardZero2;
                    j.plan.fsdp1.no_sync = true;
                  }},
    CostlySetting{kGathered,
                  "plan.fsdp2: {reshard_after_forward, reshard_after_backward, "
                  "requires_gradient_sync: false}",
                  [](const JobSpec& j) {
                    return Accumulates(j, "fsdp2") &&
                           (j.plan.fsdp2.reshard_after_forward != "false" ||
                            j.plan.fsdp2.reshard_after_backward);
                  },
                  [](JobSpec& j) {
                    j.plan.fsdp2.reshard_after_forward = "false";
                    j.plan.fsdp2.reshard_after_backward = false;
                    j.plan.fsdp2.requires_gradient_sync = false;
                  }},
    CostlySetting{"one hardware queue orders kernels and collectives (CUDA_DEVICE_MAX_CONNECTIONS)",
                  "host.max_connections: 32",
                  [](const JobSpec& j) { return j.host.max_connections == 1; },
                  [](JobSpec& j) { j.host.max_connections = 32; }},
};

std::string Price(const TriedJob& now, const TriedJob& then, Bytes capacity) {
  const double saved = ToSeconds(now.step - then.step) / ToSeconds(now.step);
  std::string text = fmt::format("step {} -> {} (-{:.1f}%), memory {} -> {}", FormatTime(now.step),
                                 FormatTime(then.step), saved * 100, FormatMemory(now.peak_memory),
                                 FormatMemory(then.peak_memory));
  if (capacity.value > 0 && then.peak_memory > capacity) text += " (does not fit)";
  return text;
}

}  // namespace

void AddCostlySettings(const JobSpec& job, StepReport* report) {
  constexpr double kLeastSaving = 0.005;  // of the step
  if (job.gpus() == 1 || !job.plan.communicates()) return;
  const TriedJob now{report->account().step, report->memory.total};
  for (const CostlySetting& setting : kSettings) {
    if (!setting.applies(job)) continue;
    JobSpec changed = job;
    setting.make(changed);
    if (!IsPossible(changed)) continue;
    const TriedJob then = TryJob(changed);
    if (ToSeconds(now.step - then.step) < kLeastSaving * ToSeconds(now.step)) continue;
    const std::string what = fmt::format(
        fmt::runtime(setting.what), fmt::arg("microsteps", job.batch.gradient_accumulation_steps));
    std::string change(setting.change);
    for (const std::string& path : KeysToTakeOut(changed))
      change += fmt::format(", {}: null", path);
    report->context.warnings.push_back(
        fmt::format("{}: {} with {}", what, Price(now, then, job.memory_limit()), change));
  }
}

}  // namespace stepsim
