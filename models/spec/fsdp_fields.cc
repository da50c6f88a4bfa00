#include <array>

#include "models/spec/spec_fields.h"

namespace stepsim {
namespace {

constexpr std::array kWrapNames = {
    EnumName<WrapPolicy>{WrapPolicy::kLayer, "layer"},
    EnumName<WrapPolicy>{WrapPolicy::kMinParameters, "min_parameters"},
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

}  // namespace

const StructTable<Fsdp1Plan>& Fsdp1Fields() {
  using P = Fsdp1Plan;
  static const StructTable<P> table{
      Field("wrap", &P::wrap, kWrapNames,
            "what is one flat parameter: every layer, or modules until they hold "
            "wrap_min_parameters"),
      Field("wrap_min_parameters", &P::wrap_min_parameters, "parameters that close a unit")
          .Range(1, 1e15),
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
            "what is gathered as one: every layer, or modules until they hold wrap_min_parameters"),
      Field("wrap_min_parameters", &P::wrap_min_parameters, "parameters that close a group")
          .Range(1, 1e15),
      Field("reshard_after_forward", &P::reshard_after_forward,
            "free a group's parameters between forward and backward; auto: all but the root's")
          .Choices({"auto", "true", "false"}),
      Field("forward_prefetch", &P::forward_prefetch,
            "groups gathered ahead in forward (set_modules_to_forward_prefetch)")
          .Range(0, 1000),
      Field("backward_prefetch", &P::backward_prefetch,
            "groups gathered ahead in backward; 1 is FSDP2's implicit prefetch")
          .Range(0, 1000),
      Field("param_dtype", &P::param_dtype, "MixedPrecisionPolicy: of gathers and compute")
          .Unset("the type of activations"),
      Field("reduce_dtype", &P::reduce_dtype, "MixedPrecisionPolicy: of gradients on the wire")
          .Unset("param_dtype"),
      Field("shard_size", &P::shard_size,
            "ranks that hold one copy together; fewer than all is HSDP; 0: all")
          .Range(0, 1e7)
          .Aliases({"data_parallel_shard_degree"}),
      Field("requires_gradient_sync", &P::requires_gradient_sync,
            "reduce in every micro-step; false: only in the last, gradients stay unsharded"),
      Field("requires_all_reduce", &P::requires_all_reduce,
            "HSDP: sum over the copies in every micro-step; false: only in the last"),
      Field("reshard_after_backward", &P::reshard_after_backward,
            "free parameters after a backward that does not reduce"),
      Field("separate_reduce_group", &P::separate_reduce_group,
            "reduce_scatters on a communicator of their own, beside the gathers"),
  };
  return table;
}

}  // namespace stepsim
