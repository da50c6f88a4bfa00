// How many FLOPs does a step count for? Model FLOPs by MFU convention, hardware FLOPs as executed.
//
//   Llama-3-8B, one sequence of 8192 tokens (TFLOP):
//     palm 500.257   megatron 421.646   torchtitan 474.435   causal 421.652
//
// Equations and their sources: models/README.md, "FLOPs".
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/spec/job.h"
#include "models/workload/workload.h"

namespace stepsim {

// One way to count. To add one, add a row to the table in the .cc.
struct FlopConvention {
  std::string_view name;
  std::string_view doc;
  // Forward + backward of `batch` sequences of `sequence` tokens.
  Flops (*count)(const TransformerSpec& spec, std::int64_t batch, std::int64_t sequence);
};

std::span<const FlopConvention> FlopConventions();

// Model FLOPs of the micro-step (forward + backward, one replica) under every convention, in table
// order. An explicit layer list counts 3 x forward under all of them.
std::vector<std::pair<std::string, Flops>> ModelFlops(const JobSpec& job);

// Executed FLOPs of the micro-step as the operators count them (for HFU): padded vocabulary, causal
// blocks skipped, the scores computed again in attention's backward. Memory-bound kernels count 0.
Flops HardwareFlops(const Workload& workload);

// Matrix products of one forward pass, attention left out; `vocabulary` rows of the head. Of a
// mixture of experts those that a token is sent to.
Flops LinearForwardFlops(const TransformerSpec& spec, std::int64_t batch, std::int64_t sequence,
                         std::int64_t vocabulary, bool with_router = true);

// Parameters in closed form: all of them, and those only looked up (no matrix product).
std::int64_t ParameterCount(const TransformerSpec& spec);
// ... that a token meets: of a mixture of experts top_k, the router and the shared expert.
std::int64_t ActiveParameterCount(const TransformerSpec& spec);
std::int64_t LookupParameterCount(const TransformerSpec& spec);

// Whether a head over the vocabulary (and a cross-entropy loss) ends the network: a decoder always
// has one, an encoder only with its masked-language head.
bool HasVocabularyHead(const TransformerSpec& spec);

}  // namespace stepsim
