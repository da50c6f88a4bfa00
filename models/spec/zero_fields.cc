#include "models/spec/spec_fields.h"

namespace stepsim {
namespace {

constexpr double kMostElements = 1e15;

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
      Field("use_multi_rank_bucket_allreduce", &P::use_multi_rank_bucket_allreduce,
            "stages 1 and 2: all_reduce the whole bucket; false: one reduce per owning rank"),
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
      Field("stage3_allgather_sequential", &P::stage3_allgather_sequential,
            "one gather for every parameter"),
      Field("communication_data_type", &P::communication_data_type, "of gradients on the wire")
          .Unset("their own"),
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
      Field("average_in_collective", &P::average_in_collective,
            "false: gradients are scaled on the compute stream before they are summed")
          .Aliases({"ddp_average_in_collective"}),
      Field("grad_reduce_in_fp32", &P::grad_reduce_in_fp32,
            "main gradients and their reduction in fp32")
          .Unset("true for bf16")
          .Aliases({"accumulate_allreduce_grads_in_fp32"}),
  };
  return table;
}

}  // namespace stepsim
