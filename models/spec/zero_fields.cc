#include <array>

#include "models/spec/spec_fields.h"

namespace stepsim {
namespace {

constexpr double kMostElements = 1e15;

constexpr std::array kLeafNames = {
    EnumName<LeafModules>{LeafModules::kNone, "none"},
    EnumName<LeafModules>{LeafModules::kLayers, "layers"},
};

}  // namespace

const StructTable<ZeroPlan>& ZeroFields() {
  using P = ZeroPlan;
  static const StructTable<P> table{
      Field("stage", &P::stage,
            "1: optimizer states are partitioned; 2: gradients too; 3: parameters too")
          .Range(1, 3),
      Field("overlap_comm", &P::overlap_comm, "reduce on a stream of its own, beside backward")
          .Unset("true for stage 3, false for 1 and 2"),
      Field("reduce_bucket_size", &P::reduce_bucket_size, "elements of a gradient bucket")
          .Range(1, kMostElements),
      Field("reduce_scatter", &P::reduce_scatter, "false: all_reduce the bucket as it lies"),
      Field("contiguous_gradients", &P::contiguous_gradients,
            "copy gradients into a bucket buffer as they come"),
      Field("communication_data_type", &P::communication_data_type, "of gradients on the wire")
          .Unset("their own"),
      Field("use_multi_rank_bucket_allreduce", &P::use_multi_rank_bucket_allreduce,
            "stages 1 and 2: all_reduce the whole bucket; false: one reduce per owning rank"),
      Field("round_robin_gradients", &P::round_robin_gradients,
            "stages 1 and 2: tensors are dealt out to the ranks in turn"),
      Field("allgather_partitions", &P::allgather_partitions,
            "stages 1 and 2: all_gather the parameters; false: one broadcast per rank"),
      Field("allgather_into_tensor", &P::allgather_into_tensor,
            "stages 1 and 2: false: the fallback of old PyTorch, cut up by allgather_bucket_size"),
      Field("allgather_bucket_size", &P::allgather_bucket_size,
            "stages 1 and 2: elements of one gather of the fallback")
          .Range(1, kMostElements),
      Field("iteration", &P::iteration, kIterationNames,
            "stage 3: which one is simulated; the first two have recorded no order of modules"),
      Field("stage3_prefetch_bucket_size", &P::stage3_prefetch_bucket_size,
            "elements gathered ahead")
          .Range(0, kMostElements),
      Field("stage3_max_live_parameters", &P::stage3_max_live_parameters,
            "elements above which nothing is gathered ahead")
          .Range(0, kMostElements),
      Field("stage3_max_reuse_distance", &P::stage3_max_reuse_distance,
            "a parameter that is used again within so many elements is kept")
          .Range(0, kMostElements),
      Field("stage3_param_persistence_threshold", &P::stage3_param_persistence_threshold,
            "parameters with fewer elements are never partitioned")
          .Range(0, kMostElements),
      Field("stage3_module_granularity_threshold", &P::stage3_module_granularity_threshold,
            "a module with at most so many elements per module in it is fetched as one")
          .Range(0, kMostElements),
      Field("stage3_leaf_modules", &P::stage3_leaf_modules, kLeafNames,
            "layers: every layer is fetched as one (set_z3_leaf_modules)"),
      Field("stage3_allgather_sequential", &P::stage3_allgather_sequential,
            "one gather for every parameter"),
      Field("sub_group_size", &P::sub_group_size,
            "stage 3: elements of its partition that the optimizer updates at a time")
          .Range(1, kMostElements),
      Field("zero_hpz_partition_size", &P::zero_hpz_partition_size,
            "stage 3: ranks of a node that hold a second copy, from which backward gathers; 1: off")
          .Range(1, 1e6),
      Field("separate_reduce_group", &P::separate_reduce_group,
            "stage 3: reductions on a communicator of their own, beside the gathers"),
  };
  return table;
}

const StructTable<MegatronPlan>& MegatronFields() {
  using P = MegatronPlan;
  static const StructTable<P> table{
      Field("use_distributed_optimizer", &P::use_distributed_optimizer,
            "reduce_scatter gradients and all_gather parameters instead of all_reduce"),
      Field("overlap_grad_reduce", &P::overlap_grad_reduce,
            "reduce buckets during the last micro-step's backward"),
      Field("overlap_param_gather", &P::overlap_param_gather,
            "gather parameters during the next forward"),
      Field("ddp_bucket_size", &P::ddp_bucket_size, "elements that close a bucket")
          .Unset("max(40e6, 1e6 x data parallel size); one bucket without overlap_grad_reduce")
          .Range(1, kMostElements),
      Field("ddp_num_buckets", &P::ddp_num_buckets,
            "the number of buckets, instead of their size: each closes at its share of the "
            "parameters")
          .Unset("by ddp_bucket_size")
          .Range(1, 1e6),
      Field("pad_buckets_for_high_nccl_busbw", &P::pad_buckets_for_high_nccl_busbw,
            "pad buckets of the distributed optimizer to multiples of 2^16 elements")
          .Aliases({"ddp_pad_buckets_for_high_nccl_busbw"}),
      Field("average_in_collective", &P::average_in_collective,
            "false: gradients are scaled on the compute stream before they are summed")
          .Aliases({"ddp_average_in_collective"}),
      Field("grad_reduce_in_fp32", &P::grad_reduce_in_fp32,
            "main gradients and their reduction in fp32")
          .Unset("true for bf16")
          .Aliases({"accumulate_allreduce_grads_in_fp32"}),
      Field("reduce_scatter_with_fp32_accumulation", &P::reduce_scatter_with_fp32_accumulation,
            "all_to_all of 16-bit gradients, summed in fp32 by their owner"),
      Field("num_distributed_optimizer_instances", &P::num_distributed_optimizer_instances,
            "copies of the sharded optimizer: reduce_scatter inside one, all_reduce across them")
          .Range(1, 1e6),
      Field("fp8_param_gather", &P::fp8_param_gather,
            "weights of the layers' products are kept and gathered in fp8; the master copy stays"),
      Field("iteration", &P::iteration, kIterationNames,
            "which iteration is simulated; in the first nothing overlaps"),
      Field("align_param_gather", &P::align_param_gather,
            "interleaved pipelines: all stages gather at the same time"),
      Field("align_grad_reduce", &P::align_grad_reduce,
            "pipelines: all stages reduce at the same time"),
      Field("overlap_param_gather_with_optimizer_step",
            &P::overlap_param_gather_with_optimizer_step,
            "interleaved pipelines: the first gather begins in the optimizer step"),
  };
  return table;
}

}  // namespace stepsim
