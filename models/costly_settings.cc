#include "models/costly_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "models/job_change.h"
#include "models/simulate_job.h"
#include "models/spec/check_job.h"
#include "models/spec/gpu_generation.h"
#include "models/spec/sharding.h"
#include "sim/base/units.h"

namespace stepsim {
namespace {

struct CostlySetting {
  std::string_view what;      // {microsteps} stands for their number
  std::string_view change;    // in words
  std::string_view settings;  // as --set takes them; empty: nobody should make it
  bool (*applies)(const JobSpec&);
  void (*make)(JobSpec&);
  bool is_risk = false;  // the change is what the setting may lead to, not what undoes it
};

// With several micro-steps.
bool Accumulates(const JobSpec& job, std::string_view strategy) {
  return Uses(job, strategy) && job.batch.gradient_accumulation_steps > 1;
}
bool HasCopies(const JobSpec& job) { return ShardingOf(job).replicas > 1; }

// Megatron-LM's collectives beside the products of backward are launched first and have to get
// their SMs first. Its launcher demands one queue for that, on GPUs before Blackwell.
bool WantsOneQueue(const JobSpec& job) {
  return Uses(job, "megatron") && job.plan.tensor_parallel > 1 && HidesInputGradients(job) &&
         GenerationOf(job.hardware.gpu.compute_capability) < GpuGeneration::kBlackwell;
}
constexpr std::string_view kReduced = "gradients are reduced in each of {microsteps} micro-steps";
constexpr std::string_view kGathered =
    "parameters are gathered in each of {microsteps} micro-steps";

constexpr std::array kSettings = {
    CostlySetting{kReduced, "plan.ddp.no_sync: true", "plan.ddp.no_sync=true",
                  [](const JobSpec& j) { return Accumulates(j, "ddp") && !j.plan.ddp.no_sync; },
                  [](JobSpec& j) { j.plan.ddp.no_sync = true; }},
    CostlySetting{kReduced, "plan.fsdp1.no_sync: true", "plan.fsdp1.no_sync=true",
                  [](const JobSpec& j) { return Accumulates(j, "fsdp1") && !j.plan.fsdp1.no_sync; },
                  [](JobSpec& j) { j.plan.fsdp1.no_sync = true; }},
    CostlySetting{kReduced, "plan.fsdp2.requires_gradient_sync: false",
                  "plan.fsdp2.requires_gradient_sync=false",
                  [](const JobSpec& j) {
                    return Accumulates(j, "fsdp2") && j.plan.fsdp2.requires_gradient_sync;
                  },
                  [](JobSpec& j) { j.plan.fsdp2.requires_gradient_sync = false; }},
    CostlySetting{"gradients are summed over the copies in each of {microsteps} micro-steps",
                  "plan.fsdp2.requires_all_reduce: false", "plan.fsdp2.requires_all_reduce=false",
                  [](const JobSpec& j) {
                    return Accumulates(j, "fsdp2") && HasCopies(j) &&
                           j.plan.fsdp2.requires_gradient_sync && j.plan.fsdp2.requires_all_reduce;
                  },
                  [](JobSpec& j) { j.plan.fsdp2.requires_all_reduce = false; }},
    CostlySetting{kReduced, "plan.zero.stage: 1", "plan.zero.stage=1",
                  [](const JobSpec& j) { return Accumulates(j, "zero") && j.plan.zero.stage == 2; },
                  [](JobSpec& j) { j.plan.zero.stage = 1; }},
    CostlySetting{
        "parameters are gathered and gradients reduced in each of {microsteps} micro-steps",
        "plan.zero.stage: 1", "plan.zero.stage=1",
        [](const JobSpec& j) { return Accumulates(j, "zero") && j.plan.zero.stage == 3; },
        [](JobSpec& j) { j.plan.zero.stage = 1; }},
    CostlySetting{kGathered, "plan.fsdp1.sharding_strategy: SHARD_GRAD_OP with no_sync",
                  "plan.fsdp1.sharding_strategy=SHARD_GRAD_OP plan.fsdp1.no_sync=true",
                  [](const JobSpec& j) {
                    return Accumulates(j, "fsdp1") &&
                           j.plan.fsdp1.sharding_strategy == ShardingStrategy::kFullShard;
                  },
                  [](JobSpec& j) {
                    j.plan.fsdp1.sharding_strategy = ShardingStrategy::kShardGradOp;
                    j.plan.fsdp1.no_sync = true;
                  }},
    CostlySetting{kGathered, "plan.fsdp1.sharding_strategy: _HYBRID_SHARD_ZERO2 with no_sync",
                  "plan.fsdp1.sharding_strategy=_HYBRID_SHARD_ZERO2 plan.fsdp1.no_sync=true",
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
                  "plan.fsdp2.reshard_after_forward=false "
                  "plan.fsdp2.reshard_after_backward=false "
                  "plan.fsdp2.requires_gradient_sync=false",
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
                  "host.max_connections: 32", "host.max_connections=32",
                  [](const JobSpec& j) { return j.host.max_connections == 1 && !WantsOneQueue(j); },
                  [](JobSpec& j) { j.host.max_connections = 32; }},
    CostlySetting{"one hardware queue (CUDA_DEVICE_MAX_CONNECTIONS), which Megatron-LM demands for "
                  "tensor parallelism before Blackwell, orders the other collectives as well",
                  "host.max_connections: 32", "host.max_connections=32",
                  [](const JobSpec& j) { return j.host.max_connections == 1 && WantsOneQueue(j); },
                  [](JobSpec& j) { j.host.max_connections = 32; }},
    CostlySetting{
        "several hardware queues (CUDA_DEVICE_MAX_CONNECTIONS), where Megatron-LM demands "
        "one for tensor parallelism before Blackwell: products may take the SMs first "
        "and hide no collective",
        "host.max_connections: 1", /*settings=*/"",
        [](const JobSpec& j) {
          return j.host.max_connections > 1 && j.is_given("host.max_connections") &&
                 WantsOneQueue(j);
        },
        [](JobSpec& j) { j.plan.tensor.async_input_gradient = false; },
        /*is_risk=*/true},
};

constexpr auto kChanges = [] {
  std::array<JobChange, kSettings.size()> changes{};
  for (std::size_t i = 0; i < changes.size(); ++i) {
    changes[i] = {kSettings[i].settings, kSettings[i].applies, kSettings[i].make};
  }
  return changes;
}();

std::string Price(const TriedJob& now, const TriedJob& then, Bytes capacity) {
  const double change = ToSeconds(then.step - now.step) / ToSeconds(now.step);
  std::string text = fmt::format("step {} -> {} ({:+.1f}%), memory {} -> {}", FormatTime(now.step),
                                 FormatTime(then.step), change * 100, FormatMemory(now.peak_memory),
                                 FormatMemory(then.peak_memory));
  if (capacity.value > 0 && then.peak_memory > capacity) text += " (does not fit)";
  return text;
}

}  // namespace

std::span<const JobChange> CostlyChanges() { return kChanges; }

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
    const Duration difference = setting.is_risk ? then.step - now.step : now.step - then.step;
    if (ToSeconds(difference) < kLeastSaving * ToSeconds(now.step)) continue;
    const std::string what = fmt::format(
        fmt::runtime(setting.what), fmt::arg("microsteps", job.batch.gradient_accumulation_steps));
    std::string change(setting.change);
    for (const std::string& path : KeysToTakeOut(changed))
      change += fmt::format(", {}: null", path);
    report->context.warnings.push_back(fmt::format("{}: {} {} {}", what,
                                                   Price(now, then, job.memory_limit()),
                                                   setting.is_risk ? "without" : "with", change));
  }
}

}  // namespace stepsim
