// How much work is an explicit list of layers? One unit with one operator for each layer, with the
// FLOPs and bytes as the list states them: nothing is added.
//
//   {name: conv1, parameters: [...], forward_flops: 236 MFLOP}, micro-batch 32
//   -> unit "conv1": forward 7.552 GFLOP; backward (it is the first) 7.552 GFLOP of weight gradient
//
// Backward, unless stated: twice the forward, half of it for the input gradient and half for the
// weight gradient. A layer without parameters has no weight gradient: all of it goes to the input
// gradient. A layer with no parameters before it needs no input gradient: only the weight gradient
// is left (the first layer). A stated backward_flops or backward_bytes is used as given, whatever
// its parts. Layers with FLOPs (convolutions, linears) deliver their gradients in reverse
// registration order, the bias before the weight; layers without (norms) in registration order.
//
// A layer with a forward_time or backward_time was profiled: that is what it takes for the job's
// micro-batch, in one kernel a direction, and its FLOPs and bytes only count.
#pragma once

#include "models/spec/job.h"
#include "models/workload/workload.h"

namespace stepsim {

// REQUIRES: job.model.network holds a LayerListSpec.
Workload BuildLayerListWorkload(const JobSpec& job);

}  // namespace stepsim
