// How does a Hugging Face config.json become a network description?
//
//   {"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, ...}
//     -> {name: ..., transformer: {layers: 32, hidden_size: 4096, positions: rotary, ...}}
//
// Supported: llama, mistral, qwen2, gpt2, gpt_neox, bert, roberta. A file holds dozens of keys that
// change no shape: they are ignored, as is the sliding window of mistral (attention counts as
// full).
#pragma once

#include "sim/base/diagnostics.h"
#include "sim/config/config_node.h"

namespace stepsim {

// A mapping with model_type or architectures.
bool IsHfConfig(const ConfigNode& node);

// The mapping that a file of configs/models would hold, each value with its place in the
// config.json. Null when there was a problem; it is added to `diagnostics`.
ConfigNode ModelFromHfConfig(const ConfigNode& hf, Diagnostics& diagnostics);

}  // namespace stepsim
