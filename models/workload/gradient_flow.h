// Which gradients of activations are alive in backward? As autograd has it: the gradient of a
// tensor comes into being in the backward of its last reader, those of other readers are added to
// it, and it goes with the backward of the operator that wrote the tensor.
//
//   loss -> head:  the loss makes 2 T V bytes of logits' gradient, the head takes them and makes
//                  2 T h of its input's
#pragma once

#include "models/workload/workload.h"

namespace stepsim {

// Fills Operator::gradients_made and gradients_taken, and adds what is made only to be added to
// backward_workspace. Where operators do not tell what they read there is nothing.
void AddGradientFlow(Workload* workload);

}  // namespace stepsim
