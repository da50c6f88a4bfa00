// Which iteration of a training run is simulated? Some frameworks learn in the first one what they
// overlap from the next one on: DDP the order of its buckets, FSDP1 that of its units, ZeRO-3 its
// trace, Megatron-LM that parameters are gathered beforehand.
#pragma once

namespace stepsim {

enum class TrainingIteration { kSteady, kFirst };

}  // namespace stepsim
