#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <string_view>

#include "models/spec/job_rules.h"
#include "models/spec/pipeline_rules.h"
#include "models/spec/sharding.h"

namespace stepsim {
namespace {

const ZeroPlan& Zero(const JobSpec& job) { return job.plan.zero; }
const MegatronPlan& Megatron(const JobSpec& job) { return job.plan.megatron; }
bool UsesZero(const JobSpec& job) { return Uses(job, "zero"); }
bool UsesMegatron(const JobSpec& job) { return Uses(job, "megatron"); }

// ---- Keys without effect ----

using Job = const JobSpec&;

constexpr bool (*kNotStage3)(Job) = [](Job j) { return Zero(j).stage != 3; };
constexpr bool (*kStage3)(Job) = [](Job j) { return Zero(j).stage == 3; };
constexpr bool (*kFirst)(Job) = [](Job j) {
  return Zero(j).stage == 3 && Zero(j).is_first_iteration();
};
constexpr bool (*kAlways)(Job) = [](Job) { return true; };
constexpr bool (*kNoPipeline)(Job) = [](Job j) { return j.plan.pipeline_parallel == 1; };
constexpr bool (*kNotInterleaved)(Job) = [](Job j) {
  return j.plan.pipeline_parallel == 1 || ChunksPerRank(j) == 1;
};
constexpr bool (*kNotDistributed)(Job) = [](Job j) {
  return !Megatron(j).use_distributed_optimizer;
};
constexpr bool (*kNotBucketed)(Job) = [](Job j) { return !Megatron(j).overlap_grad_reduce; };
constexpr std::string_view kOnlyStage3 = "plan.zero.stage: 1 or 2";
constexpr std::string_view kOnlyStage12 = "plan.zero.stage: 3";
constexpr std::string_view kWithoutTrace =
    "plan.zero.iteration: first, which has no recorded order";
constexpr std::string_view kUnbucketed =
    "plan.megatron.overlap_grad_reduce: false, which has one bucket";

constexpr std::array kRows = {
    IneffectiveKey{"plan.zero", "plan.strategy: {strategy}", [](Job j) { return !UsesZero(j); }},
    IneffectiveKey{"plan.ideal", "plan.zero.stage: 1 or 2, whose one gather waits for nothing",
                   [](Job j) { return UsesZero(j) && Zero(j).stage != 3; }},
    IneffectiveKey{"plan.ideal",
                   "plan.megatron.use_distributed_optimizer: false, which gathers nothing",
                   [](Job j) { return UsesMegatron(j) && !Megatron(j).use_distributed_optimizer; }},
    IneffectiveKey{"plan.ideal", "plan.megatron.iteration: first, in which nothing overlaps",
                   [](Job j) { return UsesMegatron(j) && Megatron(j).is_first_iteration(); }},
    IneffectiveKey{"plan.zero.separate_reduce_group", "plan.ideal: true",
                   [](Job j) { return j.plan.ideal; }},
    IneffectiveKey{"plan.megatron.overlap_param_gather", "plan.ideal: true",
                   [](Job j) { return j.plan.ideal; }},
    IneffectiveKey{"plan.zero.use_multi_rank_bucket_allreduce", kOnlyStage12, kStage3},
    IneffectiveKey{"plan.zero.round_robin_gradients", kOnlyStage12, kStage3},
    IneffectiveKey{"plan.zero.allgather_partitions", kOnlyStage12, kStage3},
    IneffectiveKey{"plan.zero.allgather_into_tensor", kOnlyStage12, kStage3},
    IneffectiveKey{"plan.zero.allgather_bucket_size", kOnlyStage12, kStage3},
    IneffectiveKey{"plan.zero.reduce_scatter", "plan.zero.contiguous_gradients: false",
                   [](Job j) { return !Zero(j).contiguous_gradients; }},
    IneffectiveKey{"plan.zero.use_multi_rank_bucket_allreduce",
                   "plan.zero.contiguous_gradients: false, which all_reduces",
                   [](Job j) { return !Zero(j).contiguous_gradients; }},
    IneffectiveKey{"plan.zero.use_multi_rank_bucket_allreduce",
                   "plan.zero.reduce_scatter: false, which all_reduces",
                   [](Job j) { return !Zero(j).reduce_scatter; }},
    IneffectiveKey{"plan.zero.round_robin_gradients",
                   "an all_reduce of every bucket (use_multi_rank_bucket_allreduce: true)",
                   [](Job j) { return !ReducesToOwners(Zero(j)); }},
    IneffectiveKey{"plan.zero.allgather_into_tensor", "plan.zero.allgather_partitions: false",
                   [](Job j) { return !Zero(j).allgather_partitions; }},
    IneffectiveKey{"plan.zero.allgather_bucket_size", "plan.zero.allgather_partitions: false",
                   [](Job j) { return !Zero(j).allgather_partitions; }},
    IneffectiveKey{"plan.zero.allgather_bucket_size",
                   "plan.zero.allgather_into_tensor: true, one gather of any size",
                   [](Job j) { return Zero(j).allgather_into_tensor; }},
    IneffectiveKey{"plan.zero.iteration", kOnlyStage3, kNotStage3},
    IneffectiveKey{"plan.zero.stage3_prefetch_bucket_size", kOnlyStage3, kNotStage3},
    IneffectiveKey{"plan.zero.stage3_max_live_parameters", kOnlyStage3, kNotStage3},
    IneffectiveKey{"plan.zero.stage3_max_reuse_distance", kOnlyStage3, kNotStage3},
    IneffectiveKey{"plan.zero.stage3_param_persistence_threshold", kOnlyStage3, kNotStage3},
    IneffectiveKey{"plan.zero.stage3_module_granularity_threshold", kOnlyStage3, kNotStage3},
    IneffectiveKey{"plan.zero.stage3_leaf_modules", kOnlyStage3, kNotStage3},
    IneffectiveKey{"plan.zero.stage3_allgather_sequential", kOnlyStage3, kNotStage3},
    IneffectiveKey{"plan.zero.sub_group_size", kOnlyStage3, kNotStage3},
    IneffectiveKey{"plan.zero.zero_hpz_partition_size", kOnlyStage3, kNotStage3},
    IneffectiveKey{"plan.zero.separate_reduce_group", kOnlyStage3, kNotStage3},
    IneffectiveKey{"plan.zero.separate_reduce_group",
                   "plan.zero.overlap_comm: false, where one stream orders them anyway",
                   [](Job j) { return !Zero(j).overlaps(); }},
    IneffectiveKey{"plan.zero.stage3_prefetch_bucket_size", kWithoutTrace, kFirst},
    IneffectiveKey{"plan.zero.stage3_max_live_parameters", kWithoutTrace, kFirst},
    IneffectiveKey{"plan.zero.stage3_max_reuse_distance", kWithoutTrace, kFirst},
    IneffectiveKey{"plan.zero.stage3_param_persistence_threshold", kWithoutTrace, kFirst},
    IneffectiveKey{"plan.zero.stage3_max_live_parameters",
                   "plan.zero.stage3_prefetch_bucket_size: 0, since it bounds only what is "
                   "gathered ahead",
                   [](Job j) { return Zero(j).stage3_prefetch_bucket_size == 0; }},
    IneffectiveKey{"plan.megatron", "plan.strategy: {strategy}",
                   [](Job j) { return !UsesMegatron(j); }},
    IneffectiveKey{"plan.megatron.ddp_bucket_size", kUnbucketed, kNotBucketed},
    IneffectiveKey{"plan.megatron.ddp_num_buckets", kUnbucketed, kNotBucketed},
    IneffectiveKey{"plan.megatron.iteration",
                   "plan.megatron.overlap_grad_reduce: false, where no iteration overlaps",
                   kNotBucketed},
    IneffectiveKey{"plan.megatron.pad_buckets_for_high_nccl_busbw",
                   "plan.megatron.use_distributed_optimizer: false, which pads nothing",
                   kNotDistributed},
    IneffectiveKey{"plan.megatron.align_param_gather", "no interleaved pipeline", kNotInterleaved},
    IneffectiveKey{"plan.megatron.align_grad_reduce", "no pipeline", kNoPipeline},
    IneffectiveKey{"plan.megatron.overlap_param_gather_with_optimizer_step",
                   "any pipeline or none: it is not modelled", kAlways},
};

// ---- Combinations that the frameworks refuse ----

void CheckHpz(const JobProblems& problems) {
  constexpr std::string_view kPath = "plan.zero.zero_hpz_partition_size";
  const JobSpec& job = problems.job;
  const std::int64_t size = Zero(job).zero_hpz_partition_size;
  if (problems.AnyInvalid({kPath, "gpus_per_node", "nodes"}) || size == 1) return;
  if (size <= job.gpus_per_node && job.gpus_per_node % size == 0) return;
  problems.Report(kPath,
                  fmt::format("found {}, allowed: DeepSpeed's second copy lies inside a "
                              "node, so a divisor of the {} GPUs per node; nearest valid: {}",
                              size, job.gpus_per_node,
                              fmt::join(NearestDivisors(job.gpus_per_node, size), ", ")));
}

// Its engine keeps gradients whole between micro-batches.
void CheckZeroPipeline(const JobProblems& problems) {
  constexpr std::string_view kPath = "plan.zero.stage";
  const JobSpec& job = problems.job;
  if (job.plan.pipeline_parallel == 1 || Zero(job).stage == 1) return;
  if (problems.AnyInvalid({kPath, "plan.pipeline_parallel"})) return;
  problems.Report(kPath,
                  fmt::format("found {} with pipeline_parallel ({}), allowed: 1; DeepSpeed's "
                              "pipelines do not work with ZeRO-2 and ZeRO-3; nearest "
                              "valid: 1",
                              Zero(job).stage, job.plan.pipeline_parallel));
}

// A task for each rank.
void CheckCallsPerRank(const JobProblems& problems, std::string_view path) {
  constexpr std::int64_t kMost = 65'536;
  if (problems.AnyInvalid({"gpus_per_node", "nodes"}) || problems.job.gradient_ranks() <= kMost)
    return;
  problems.Report(path, fmt::format("found 'false', a call for each of the {} GPUs, allowed: at "
                                    "most {} GPUs, or 'true'",
                                    problems.job.gradient_ranks(), kMost));
}

void CheckSteps(const JobProblems& problems, std::string_view strategy, std::int64_t most) {
  if (problems.job.simulate.steps <= most) return;
  problems.Report("simulate.steps",
                  fmt::format("found {} with plan.{}.iteration: first, which comes {}, allowed: {}",
                              problems.job.simulate.steps, strategy, most == 1 ? "once" : "twice",
                              most == 1 ? "1" : "1 or 2"));
}

void CheckParamGather(const JobProblems& problems) {
  const MegatronPlan& plan = Megatron(problems.job);
  if (!plan.overlap_param_gather) return;
  const auto needs = [&](bool has, std::string_view key) {
    if (has) return;
    problems.Report("plan.megatron.overlap_param_gather",
                    fmt::format("found 'true' with {}: false; Megatron-LM's --overlap-param-gather "
                                "needs --use-distributed-optimizer and --overlap-grad-reduce",
                                key));
  };
  needs(plan.use_distributed_optimizer, "use_distributed_optimizer");
  needs(plan.overlap_grad_reduce, "overlap_grad_reduce");
}

void CheckFp8Parameters(const JobProblems& problems) {
  constexpr std::string_view kPath = "plan.megatron.fp8_param_gather";
  const JobSpec& job = problems.job;
  if (!Megatron(job).fp8_param_gather) return;
  if (job.precision.compute != DType::kFp8) {
    problems.Report(kPath, "found 'true' without precision.compute: fp8, allowed: false");
  }
  if (!Megatron(job).use_distributed_optimizer) {
    problems.Report(kPath,
                    "found 'true' with use_distributed_optimizer: false, allowed: false; "
                    "Megatron-LM's --fp8-param-gather needs --use-distributed-optimizer");
  }
}

void CheckInstances(const JobProblems& problems) {
  constexpr std::string_view kPath = "plan.megatron.num_distributed_optimizer_instances";
  const JobSpec& job = problems.job;
  const std::int64_t count = Megatron(job).num_distributed_optimizer_instances;
  if (count == 1 || problems.AnyInvalid({kPath, "gpus_per_node", "nodes"})) return;
  if (!Megatron(job).use_distributed_optimizer) {
    problems.Report(kPath, fmt::format("found {} with use_distributed_optimizer: false; "
                                       "Megatron-LM's instances are of the distributed optimizer",
                                       count));
  } else if (job.gradient_ranks() % count != 0) {
    problems.Report(kPath,
                    fmt::format("instances ({}) must divide the data parallel size ({}); "
                                "nearest valid: {}",
                                count, job.gradient_ranks(),
                                fmt::join(NearestDivisors(job.gradient_ranks(), count), ", ")));
  }
}

void CheckFp32Accumulation(const JobProblems& problems) {
  constexpr std::string_view kPath = "plan.megatron.reduce_scatter_with_fp32_accumulation";
  const MegatronPlan& plan = Megatron(problems.job);
  if (!plan.reduce_scatter_with_fp32_accumulation) return;
  if (!plan.use_distributed_optimizer) {
    problems.Report(kPath,
                    "found 'true' with use_distributed_optimizer: false, which reduces without a "
                    "reduce_scatter");
  } else if (ShardingOf(problems.job).reduce == DType::kFp32) {
    problems.Report(kPath,
                    "found 'true' with gradients that are reduced in fp32 anyway; Megatron-LM "
                    "allows it for 16-bit reductions: grad_reduce_in_fp32: false");
  } else if (plan.num_distributed_optimizer_instances > 1) {
    problems.Report(kPath,
                    "found 'true' with num_distributed_optimizer_instances above 1, allowed: one "
                    "of the two");
  }
}

}  // namespace

std::span<const IneffectiveKey> IneffectiveZeroKeys() { return kRows; }

void CheckZero(const JobProblems& problems) {
  if (!UsesZero(problems.job)) return;
  CheckZeroPipeline(problems);
  const ZeroPlan& plan = Zero(problems.job);
  if (plan.stage == 3) {
    CheckHpz(problems);
    if (plan.is_first_iteration()) CheckSteps(problems, "zero", 2);
    return;
  }
  if (ReducesToOwners(plan)) {
    CheckCallsPerRank(problems, "plan.zero.use_multi_rank_bucket_allreduce");
  }
  if (!plan.allgather_partitions) CheckCallsPerRank(problems, "plan.zero.allgather_partitions");
}

void CheckMegatron(const JobProblems& problems) {
  if (!UsesMegatron(problems.job)) return;
  const MegatronPlan& plan = Megatron(problems.job);
  CheckParamGather(problems);
  CheckFp8Parameters(problems);
  CheckInstances(problems);
  CheckFp32Accumulation(problems);
  if (plan.ddp_bucket_size.has_value() && plan.ddp_num_buckets.has_value()) {
    problems.Report("plan.megatron.ddp_num_buckets",
                    "found beside ddp_bucket_size, allowed: one of the two, as Megatron-LM has it");
  }
  if (plan.is_first_iteration() && plan.overlap_grad_reduce) CheckSteps(problems, "megatron", 1);
}

}  // namespace stepsim
