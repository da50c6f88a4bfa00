#include <array>

#include "models/spec/spec_fields.h"

namespace stepsim {
namespace {

constexpr std::array kWrapNames = {
    EnumName<WrapPolicy>{WrapPolicy::kLayer, "layer"},
    EnumName<WrapPolicy>{WrapPolicy::kMinParameters, "min_parameters"},
    EnumName<WrapPolicy>{WrapPolicy::kCustom, "custom"},
};

constexpr std::array kStrategyNames = {
    EnumName<ShardingStrategy>{ShardingStrategy::kFullShard, "FULL_SHARD"},
    EnumName<ShardingStrategy>{ShardingStrategy::kShardGradOp, "SHARD_GRAD_OP"},
    EnumName<ShardingStrategy>{ShardingStrategy::kNoShard, "NO_SHARD"},
    EnumName<ShardingStrategy>{ShardingStrategy::kHybridShard, "HYBRID_SHARD"},
    EnumName<ShardingStrategy>{ShardingStrategy::kHybridShardZero2, "_HYBRID_SHARD_ZERO2"},
};
constexpr std::array kPrefetchNames = {
    EnumName<BackwardPrefetch>{BackwardPrefetch::kPre, "BACKWARD_PRE"},
    EnumName<BackwardPrefetch>{BackwardPrefetch::kPost, "BACKWARD_POST"},
    EnumName<BackwardPrefetch>{BackwardPrefetch::kNone, "none"},
};

constexpr const char* kWrapModulesDoc =
    "wrap: custom: names of units, patterns ('layers.*'), and groups of several "
    "('final_norm+head'); "
    "the rest stays with the root";

}  // namespace

const StructTable<Fsdp1Plan>& Fsdp1Fields() {
  using P = Fsdp1Plan;
  static const StructTable<P> table{
      Field("wrap", &P::wrap, kWrapNames,
            "what is one flat parameter: every layer, modules until they hold "
            "wrap_min_parameters, or what wrap_modules says"),
      Field("wrap_min_parameters", &P::wrap_min_parameters, "parameters that close a unit")
          .Range(1, 1e15),
      Field("wrap_modules", &P::wrap_modules, kWrapModulesDoc),
      Field("sharding_strategy", &P::sharding_strategy, kStrategyNames,
            "what is sharded, and over which ranks"),
      Field("backward_prefetch", &P::backward_prefetch, kPrefetchNames,
            "when the next unit of backward is gathered: before or after this one's kernels"),
      Field("forward_prefetch", &P::forward_prefetch,
            "gather the next unit before this one's forward"),
      Field("limit_all_gathers", &P::limit_all_gathers,
            "the host waits when two freed units have not been reached by the device"),
      Field("param_dtype", &P::param_dtype, "MixedPrecision: of gathers and compute")
          .Unset("the type of activations"),
      Field("reduce_dtype", &P::reduce_dtype, "MixedPrecision: of gradients on the wire")
          .Unset("param_dtype"),
      Field("buffer_dtype", &P::buffer_dtype,
            "MixedPrecision: of buffers, cast when the model is wrapped; moves nothing in a step")
          .Unset("as stored"),
      Field("use_orig_params", &P::use_orig_params, "no effect on what moves, or when"),
      Field("cpu_offload", &P::cpu_offload, "CPUOffload; not modelled, only false is allowed"),
      Field(
          "iteration", &P::iteration, kIterationNames,
          "which iteration is simulated; the first checks the order of gathers and has no forward "
          "prefetch"),
      Field("shard_size", &P::shard_size, "hybrid strategies: ranks of one copy; 0: a node")
          .Range(0, 1e7),
      Field("no_sync", &P::no_sync,
            "under gradient accumulation reduce in the last micro-step only; gradients stay "
            "unsharded until then"),
      Field("separate_reduce_group", &P::separate_reduce_group,
            "reduce_scatters on a communicator of their own, beside the gathers"),
  };
  return table;
}

const StructTable<Fsdp2Plan>& Fsdp2Fields() {
  using P = Fsdp2Plan;
  static const StructTable<P> table{
      Field("wrap", &P::wrap, kWrapNames,
            "what is gathered as one: every layer, modules until they hold wrap_min_parameters, or "
            "what wrap_modules says"),
      Field("wrap_min_parameters", &P::wrap_min_parameters, "parameters that close a group")
          .Range(1, 1e15),
      Field("wrap_modules", &P::wrap_modules, kWrapModulesDoc),
      Field("reshard_after_forward", &P::reshard_after_forward,
            "free a group's parameters between forward and backward: auto (all but the root's), "
            "true, false, or k: keep a copy that is sharded over k ranks"),
      Field("keep_after_forward", &P::keep_after_forward,
            "modules whose groups have reshard_after_forward=False of their own"),
      Field("forward_prefetch", &P::forward_prefetch,
            "groups gathered ahead in forward (set_modules_to_forward_prefetch)")
          .Range(0, 1000),
      Field("backward_prefetch", &P::backward_prefetch,
            "groups gathered ahead in backward; 1 is FSDP2's implicit prefetch")
          .Range(0, 1000),
      Field("layer_prefetch", &P::layer_prefetch,
            "instead of both: every layer names the next one and its experts, as torchtitan does "
            "with expert parallelism")
          .Unset("true where expert_parallel > 1"),
      Field("param_dtype", &P::param_dtype, "MixedPrecisionPolicy: of gathers and compute")
          .Unset("the type of activations"),
      Field("reduce_dtype", &P::reduce_dtype, "MixedPrecisionPolicy: of gradients on the wire")
          .Unset("param_dtype"),
      Field("gradient_divide_factor", &P::gradient_divide_factor,
            "set_gradient_divide_factor: what fp16 gradients are divided by")
          .Unset("the ranks")
          .Above(0)
          .AtMost(1e9),
      Field("shard_size", &P::shard_size,
            "ranks that hold one copy together; fewer than all is HSDP; 0: all")
          .Range(0, 1e7)
          .Aliases({"data_parallel_shard_degree"}),
      Field("requires_gradient_sync", &P::requires_gradient_sync,
            "reduce in every micro-step; false: only in the last, gradients stay unsharded"),
      Field("requires_all_reduce", &P::requires_all_reduce,
            "HSDP: sum over the copies in every micro-step; false: only in the last"),
      Field("reshard_after_backward", &P::reshard_after_backward,
            "free parameters after every backward; false: only after the last micro-step's"),
      Field("is_last_backward", &P::is_last_backward,
            "compute waits for the reductions at the end of every backward; false: only at that of "
            "the last micro-step"),
      Field("unshard_in_backward", &P::unshard_in_backward,
            "false: the first group (an embedding of its own) is not gathered in backward"),
      Field("unshard_async_op", &P::unshard_async_op,
            "_set_unshard_async_op: gathers on the process group's stream, copy-in on compute"),
      Field("cpu_offload", &P::cpu_offload,
            "CPUOffloadPolicy; not modelled, only false is allowed"),
      Field("separate_reduce_group", &P::separate_reduce_group,
            "reduce_scatters on a communicator of their own, beside the gathers"),
  };
  return table;
}

}  // namespace stepsim
