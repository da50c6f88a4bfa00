#include "models/microstep_advice.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

#include "models/simulate_job.h"
#include "models/spec/sharding.h"
#include "sim/base/units.h"

namespace stepsim {
namespace {

// What a strategy sends in every micro-step, and the change that stops it.
struct Alternative {
  std::string_view what;
  std::string_view change;
  bool (*applies)(const JobSpec&);
  void (*make)(ParallelPlan&);
};

bool Uses(const JobSpec& job, std::string_view strategy) { return job.plan.strategy == strategy; }
bool HasCopies(const JobSpec& job) { return ShardingOf(job).replicas > 1; }

constexpr std::string_view kReduced = "gradients are reduced";
constexpr std::string_view kGathered = "parameters are gathered";

constexpr std::array kAlternatives = {
    Alternative{kReduced, "plan.ddp.no_sync: true",
                [](const JobSpec& j) { return Uses(j, "ddp") && !j.plan.ddp.no_sync; },
                [](ParallelPlan& p) { p.ddp.no_sync = true; }},
    Alternative{kReduced, "plan.fsdp1.no_sync: true",
                [](const JobSpec& j) { return Uses(j, "fsdp1") && !j.plan.fsdp1.no_sync; },
                [](ParallelPlan& p) { p.fsdp1.no_sync = true; }},
    Alternative{
        kReduced, "plan.fsdp2.requires_gradient_sync: false",
        [](const JobSpec& j) { return Uses(j, "fsdp2") && j.plan.fsdp2.requires_gradient_sync; },
        [](ParallelPlan& p) { p.fsdp2.requires_gradient_sync = false; }},
    Alternative{"gradients are summed over the copies", "plan.fsdp2.requires_all_reduce: false",
                [](const JobSpec& j) {
                  return Uses(j, "fsdp2") && HasCopies(j) && j.plan.fsdp2.requires_gradient_sync &&
                         j.plan.fsdp2.requires_all_reduce;
                },
                [](ParallelPlan& p) { p.fsdp2.requires_all_reduce = false; }},
    Alternative{kReduced, "plan.zero.stage: 1",
                [](const JobSpec& j) { return Uses(j, "zero") && j.plan.zero.stage == 2; },
                [](ParallelPlan& p) { p.zero.stage = 1; }},
    Alternative{"parameters are gathered and gradients reduced", "plan.zero.stage: 1",
                [](const JobSpec& j) { return Uses(j, "zero") && j.plan.zero.stage == 3; },
                [](ParallelPlan& p) { p.zero.stage = 1; }},
    Alternative{kGathered, "plan.fsdp1.sharding_strategy: SHARD_GRAD_OP with no_sync",
                [](const JobSpec& j) {
                  return Uses(j, "fsdp1") &&
                         j.plan.fsdp1.sharding_strategy == ShardingStrategy::kFullShard;
                },
                [](ParallelPlan& p) {
                  p.fsdp1.sharding_strategy = ShardingStrategy::kShardGradOp;
                  p.fsdp1.no_sync = true;
                }},
    Alternative{kGathered,
                "plan.fsdp2: {reshard_after_forward, reshard_after_backward, "
                "requires_gradient_sync: false}",
                [](const JobSpec& j) {
                  return Uses(j, "fsdp2") && (j.plan.fsdp2.reshard_after_forward != "false" ||
                                              j.plan.fsdp2.reshard_after_backward);
                },
                [](ParallelPlan& p) {
                  p.fsdp2.reshard_after_forward = "false";
                  p.fsdp2.reshard_after_backward = false;
                  p.fsdp2.requires_gradient_sync = false;
                }},
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

void AddMicrostepWarnings(const JobSpec& job, StepReport* report) {
  constexpr double kLeastSaving = 0.005;  // of the step
  const std::int64_t microsteps = job.batch.gradient_accumulation_steps;
  if (microsteps == 1 || job.gpus() == 1) return;
  const TriedJob now{report->account().step, report->memory.total};
  for (const Alternative& alternative : kAlternatives) {
    if (!alternative.applies(job)) continue;
    JobSpec changed = job;
    alternative.make(changed.plan);
    const TriedJob then = TryJob(changed);
    if (ToSeconds(now.step - then.step) < kLeastSaving * ToSeconds(now.step)) continue;
    report->context.warnings.push_back(
        fmt::format("{} in each of {} micro-steps; once: {} with {}", alternative.what, microsteps,
                    Price(now, then, job.hardware.gpu.memory), alternative.change));
  }
}

}  // namespace stepsim
