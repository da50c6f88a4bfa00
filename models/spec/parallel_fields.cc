#include <array>

#include "models/spec/spec_fields.h"

namespace stepsim {
namespace {

constexpr std::array kOverlapNames = {
    EnumName<TensorOverlap>{TensorOverlap::kNone, "none"},
    EnumName<TensorOverlap>{TensorOverlap::kAsync, "async_tp"},
    EnumName<TensorOverlap>{TensorOverlap::kUserBuffers, "user_buffers"},
};
constexpr std::array kRuntimeNames = {
    EnumName<PipelineRuntime>{PipelineRuntime::kAuto, "auto"},
    EnumName<PipelineRuntime>{PipelineRuntime::kPytorch, "pytorch"},
    EnumName<PipelineRuntime>{PipelineRuntime::kMegatron, "megatron"},
};
constexpr std::array kBalanceNames = {
    EnumName<StageBalance>{StageBalance::kLayers, "layers"},
    EnumName<StageBalance>{StageBalance::kEnds, "ends"},
    EnumName<StageBalance>{StageBalance::kTime, "time"},
    EnumName<StageBalance>{StageBalance::kParameters, "parameters"},
};
constexpr std::array kExchangeNames = {
    EnumName<ContextExchange>{ContextExchange::kP2p, "p2p"},
    EnumName<ContextExchange>{ContextExchange::kAllGather, "all_gather"},
    EnumName<ContextExchange>{ContextExchange::kAllToAll, "a2a"},
    EnumName<ContextExchange>{ContextExchange::kAllToAllP2p, "a2a+p2p"},
};
constexpr std::array kDispatcherNames = {
    EnumName<ExpertDispatcher>{ExpertDispatcher::kAllGather, "allgather"},
    EnumName<ExpertDispatcher>{ExpertDispatcher::kAllToAll, "alltoall"},
};

}  // namespace

const StructTable<TensorPlan>& TensorFields() {
  using P = TensorPlan;
  static const StructTable<P> table{
      Field("sequence_parallel", &P::sequence_parallel,
            "cut norms, dropouts and residuals along the sequence: all_gather and reduce_scatter "
            "instead of all_reduce")
          .Unset("true with tensor_parallel above 1"),
      Field("overlap", &P::overlap, kOverlapNames,
            "what hides the collectives: none: Megatron's two pairs in backward; async_tp: "
            "PyTorch's symmetric memory; user_buffers: Transformer Engine's tp_comm_overlap")
          .Aliases({"tp_comm_overlap"}),
      Field("async_input_gradient", &P::async_input_gradient,
            "the collectives of input gradients run beside weight gradients")
          .Unset("true, but with PyTorch's FSDP, whose DTensor waits at once"),
      Field("regather_input", &P::regather_input,
            "sequence parallelism: keep a shard of what a product gathered and gather it again in "
            "backward; false: keep it whole")
          .Unset("true, but with PyTorch's FSDP, whose DTensor keeps it whole"),
      Field("vocabulary_parallel_loss", &P::vocabulary_parallel_loss,
            "cross entropy over logits that stay cut along the vocabulary; false: gathered first")
          .Aliases({"loss_parallel"}),
      Field("bulk_wgrad", &P::bulk_wgrad,
            "user_buffers: reduce_scatter of an input gradient beside the weight gradient")
          .Aliases({"tp_comm_bulk_wgrad"}),
      Field("bulk_dgrad", &P::bulk_dgrad,
            "user_buffers: all_gather of a saved input beside the input gradient")
          .Aliases({"tp_comm_bulk_dgrad"}),
      Field("overlap_ag", &P::overlap_ag,
            "user_buffers: all_gathers in a ring beside their product")
          .Aliases({"tp_comm_overlap_ag"}),
      Field("overlap_rs", &P::overlap_rs,
            "user_buffers: reduce_scatters of forward pipelined behind their product")
          .Aliases({"tp_comm_overlap_rs"}),
      Field("overlap_rs_dgrad", &P::overlap_rs_dgrad,
            "user_buffers: input gradients of qkv and fc1 in a ring with their reduce_scatter")
          .Aliases({"tp_comm_overlap_rs_dgrad"}),
      Field("num_splits", &P::num_splits, "user_buffers: parts of a pipelined reduce_scatter")
          .Range(1, 64),
      Field("use_copy_engine", &P::use_copy_engine,
            "user_buffers: the ring copies without SMs; false: with one"),
  };
  return table;
}

const StructTable<PipelinePlan>& PipelineFields() {
  using P = PipelinePlan;
  static const StructTable<P> table{
      Field("schedule", &P::schedule,
            "order of the micro-batches: a name (stepsim list schedules) or FILE.csv in PyTorch's "
            "grammar")
          .Aliases({"pipeline_parallel_schedule"}),
      Field("virtual_stages", &P::virtual_stages,
            "chunks of layers per rank; 0: as many as the schedule needs")
          .Range(0, 64),
      Field("microbatch_group_size", &P::microbatch_group_size,
            "Megatron's interleaving: micro-batches of a chunk in a row; 0: pipeline_parallel")
          .Range(0, 1e6)
          .Aliases({"microbatch_group_size_per_vp_stage"}),
      Field("runtime", &P::runtime, kRuntimeNames,
            "whose transfers between stages are replayed; auto: megatron's with plan.strategy: "
            "megatron, else PyTorch's"),
      Field("balance", &P::balance, kBalanceNames,
            "how layers are dealt out: layers: evenly; ends: embedding and head count as one each; "
            "time: so that the slowest stage is fastest; parameters: so that the largest is "
            "smallest, as DeepSpeed does it"),
      Field("layers_per_stage", &P::layers_per_stage,
            "layers of each stage in the order of the network (virtual stages too)")
          .Unset("as balance says")
          .Range(0, 10'000),
      Field("eager_communicators", &P::eager_communicators,
            "pytorch, several chunks: all transfers of a rank share one communicator "
            "(init_process_group with device_id), where an early receive holds up later sends"),
      Field("overlap_p2p_comm", &P::overlap_p2p_comm,
            "megatron: transfers beside the next chunk; needs interleaving")
          .Unset("true with interleaving"),
      Field("batch_p2p_comm", &P::batch_p2p_comm, "megatron: send and receive in one call")
          .Unset("the opposite of overlap_p2p_comm"),
      Field("batch_p2p_sync", &P::batch_p2p_sync,
            "megatron: the host waits for the device after every batched exchange"),
      Field("overlap_p2p_comm_warmup_flush", &P::overlap_p2p_comm_warmup_flush,
            "megatron: overlap also in warm-up and cool-down"),
      Field("variable_seq_lengths", &P::variable_seq_lengths,
            "megatron: shapes are exchanged before every tensor"),
      Field("deallocate_pipeline_outputs", &P::deallocate_pipeline_outputs,
            "megatron: a sent activation is freed")
          .Aliases({"deallocate_pipeline_output"}),
      Field("defer_embedding_wgrad_compute", &P::defer_embedding_wgrad_compute,
            "megatron: the head's weight gradients run in the last stage's cool-down"),
      Field("overlap_forward_backward", &P::overlap_forward_backward,
            "a forward and a backward that a schedule joins run at once; false: one after another"),
  };
  return table;
}

const StructTable<ContextPlan>& ContextFields() {
  using P = ContextPlan;
  static const StructTable<P> table{
      Field("comm_type", &P::comm_type, kExchangeNames,
            "how ranks see all keys and values: p2p: a ring; all_gather; a2a: heads instead of "
            "sequence (Ulysses); a2a+p2p: a2a within a node, a ring across nodes")
          .Aliases({"cp_comm_type"}),
      Field("load_balance", &P::load_balance,
            "causal: each rank holds an early and a late chunk; false: one piece of the sequence"),
  };
  return table;
}

const StructTable<ExpertPlan>& ExpertFields() {
  using P = ExpertPlan;
  static const StructTable<P> table{
      Field("dispatcher", &P::dispatcher, kDispatcherNames,
            "how tokens reach their experts: allgather: every rank sees all; alltoall")
          .Aliases({"moe_token_dispatcher_type"}),
      Field("tensor_parallel", &P::tensor_parallel,
            "tensor parallelism of the experts; 0: as tensor_parallel")
          .Range(0, 1024)
          .Aliases({"expert_tensor_parallel_size", "etp"}),
      Field("capacity_factor", &P::capacity_factor,
            "an expert takes at most so many times its even share of the tokens")
          .Unset("no token is dropped")
          .Above(0)
          .AtMost(1000)
          .Aliases({"moe_expert_capacity_factor"}),
      Field("pad_to_capacity", &P::pad_to_capacity,
            "an expert's input is filled up to its capacity: sizes are known beforehand, and the "
            "host does not wait for them")
          .Aliases({"moe_pad_expert_input_to_capacity"}),
      Field("imbalance", &P::imbalance, "tokens of the busiest rank over the mean of all")
          .Range(1, 1024),
      Field("shared_expert_overlap", &P::shared_expert_overlap,
            "the shared expert runs beside the dispatch")
          .Aliases({"moe_shared_expert_overlap"}),
      Field("overlap_microbatches", &P::overlap_microbatches,
            "dispatch and combine beside the other direction of another micro-batch")
          .Aliases({"overlap_moe_expert_parallel_comm"}),
      Field("delay_weight_gradients", &P::delay_weight_gradients,
            "two micro-batches at once: weight gradients behind the input gradients of attention "
            "or MLP, beside a dispatch")
          .Unset("false; true with pipeline.overlap_forward_backward outside PyTorch's runtime")
          .Aliases({"delay_wgrad_compute"}),
  };
  return table;
}

}  // namespace stepsim
