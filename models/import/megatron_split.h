// How does Megatron-LM deal the layers of a network out to the stages of a pipeline?
//
//   SplitLayers({.layers = 30, .ranks = 4, .first = 6}).layers   // {6, 8, 8, 8}
//   SplitLayout("Ettt|(tt|)*2,t|L", 8).layers                    // {3, 2, 2, 1, 0}
//
// Rules: get_num_layers_to_build and PipelineParallelLayerLayout of megatron/core/transformer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stepsim {

struct MegatronSplit {
  std::int64_t layers = 1;
  std::int64_t ranks = 1;
  std::int64_t chunks = 1;                  // of a rank
  std::optional<std::int64_t> first, last;  // --decoder-{first,last}-pipeline-num-layers
  bool counts_embedding = false;            // --account-for-embedding-in-pipeline-split
  bool counts_loss = false;                 // --account-for-loss-in-pipeline-split
};

// In the order of the network, every rank's chunks among them.
struct StageLayers {
  std::vector<std::int64_t> layers;
  std::string problem;  // "found ..., allowed: ..."; then there are no layers
};

// Whoever is not told its number has as many as the others. REQUIRES: all numbers from 1 to 10^6.
StageLayers SplitLayers(const MegatronSplit& split);

// --pipeline-model-parallel-layout: E embedding, t a layer, L loss, | a stage's end, x*3 and
// (xy|)*3 three times, commas for the eye.
StageLayers SplitLayout(std::string_view layout, std::int64_t layers);

}  // namespace stepsim
