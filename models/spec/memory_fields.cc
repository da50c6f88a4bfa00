#include <array>

#include "models/spec/spec_fields.h"

namespace stepsim {
namespace {

constexpr std::array kGranularityNames = {
    EnumName<RecomputeGranularity>{RecomputeGranularity::kNone, "none"},
    EnumName<RecomputeGranularity>{RecomputeGranularity::kSelective, "selective"},
    EnumName<RecomputeGranularity>{RecomputeGranularity::kFull, "full"},
};
constexpr std::array kMethodNames = {
    EnumName<RecomputeMethod>{RecomputeMethod::kUniform, "uniform"},
    EnumName<RecomputeMethod>{RecomputeMethod::kBlock, "block"},
};
constexpr std::array kPolicyNames = {
    EnumName<RecomputePolicy>{RecomputePolicy::kModules, "modules"},
    EnumName<RecomputePolicy>{RecomputePolicy::kOp, "op"},
    EnumName<RecomputePolicy>{RecomputePolicy::kLayer, "layer"},
};

const StructTable<RecomputeModules>& ModuleFields() {
  using M = RecomputeModules;
  static const StructTable<M> table{
      Field(
          "core_attn", &M::core_attn,
          "scores, softmax and context; nothing is won with flash attention, whose kernel does it "
          "anyway"),
      Field("mlp", &M::mlp, "the linears of the MLP and the activation between them"),
      Field("layernorm", &M::layernorm, "what the norms write: their input stays"),
      Field("moe", &M::moe, "the mixture of experts, from its router to the sum of its results"),
  };
  return table;
}

}  // namespace

const StructTable<RecomputeSpec>& RecomputeFields() {
  using R = RecomputeSpec;
  static const StructTable<R> table{
      Field("granularity", &R::granularity, kGranularityNames,
            "none; full: only the input of each layer is kept, backward runs its forward again; "
            "selective: parts of it (policy)")
          .Aliases({"recompute_granularity", "mode"}),
      Field("method", &R::method, kMethodNames,
            "full: uniform: every layer, num_layers to a checkpoint; block: only the first "
            "num_layers")
          .Aliases({"recompute_method"}),
      Field("num_layers", &R::num_layers,
            "full, uniform: layers of a checkpoint; full, block: how many layers; selective, "
            "layer: every how many-th")
          .Range(1, 1e6)
          .Aliases({"recompute_num_layers"}),
      Field("policy", &R::policy, kPolicyNames,
            "selective: modules (Megatron); op: everything but the results of attention and of "
            "every second matrix product; layer: every num_layers-th layer (torchtitan)"),
      Field("modules", &R::modules, ModuleFields(), "selective, modules: what is run again")
          .Aliases({"recompute_modules"}),
      Field("early_stop", &R::early_stop,
            "end a rerun when backward has what it needs, as torch.utils.checkpoint does without "
            "use_reentrant; Megatron, DeepSpeed and torchtitan run to the end"),
  };
  return table;
}

const StructTable<MemorySpec>& MemoryFields() {
  using M = MemorySpec;
  static const StructTable<M> table{
      Field("allocator_slack", &M::allocator_slack,
            "reserved over allocated, of what comes and goes in a step: rounding and fragmentation")
          .Range(1, 10),
      Field("context", &M::context, "the CUDA context of a process: kernels, stacks, page tables"),
      Field("communicator", &M::communicator,
            "NCCL's buffers, for each process group that is used"),
      Field("limit", &M::limit, "bytes per GPU that the job may take").Unset("hardware.gpu.memory"),
      Field("fail_on_oom", &M::fail_on_oom,
            "a job that does not fit ends with exit status 3, not with a warning"),
  };
  return table;
}

}  // namespace stepsim
