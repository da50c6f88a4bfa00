#!/bin/bash
# A network of 530 billion parameters on 280 nodes with eight A100 each: 8 tensor parallel ranks x 35
# pipeline ranks of 3 chunks x 8 replicas, sequence parallel, attention recomputed. Sizes, degrees and
# batch: Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models" (2022),
# tables 3 and 5 and section 6.3 (39.15 s a step); the distributed optimizer is ours.
#
#   stepsim run --from megatron:configs/imports/gpt3-530b_megatron_3d.sh --set hardware=a100-80g-dgx
export CUDA_DEVICE_MAX_CONNECTIONS=1
MODEL_ARGS="
  --num-layers 105
  --hidden-size 20480
  --num-attention-heads 128
  --seq-length 2048
  --max-position-embeddings 2048
  --padded-vocab-size 51200
  --transformer-impl local
"
PARALLEL_ARGS="
  --tensor-model-parallel-size 8
  --sequence-parallel
  --pipeline-model-parallel-size 35
  --num-layers-per-virtual-pipeline-stage 1
  --use-distributed-optimizer
  --overlap-grad-reduce
  --overlap-param-gather
"
TRAINING_ARGS="
  --micro-batch-size 1
  --global-batch-size 2240
  --train-iters 1000
  --lr 6e-5
  --fp16
  --recompute-granularity selective
  --recompute-modules core_attn
"
torchrun --nproc_per_node 8 --nnodes 280 pretrain_gpt.py $MODEL_ARGS $PARALLEL_ARGS $TRAINING_ARGS \
  --mock-data --log-interval 10
