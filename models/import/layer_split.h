// How do frameworks deal the layers of a network out to the stages of a pipeline?
//
//   DealMegatron({.layers = 30, .ranks = 4, .first = 6}).layers         // {6, 8, 8, 8}
//   ReadMegatronLayout("Ettt|(tt|)*2,t|L", 8).layers                    // {3, 2, 2, 1, 0}
//   DealTorchtitan({.layers = 32, .stages = 8}).layers                  // {4, 5, 4, ..., 3}
//
// Rules: get_num_layers_to_build and PipelineParallelLayerLayout of megatron/core/transformer;
// pipeline_parallel.py of torchtitan.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stepsim {

// In the order of the network, every rank's chunks among them.
struct StageLayers {
  std::vector<std::int64_t> layers;
  std::string problem;  // "found ..., allowed: ..."; then there are no layers
};

// ---- Megatron-LM ----

struct MegatronSplit {
  std::int64_t layers = 1;
  std::int64_t ranks = 1;
  std::int64_t chunks = 1;                  // of a rank
  std::optional<std::int64_t> first, last;  // --decoder-{first,last}-pipeline-num-layers
  bool counts_embedding = false;            // --account-for-embedding-in-pipeline-split
  bool counts_loss = false;                 // --account-for-loss-in-pipeline-split
};

// Whoever is not told its number has as many as the others. REQUIRES: all numbers from 1 to 10^6.
StageLayers DealMegatron(const MegatronSplit& split);

// --pipeline-model-parallel-layout: E embedding, t a layer, L loss, | a stage's end, x*3 and
// (xy|)*3 three times, commas for the eye.
StageLayers ReadMegatronLayout(std::string_view layout, std::int64_t layers);

// ---- torchtitan ----

struct TorchtitanSplit {
  std::int64_t layers = 1;
  std::int64_t stages = 1;
  std::int64_t first_less = 1, last_less = 1;  // layers that embedding and head weigh
};

// Evenly with the ends' weights, what is left over to the first stages. REQUIRES: numbers from 0,
// stages from 1, to 10^6.
StageLayers DealTorchtitan(const TorchtitanSplit& split);

// module_fqns_per_model_part: the names of each stage's modules.
StageLayers ReadModuleNames(const std::vector<std::vector<std::string>>& stages);

// pipeline_parallel_split_points: "layers.4" begins a stage.
StageLayers ReadSplitPoints(const std::vector<std::string>& points, std::int64_t layers);

}  // namespace stepsim
