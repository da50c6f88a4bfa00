#include "models/import/megatron_keys.h"

#include <initializer_list>
#include <string_view>

namespace stepsim {
namespace {

std::vector<KeyRow> NoEffects(std::string_view why, std::initializer_list<std::string_view> keys) {
  std::vector<KeyRow> rows;
  for (const std::string_view key : keys) rows.push_back(NoEffect(key, why));
  return rows;
}

// The network: megatron.cc makes a model of them.
std::vector<KeyRow> ModelRows() {
  return {
      Reads("num-layers"),
      Reads("hidden-size"),
      Reads("ffn-hidden-size"),
      Reads("num-attention-heads"),
      Reads("kv-channels"),
      ReadsSwitch("group-query-attention"),
      Reads("num-query-groups"),
      ReadsSwitch("swiglu"),
      Reads("normalization"),
      Reads("position-embedding-type"),
      ReadsSwitch("use-rotary-position-embeddings"),
      Reads("max-position-embeddings"),
      ReadsSwitch("untie-embeddings-and-output-weights"),
      ReadsSwitch("disable-bias-linear"),
      ReadsSwitch("add-qkv-bias"),
      Reads("tokenizer-type"),
      Reads("vocab-size"),
      Reads("padded-vocab-size"),
      Reads("make-vocab-size-divisible-by"),
      Reads("hidden-dropout"),
      NoEffect("attention-dropout", "inside the attention kernel"),
      ReadsSwitch("squared-relu"),
      Refuses("qk-layernorm", {}, "norms of queries and keys"),
      Refuses("multi-latent-attention", {}, "multi-latent attention"),
      Refuses("heterogeneous-layers-config-path", {}, "layers that differ"),
      Refuses("hybrid-override-pattern", {}, "layers that differ"),
      Refuses("mtp-num-layers", {"0"}, "multi-token prediction"),
      Refuses("window-size", {}, "windows of attention"),
      Refuses("fp32-residual-connection", {}, "residuals in fp32"),
  };
}

// Mixtures of experts: the network's numbers and how tokens reach them.
std::vector<KeyRow> ExpertRows() {
  return {
      Reads("num-experts"),
      Reads("moe-router-topk"),
      Reads("moe-ffn-hidden-size"),
      Reads("moe-shared-expert-intermediate-size"),
      Refuses("moe-layer-freq", {"1"}, "layers with and without experts in turn"),
      Takes("expert-model-parallel-size", "plan.expert_parallel"),
      Takes("expert-tensor-parallel-size", "plan.expert.tensor_parallel"),
      Takes("moe-token-dispatcher-type", "plan.expert.dispatcher",
            {{"allgather", "allgather"}, {"alltoall", "alltoall"}}),
      Takes("moe-expert-capacity-factor", "plan.expert.capacity_factor"),
      TakesSwitch("moe-pad-expert-input-to-capacity", "plan.expert.pad_to_capacity"),
      TakesSwitch("moe-shared-expert-overlap", "plan.expert.shared_expert_overlap"),
      TakesSwitch("overlap-moe-expert-parallel-comm", "plan.expert.overlap_microbatches"),
      NoEffect("moe-router-*", "which experts a token is sent to"),
      NoEffect("moe-aux-loss-coeff", "numbers, not shapes"),
      NoEffect("moe-z-loss-coeff", "numbers, not shapes"),
      NoEffect("moe-token-drop-policy", "which tokens are dropped"),
      NoEffect("moe-grouped-gemm", "single fusions are not told apart"),
      NoEffect("moe-permute-fusion", "single fusions are not told apart"),
      NoEffect("moe-per-layer-logging", "logging"),
  };
}

// Tensor, pipeline and context parallelism.
std::vector<KeyRow> ModelParallelRows() {
  return {
      Takes("tensor-model-parallel-size", "plan.tensor_parallel"),
      ReadsSwitch("sequence-parallel"),
      ReadsSwitch("tp-comm-overlap"),
      TakesSwitch("disable-tp-comm-bulk-dgrad", "plan.tensor.bulk_dgrad", "false"),
      TakesSwitch("disable-tp-comm-bulk-wgrad", "plan.tensor.bulk_wgrad", "false"),
      TakesSwitch("disable-tp-comm-overlap-ag", "plan.tensor.overlap_ag", "false"),
      TakesSwitch("disable-tp-comm-overlap-rs", "plan.tensor.overlap_rs", "false"),
      TakesSwitch("tp-comm-overlap-rs-dgrad", "plan.tensor.overlap_rs_dgrad"),
      Takes("pipeline-model-parallel-size", "plan.pipeline_parallel"),
      Reads("num-layers-per-virtual-pipeline-stage"),
      Reads("num-virtual-stages-per-pipeline-rank"),
      Takes("microbatch-group-size-per-virtual-pipeline-stage",
            "plan.pipeline.microbatch_group_size"),
      Reads("decoder-first-pipeline-num-layers"),
      Reads("decoder-last-pipeline-num-layers"),
      ReadsSwitch("account-for-embedding-in-pipeline-split"),
      ReadsSwitch("account-for-loss-in-pipeline-split"),
      Reads("pipeline-model-parallel-layout"),
      TakesSwitch("no-overlap-p2p-communication", "plan.pipeline.overlap_p2p_comm", "false"),
      TakesSwitch("overlap-p2p-communication-warmup-flush",
                  "plan.pipeline.overlap_p2p_comm_warmup_flush"),
      TakesSwitch("defer-embedding-wgrad-compute", "plan.pipeline.defer_embedding_wgrad_compute"),
      TakesSwitch("no-align-grad-reduce", "plan.megatron.align_grad_reduce", "false"),
      TakesSwitch("no-align-param-gather", "plan.megatron.align_param_gather", "false"),
      Refuses("overlap-param-gather-with-optimizer-step", {},
              "gathers of the first chunk beside the optimizer step of the others"),
      Takes("context-parallel-size", "plan.context_parallel"),
      Takes("cp-comm-type", "plan.context.comm_type",
            {{"p2p", "p2p"}, {"all_gather", "all_gather"}, {"a2a", "a2a"}, {"a2a+p2p", "a2a+p2p"}}),
      TakesSwitch("use-tp-pp-dp-mapping", "plan.mesh_order", "tp-cp-pp-dp"),
      NoEffect("hierarchical-context-parallel-sizes", "a2a spans the ranks of a node"),
      NoEffect("overlap-p2p-communication", "the default"),
      ReadsSwitch("no-async-tensor-model-parallel-allreduce"),
      NoEffect("tp-comm-*", "details of user buffers"),
  };
}

// What a step does, and how it is spread.
std::vector<KeyRow> StepRows() {
  return {
      Takes("micro-batch-size", "batch.micro_batch_size"),
      Takes("global-batch-size", "batch.global_batch_size"),
      Takes("seq-length", "batch.sequence_length"),
      Refuses("rampup-batch-size", {}, "batches that grow"),
      ReadsSwitch("bf16"),
      ReadsSwitch("fp16"),
      Refuses("fp8-format", {}, "fp8"),
      Refuses("fp8-hybrid", {}, "fp8"),
      Refuses("fp8-e4m3", {}, "fp8"),
      NoEffect("fp8-*", "only with fp8"),
      Refuses("fp4-format", {}, "fp4"),
      Takes("optimizer", "optimizer", {{"adam", "adamw"}, {"sgd", "sgd_momentum"}}),
      Refuses("optimizer-cpu-offload", {}, "offloading"),
      Refuses("use-precision-aware-optimizer", {}, "optimizer states of other types than fp32"),
      Refuses("cpu-offloading", {}, "offloading"),
      Takes("nnodes", "nodes"),
      Takes("nproc-per-node", "gpus_per_node"),
      Refuses("use-torch-fsdp2", {}, "FSDP inside Megatron-LM"),
      Refuses("use-custom-fsdp", {}, "Megatron's own FSDP"),
      Refuses("use-megatron-fsdp", {}, "Megatron's own FSDP"),
      TakesSwitch("use-distributed-optimizer", "plan.megatron.use_distributed_optimizer"),
      TakesSwitch("overlap-grad-reduce", "plan.megatron.overlap_grad_reduce"),
      TakesSwitch("overlap-param-gather", "plan.megatron.overlap_param_gather"),
      Takes("ddp-bucket-size", "plan.megatron.ddp_bucket_size"),
      Takes("ddp-num-buckets", "plan.megatron.ddp_num_buckets"),
      TakesSwitch("ddp-pad-buckets-for-high-nccl-busbw",
                  "plan.megatron.pad_buckets_for_high_nccl_busbw"),
      TakesSwitch("ddp-average-in-collective", "plan.megatron.average_in_collective"),
      TakesSwitch("accumulate-allreduce-grads-in-fp32", "plan.megatron.grad_reduce_in_fp32"),
      TakesSwitch("grad-reduce-in-bf16", "plan.megatron.grad_reduce_in_fp32", "false"),
      TakesSwitch("reduce-scatter-with-fp32-accumulation",
                  "plan.megatron.reduce_scatter_with_fp32_accumulation"),
      Takes("num-distributed-optimizer-instances",
            "plan.megatron.num_distributed_optimizer_instances"),
      ReadsSwitch("recompute-activations"),
      Reads("recompute-granularity"),
      Reads("recompute-method"),
      Reads("recompute-num-layers"),
      Reads("recompute-modules"),
      Refuses("distribute-saved-activations", {},
              "inputs of layers cut over tensor parallel ranks; --sequence-parallel cuts them "
              "anyway"),
      Refuses("variable-seq-lengths", {},
              "shapes that are exchanged between stages; here every sequence has --seq-length"),
      NoEffect("wgrad-deferral-limit", "only with --defer-embedding-wgrad-compute"),
      Takes("CUDA_DEVICE_MAX_CONNECTIONS", "host.max_connections"),
      Takes("NCCL_ALGO", "collectives.algorithm"),
      Takes("NCCL_PROTO", "collectives.protocol"),
      NoEffect("NCCL_DEBUG", "logging"),
      NoEffect("NCCL_DEBUG_SUBSYS", "logging"),
      NoEffect("NCCL_SOCKET_IFNAME", "where processes start"),
  };
}

std::vector<KeyRow> KernelRows() {
  return {
      Reads("transformer-impl"),
      ReadsSwitch("use-flash-attn"),
      Reads("attention-backend"),
      Refuses("enable-cuda-graph", {}, "CUDA graphs of single layers"),
      Refuses("cuda-graph-impl", {"none"}, "CUDA graphs of single layers"),
      Refuses("external-cuda-graph", {}, "CUDA graphs of single layers"),
      Refuses("delay-wgrad-compute", {}, "weight gradients that are put off"),
      Refuses("deterministic-mode", {}, "deterministic kernels"),
      Refuses("empty-unused-memory-level", {"0"}, "emptying the allocator"),
      Refuses("yaml-cfg", {}, "arguments in another file"),
      Reads("clip-grad"),
  };
}

std::vector<KeyRow> KernelDetails() {
  return NoEffects("single fusions are not told apart",
                   {"no-masked-softmax-fusion", "no-bias-gelu-fusion", "no-bias-swiglu-fusion",
                    "no-bias-dropout-fusion", "no-rope-fusion", "no-gradient-accumulation-fusion",
                    "cross-entropy-loss-fusion", "cross-entropy-fusion-impl", "apply-rope-fusion",
                    "use-fused-weighted-squared-relu", "no-persist-layer-norm"});
}

std::vector<KeyRow> NumberRows() {
  return NoEffects("numbers, not shapes", {"apply-layernorm-1p",
                                           "norm-epsilon",
                                           "layernorm-epsilon",
                                           "rotary-base",
                                           "rotary-percent",
                                           "rotary-interleaved",
                                           "rotary-seq-len-interpolation-factor",
                                           "use-rope-scaling",
                                           "rope-scaling-factor",
                                           "apply-residual-connection-post-layernorm",
                                           "init-method-std",
                                           "init-method-xavier-uniform",
                                           "attention-softmax-in-fp32",
                                           "apply-query-key-layer-scaling",
                                           "no-query-key-layer-scaling",
                                           "accumulate-bf16",
                                           "seed",
                                           "data-parallel-random-init",
                                           "loss-scale",
                                           "initial-loss-scale",
                                           "min-loss-scale",
                                           "loss-scale-window",
                                           "hysteresis",
                                           "weight-decay",
                                           "start-weight-decay",
                                           "end-weight-decay",
                                           "weight-decay-incr-style",
                                           "adam-beta1",
                                           "adam-beta2",
                                           "adam-eps",
                                           "sgd-momentum",
                                           "decoupled-lr",
                                           "decoupled-min-lr",
                                           "calculate-per-token-loss",
                                           "check-for-nan-in-loss-and-grad",
                                           "no-check-for-nan-in-loss-and-grad",
                                           "no-initialization"});
}

std::vector<KeyRow> DataRows() {
  return {
      NoEffect("data-path", "data"),
      NoEffect("data-*", "data"),
      NoEffect("train-data-path", "data"),
      NoEffect("valid-data-path", "data"),
      NoEffect("mock-data", "data"),
      NoEffect("split", "data"),
      NoEffect("num-workers", "data"),
      NoEffect("num-dataset-builder-threads", "data"),
      NoEffect("dataloader-type", "data"),
      NoEffect("tokenizer-*", "data"),
      NoEffect("vocab-file", "data"),
      NoEffect("merge-file", "data"),
      NoEffect("vocab-extra-ids", "data"),
      NoEffect("reset-*", "data"),
      NoEffect("eod-mask-loss", "data"),
      NoEffect("no-create-attention-mask-in-dataloader", "data"),
      NoEffect("create-attention-mask-in-dataloader", "data"),
      NoEffect("no-mmap-bin-files", "data"),
  };
}

std::vector<KeyRow> RunRows() {
  return {
      NoEffect("lr", "learning rate"),
      NoEffect("lr-*", "learning rate"),
      NoEffect("min-lr", "learning rate"),
      NoEffect("override-opt_param-scheduler", "learning rate"),
      NoEffect("override-opt-param-scheduler", "learning rate"),
      NoEffect("use-checkpoint-opt-param-scheduler", "learning rate"),
      NoEffect("train-iters", "length of the training"),
      NoEffect("train-samples", "length of the training"),
      NoEffect("exit-*", "length of the training"),
      NoEffect("skip-train", "length of the training"),
      NoEffect("eval-*", "evaluation"),
      NoEffect("full-validation", "evaluation"),
      NoEffect("log-*", "logging"),
      NoEffect("tensorboard-*", "logging"),
      NoEffect("wandb-*", "logging"),
      NoEffect("timing-log-*", "logging"),
      NoEffect("no-log-*", "logging"),
      NoEffect("logging-level", "logging"),
      NoEffect("profile", "profiling"),
      NoEffect("profile-*", "profiling"),
      NoEffect("use-pytorch-profiler", "profiling"),
      NoEffect("record-memory-history", "profiling"),
      NoEffect("memory-snapshot-path", "profiling"),
      NoEffect("save", "checkpoints"),
      NoEffect("save-*", "checkpoints"),
      NoEffect("load", "checkpoints"),
      NoEffect("no-save-*", "checkpoints"),
      NoEffect("no-load-*", "checkpoints"),
      NoEffect("load-*", "checkpoints"),
      NoEffect("ckpt-*", "checkpoints"),
      NoEffect("dist-ckpt-*", "checkpoints"),
      NoEffect("async-save", "checkpoints"),
      NoEffect("use-dist-ckpt", "checkpoints"),
      NoEffect("auto-detect-ckpt-format", "checkpoints"),
      NoEffect("finetune", "checkpoints"),
      NoEffect("use-checkpoint-args", "checkpoints"),
      NoEffect("distributed-backend", "where processes start"),
      NoEffect("distributed-timeout-minutes", "where processes start"),
      NoEffect("node-rank", "where processes start"),
      NoEffect("master-addr", "where processes start"),
      NoEffect("master-port", "where processes start"),
      NoEffect("rdzv-*", "where processes start"),
      NoEffect("use-cpu-initialization", "start of the training"),
      NoEffect("use-mcore-models", "the same network"),
      NoEffect("use-legacy-models", "the same network"),
      NoEffect("spec", "the same network"),
      NoEffect("manual-gc", "Python's garbage collection"),
      NoEffect("manual-gc-*", "Python's garbage collection"),
      NoEffect("no-manual-gc-eval", "Python's garbage collection"),
      NoEffect("nccl-communicator-config-path", "see collectives"),
      NoEffect("DDP-impl", "of old versions"),
  };
}

}  // namespace

const std::vector<KeyRow>& MegatronRows() {
  static const std::vector<KeyRow> rows =
      Joined({ModelRows(), ExpertRows(), StepRows(), ModelParallelRows(), KernelRows(),
              KernelDetails(), NumberRows(), DataRows(), RunRows()});
  return rows;
}

}  // namespace stepsim
