#!/bin/bash
# A network of Llama 2 7B's size on two nodes with eight GPUs each, as a launch script of Megatron-LM.
#
#   stepsim run --from megatron:configs/imports/llama_megatron.sh --set hardware=h100-sxm-dgx
export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS_PER_NODE=8
NNODES=${NNODES:-2}

DISTRIBUTED_ARGS=(
  --nproc_per_node $GPUS_PER_NODE
  --nnodes $NNODES
)
MODEL_ARGS=(
  --num-layers 32
  --hidden-size 4096
  --ffn-hidden-size 11008
  --num-attention-heads 32
  --seq-length 4096
  --max-position-embeddings 4096
  --tokenizer-type NullTokenizer
  --vocab-size 31999
  --untie-embeddings-and-output-weights
  --position-embedding-type rope
  --normalization RMSNorm
  --swiglu
  --disable-bias-linear
  --hidden-dropout 0
  --attention-dropout 0
)
TRAINING_ARGS=(
  --micro-batch-size 1
  --global-batch-size 64
  --train-iters 1000
  --lr 3e-4
  --clip-grad 1.0
  --bf16
  --recompute-granularity selective
  --recompute-modules core_attn layernorm
)
PARALLEL_ARGS=(
  --tensor-model-parallel-size 1
  --pipeline-model-parallel-size 1
  --use-distributed-optimizer
  --overlap-grad-reduce
  --overlap-param-gather
)
torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py ${MODEL_ARGS[@]} ${TRAINING_ARGS[@]} \
  ${PARALLEL_ARGS[@]} --mock-data --log-interval 10
