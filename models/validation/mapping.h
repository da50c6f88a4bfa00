// Which columns say what? One file per concern; each reads its columns and adds to the job. The
// order is that of MapRow: later ones read what earlier ones have found (degrees, stack,
// precision).
#pragma once

#include "models/validation/row_job.h"

namespace stepsim {

void MapDegrees(RowJob& job);    // n_gpus, tp, pp, vpp, cp, ep, dp
void MapStack(RowJob& job);      // strategy, and what tells its software: plan.strategy, kernels
void MapHardware(RowJob& job);   // gpu, gpu_class, gpus_per_node, intra_link, inter_link
void MapNetwork(RowJob& job);    // model, its dimensions, vocab
void MapPrecision(RowJob& job);  // precision
void MapPlan(RowJob& job);       // overlap, schedule, recompute, bucket, sequence_parallel
void MapSoftware(RowJob& job);   // flash_attention, torch_compile, optimizer
void MapBatch(RowJob& job);      // micro_batch, grad_accum, global_batch, seq_len

}  // namespace stepsim
