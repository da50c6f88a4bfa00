#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "models/spec/job_rules.h"
#include "models/spec/sharding.h"

namespace stepsim {
namespace {

bool UsesFsdp1(const JobSpec& job) { return job.plan.strategy == "fsdp1"; }
bool UsesFsdp2(const JobSpec& job) { return job.plan.strategy == "fsdp2"; }

constexpr std::array kRows = {
    IneffectiveKey{"plan.fsdp1", "plan.strategy: {strategy}",
                [](const JobSpec& j) { return !UsesFsdp1(j); }},
    IneffectiveKey{"plan.fsdp1.wrap_min_parameters", "plan.fsdp1.wrap: layer",
                [](const JobSpec& j) { return j.plan.fsdp1.wrap == WrapPolicy::kLayer; }},
    IneffectiveKey{"plan.fsdp1.no_sync", "batch.gradient_accumulation_steps: 1",
                [](const JobSpec& j) { return j.batch.gradient_accumulation_steps == 1; }},
    IneffectiveKey{"plan.fsdp1.shard_size", "a sharding_strategy that is not hybrid",
                [](const JobSpec& j) { return !IsHybrid(j.plan.fsdp1.sharding_strategy); }},
    IneffectiveKey{"plan.fsdp2", "plan.strategy: {strategy}",
                [](const JobSpec& j) { return !UsesFsdp2(j); }},
    IneffectiveKey{"plan.fsdp2.wrap_min_parameters", "plan.fsdp2.wrap: layer",
                [](const JobSpec& j) { return j.plan.fsdp2.wrap == WrapPolicy::kLayer; }},
    IneffectiveKey{"plan.fsdp2.requires_gradient_sync", "batch.gradient_accumulation_steps: 1",
                [](const JobSpec& j) { return j.batch.gradient_accumulation_steps == 1; }},
    IneffectiveKey{"plan.fsdp2.requires_all_reduce", "one copy of the parameters (no HSDP)",
                [](const JobSpec& j) { return ShardingOf(j).replicas == 1; }},
};

void CheckShardSize(const JobProblems& problems, std::string_view path, std::int64_t size) {
  const std::int64_t gpus = problems.job.gpus();
  if (size == 0 || problems.AnyInvalid({path, "nodes", "gpus_per_node"})) return;
  if (size <= gpus && gpus % size == 0) return;
  problems.Report(path,
                  fmt::format("shard_size ({}) must divide the {} GPUs; nearest valid: {}", size,
                              gpus, fmt::join(NearestDivisors(gpus, size), ", ")));
}

}  // namespace

std::span<const IneffectiveKey> IneffectiveFsdpKeys() { return kRows; }

void CheckFsdp(const JobProblems& problems) {
  const ParallelPlan& plan = problems.job.plan;
  if (UsesFsdp1(problems.job)) {
    CheckShardSize(problems, "plan.fsdp1.shard_size", plan.fsdp1.shard_size);
  }
  if (UsesFsdp2(problems.job)) {
    CheckShardSize(problems, "plan.fsdp2.shard_size", plan.fsdp2.shard_size);
  }
}

}  // namespace stepsim
