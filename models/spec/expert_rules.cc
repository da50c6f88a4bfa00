#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "models/spec/job_rules.h"
#include "models/spec/pipeline_rules.h"
#include "models/spec/sharding.h"

namespace stepsim {
namespace {

bool HasNoExperts(const JobSpec& job) {
  const TransformerSpec* spec = TransformerOf(job);
  return spec == nullptr || !spec->has_experts();
}
bool HasNoSharedExpert(const JobSpec& job) {
  return HasNoExperts(job) || TransformerOf(job)->experts.shared_ffn_size == 0;
}
bool AreTogether(const JobSpec& job) {
  return job.plan.expert_parallel * job.plan.expert_tensor_parallel() == 1;
}
bool HasCapacity(const JobSpec& job) { return job.plan.expert.capacity_factor.has_value(); }

constexpr std::string_view kNone = "a model without experts";
constexpr std::string_view kNoShared = "a model without a shared expert";

constexpr std::array kRows = {
    IneffectiveKey{"model.transformer.experts", "experts.count: 0", HasNoExperts},
    IneffectiveKey{"model.transformer.experts.shared_gate", kNoShared, HasNoSharedExpert},
    IneffectiveKey{"plan.expert", kNone, HasNoExperts},
    IneffectiveKey{"recompute.modules.moe", kNone, HasNoExperts},
    IneffectiveKey{"plan.expert.dispatcher", "experts that are all on one rank", AreTogether},
    IneffectiveKey{"plan.expert.imbalance", "plan.expert_parallel: 1",
                   [](const JobSpec& j) { return j.plan.expert_parallel == 1; }},
    IneffectiveKey{"plan.expert.imbalance",
                   "plan.expert.pad_to_capacity: true, which sends each rank as many rows",
                   [](const JobSpec& j) { return j.plan.expert.pad_to_capacity; }},
    IneffectiveKey{"plan.fsdp2.layer_prefetch", "plan.expert_parallel: 1",
                   [](const JobSpec& j) { return j.plan.expert_parallel == 1; }},
    IneffectiveKey{"plan.expert.pad_to_capacity", "no plan.expert.capacity_factor",
                   [](const JobSpec& j) { return !HasCapacity(j); }},
    IneffectiveKey{"plan.expert.shared_expert_overlap", kNoShared, HasNoSharedExpert},
    IneffectiveKey{"plan.expert.overlap_microbatches", "batch.gradient_accumulation_steps: 1",
                   [](const JobSpec& j) { return j.batch.gradient_accumulation_steps == 1; }},
    IneffectiveKey{"plan.expert.delay_weight_gradients",
                   "neither plan.expert.overlap_microbatches nor "
                   "plan.pipeline.overlap_forward_backward",
                   [](const JobSpec& j) { return !PairsMicrobatches(j); }},
};

class ExpertChecker {
 public:
  explicit ExpertChecker(const JobProblems& problems)
      : problems_(problems), job_(problems.job), plan_(job_.plan) {}

  void Check() {
    const TransformerSpec* spec = TransformerOf(job_);
    if (HasNoExperts(job_)) {
      if (plan_.expert_parallel > 1) {
        Report("plan.expert_parallel",
               fmt::format("found {} with model {}, which has no experts, allowed: 1",
                           plan_.expert_parallel, job_.model.name));
      }
      return;
    }
    if (problems_.AnyInvalid({"model.transformer.experts", "plan.expert_parallel",
                              "plan.expert.tensor_parallel", "plan.tensor_parallel"})) {
      return;
    }
    CheckNetwork(*spec);
    CheckShares(*spec);
    CheckPlan();
    if (PairsMicrobatches(job_)) CheckPairs();
  }

 private:
  void Report(std::string_view path, const std::string& message) {
    problems_.Report(path, message);
  }

  void CheckNetwork(const TransformerSpec& spec) {
    const ExpertsSpec& experts = spec.experts;
    if (experts.top_k > experts.count) {
      Report(
          "model.transformer.experts.top_k",
          fmt::format("found {}, allowed: at most the {} experts", experts.top_k, experts.count));
    }
    if (experts.dense_layers >= spec.layers) {
      Report("model.transformer.experts.dense_layers",
             fmt::format("found {}, allowed: fewer than the {} layers", experts.dense_layers,
                         spec.layers));
    }
    if (!spec.causal) {
      Report("model.transformer.causal", "found 'false' with experts, allowed: true");
    }
    if (spec.mlp_bias && spec.expert_layers() == spec.layers) {
      Report("model.transformer.mlp_bias",
             "found 'true' with experts in every layer, allowed: false (experts have no biases)");
    }
  }

  // Who holds which part of the experts?
  void CheckShares(const TransformerSpec& spec) {
    const std::int64_t ranks = plan_.expert_parallel, tensor = plan_.expert_tensor_parallel();
    const ExpertsSpec& experts = spec.experts;
    if (experts.count % ranks != 0) {
      Report("plan.expert_parallel",
             fmt::format("found {}, allowed: a divisor of the {} experts of model {}; nearest "
                         "valid: {}",
                         ranks, experts.count, job_.model.name,
                         fmt::join(NearestDivisors(experts.count, ranks), ", ")));
    }
    const std::int64_t stage = job_.gpus() / plan_.pipeline_parallel;
    if (stage % (ranks * tensor) != 0) {
      const std::int64_t most = std::max<std::int64_t>(stage / tensor, 1);
      Report("plan.expert_parallel",
             fmt::format("expert_parallel x tensor parallelism of the experts = {} x {} = {} must "
                         "divide the ranks of a pipeline stage ({}); nearest valid: {}",
                         ranks, tensor, ranks * tensor, stage,
                         fmt::join(NearestDivisors(most, ranks), ", ")));
    }
    if (experts.ffn_size % tensor != 0) {
      Report("plan.expert.tensor_parallel",
             fmt::format("experts.ffn_size ({}) must be a multiple of it ({}); nearest valid: {}",
                         experts.ffn_size, tensor,
                         fmt::join(NearestDivisors(experts.ffn_size, tensor), ", ")));
    }
    if (experts.shared_ffn_size % plan_.tensor_parallel != 0) {
      Report("plan.tensor_parallel",
             fmt::format(
                 "found {}, allowed: a divisor of experts.shared_ffn_size ({}); nearest "
                 "valid: {}",
                 plan_.tensor_parallel, experts.shared_ffn_size,
                 fmt::join(NearestDivisors(experts.shared_ffn_size, plan_.tensor_parallel), ", ")));
    }
    if (plan_.tensor_parallel > 1 && !plan_.sequence_parallel()) {
      Report("plan.tensor.sequence_parallel",
             "found 'false' with experts and tensor_parallel above 1, allowed: true: Megatron-LM "
             "refuses "
             "to train experts on whole sequences, and PyTorch's tensor parallelism cuts them");
    }
  }

  void CheckPlan() {
    const ExpertPlan& expert = plan_.expert;
    if (plan_.has_expert_mesh()) CheckMesh();
    CheckImbalance();
    if (expert.shared_expert_overlap && expert.dispatcher != ExpertDispatcher::kAllToAll) {
      Report("plan.expert.shared_expert_overlap",
             "found 'true' with dispatcher: allgather, allowed: with dispatcher: alltoall");
    }
    if (expert.shared_expert_overlap && plan_.tensor.overlap != TensorOverlap::kNone) {
      Report("plan.expert.shared_expert_overlap",
             "found 'true' with plan.tensor.overlap, allowed: with plan.tensor.overlap: none");
    }
  }

  // Megatron-LM's rules for overlap_moe_expert_parallel_comm; joined passes of a pipeline have
  // those of them that come from the exchanges.
  void CheckPairs() {
    const bool is_own = plan_.expert.overlap_microbatches;
    const std::string_view key =
        is_own ? "plan.expert.overlap_microbatches" : "plan.pipeline.overlap_forward_backward";
    const auto refuse = [&](bool is_wrong, std::string_view with, std::string_view allowed) {
      if (is_wrong) Report(key, fmt::format("found 'true' with {}, allowed: {}", with, allowed));
    };
    refuse(plan_.expert_parallel == 1, "plan.expert_parallel: 1, which exchanges nothing",
           fmt::format("false, or expert_parallel from {}", LeastShare()));
    refuse(plan_.expert.dispatcher != ExpertDispatcher::kAllToAll, "dispatcher: allgather",
           "with dispatcher: alltoall");
    refuse(plan_.expert.shared_expert_overlap, "plan.expert.shared_expert_overlap: true",
           "with shared_expert_overlap: false");
    const RecomputeSpec& recompute = job_.recompute;
    const bool repeats = recompute.IsOn() && (recompute.IsFull() || recompute.modules.moe ||
                                              recompute.policy != RecomputePolicy::kModules);
    refuse(repeats, "recomputation that repeats exchanges",
           "with recompute.granularity: none, or selective of modules other than moe");
    if (!is_own) return;
    refuse(!Uses(job_, "megatron"), fmt::format("plan.strategy: {}", plan_.strategy),
           "with plan.strategy: megatron");
    const DType type = job_.precision.compute;
    refuse(type == DType::kFp32 || type == DType::kTf32,
           fmt::format("precision.compute: {}", ToString(type)),
           "with precision.compute: bf16, fp16 or fp8");
    if (plan_.pipeline_parallel == 1) return;
    refuse(!IsMegatronsInterleaving(ScheduleNameOf(job_)),
           fmt::format("plan.pipeline.schedule: {}", plan_.pipeline.schedule),
           "with pipeline_parallel: 1, or Megatron-LM's interleaving (schedule: interleaved_1f1b, "
           "virtual_stages: 2 or more)");
  }

  std::int64_t LeastShare() const {
    return NearestDivisors(TransformerOf(job_)->experts.count, 2).front();
  }

  // Which strategies know of ranks that hold other experts?
  void CheckMesh() {
    if (Uses(job_, "megatron")) {
      CheckInstances();
      return;
    }
    if (Uses(job_, "fsdp1") || Uses(job_, "zero")) {
      Report("plan.strategy",
             fmt::format("found '{}' with experts that are dealt out over ranks of their own "
                         "(expert_parallel: {}), allowed: fsdp2, megatron, ddp or none; {}; "
                         "nearest valid: {}",
                         plan_.strategy, plan_.expert_parallel,
                         Uses(job_, "zero") ? "DeepSpeed's groups of experts are not simulated"
                                            : "FSDP1 shards all parameters over the same ranks",
                         Uses(job_, "zero") && plan_.zero.stage < 3
                             ? "megatron with use_distributed_optimizer: true"
                             : "fsdp2"));
      return;
    }
    if (plan_.expert.dispatcher != ExpertDispatcher::kAllToAll) {
      Report("plan.expert.dispatcher",
             "found 'allgather', allowed: alltoall; only Megatron-LM gathers the tokens of all");
    }
    if (Uses(job_, "fsdp2")) CheckFsdp2();
  }

  // Every copy of the optimizer states has all experts.
  void CheckInstances() {
    const std::int64_t instances = plan_.megatron.num_distributed_optimizer_instances;
    const std::int64_t ranks = job_.expert_gradient_ranks();
    if (ranks % instances == 0) return;
    Report("plan.megatron.num_distributed_optimizer_instances",
           fmt::format("found {}, allowed: a divisor of the {} ranks that hold the same experts; "
                       "nearest valid: {}",
                       instances, ranks, fmt::join(NearestDivisors(ranks, instances), ", ")));
  }

  // torchtitan's mesh: each expert is cut as the rest is or not at all, and experts lie over all
  // context parallel and some of the sharding ranks of a copy, and over the tensor parallel ones
  // where these do not cut them.
  void CheckFsdp2() {
    const std::int64_t tensor = plan_.expert_tensor_parallel();
    const bool is_cut = tensor == plan_.tensor_parallel;
    if (!is_cut && (tensor != 1 || plan_.expert_parallel == 1)) {
      Report(
          "plan.expert.tensor_parallel",
          fmt::format("found {}, allowed: tensor_parallel ({}), or 1 with expert_parallel above 1",
                      tensor, plan_.tensor_parallel));
      return;
    }
    const std::int64_t ranks = plan_.expert_parallel;
    const std::int64_t least = plan_.context_parallel * (is_cut ? 1 : plan_.tensor_parallel);
    const std::int64_t copy = ShardingOf(job_).shards * (is_cut ? 1 : plan_.tensor_parallel);
    if (ranks % least != 0 || copy % ranks != 0) {
      std::vector<std::int64_t> valid =
          NearestDivisors(copy / least, std::max<std::int64_t>(ranks / least, 1));
      for (std::int64_t& degree : valid) degree *= least;
      Report("plan.expert_parallel",
             fmt::format(
                 "found {}, allowed: a multiple of {} ({}) that divides the {} ranks of one "
                 "copy; nearest valid: {}",
                 ranks, least, is_cut ? "context_parallel" : "context_parallel x tensor_parallel",
                 copy, fmt::join(valid, ", ")));
    }
    if (ReshardingOf(job_).size > 0) {
      Report("plan.fsdp2.reshard_after_forward",
             fmt::format("found {} with experts on ranks of their own, allowed: auto, true or "
                         "false: the ranks of a smaller copy are not those of the experts",
                         plan_.fsdp2.reshard_after_forward));
    }
  }

  // A rank has at most every token, once for each of its experts.
  void CheckImbalance() {
    const ExpertsSpec& experts = TransformerOf(job_)->experts;
    const double most =
        std::min(static_cast<double>(plan_.expert_parallel),
                 static_cast<double>(experts.count) / static_cast<double>(experts.top_k));
    if (plan_.expert_parallel == 1 || plan_.expert.imbalance <= most) return;
    Report("plan.expert.imbalance",
           fmt::format("found {}, allowed: 1 to {}; {} of {} experts for a token on {} ranks bring "
                       "the busiest at most {} times the mean",
                       plan_.expert.imbalance, most, experts.top_k, experts.count,
                       plan_.expert_parallel, most));
  }

  const JobProblems& problems_;
  const JobSpec& job_;
  const ParallelPlan& plan_;
};

}  // namespace

std::span<const IneffectiveKey> IneffectiveExpertKeys() { return kRows; }

void CheckExperts(const JobProblems& problems) { ExpertChecker(problems).Check(); }

}  // namespace stepsim
