// Expectations: get_num_layers_to_build (transformer_block.py) and the comments of
// PipelineParallelLayerLayout (pipeline_parallel_layer_layout.py) of Megatron-LM, and
// generate_llm_fqn_per_model_part (pipeline_parallel.py) of torchtitan, by hand.
#include "models/import/layer_split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace stepsim {
namespace {

using ::testing::HasSubstr;
using Layers = std::vector<std::int64_t>;

TEST(LayerSplit, DealsLayersOut) {
  const struct {
    MegatronSplit split;
    Layers expected;
  } kCases[] = {
      {{.layers = 30, .ranks = 4, .first = 6}, {6, 8, 8, 8}},
      {{.layers = 30, .ranks = 4, .last = 9}, {7, 7, 7, 9}},
      {{.layers = 30, .ranks = 4, .first = 6, .last = 8}, {6, 8, 8, 8}},
      {{.layers = 30, .ranks = 2, .first = 10, .last = 20}, {10, 20}},
      {{.layers = 30, .ranks = 1, .first = 30}, {30}},
      // Interleaved: rank 0 has 6 layers in two chunks, in the order of the network.
      {{.layers = 30, .ranks = 4, .chunks = 2, .first = 6}, {3, 4, 4, 4, 3, 4, 4, 4}},
      // An end that counts takes the place of one layer, in the first or the last chunk alone.
      {{.layers = 31, .ranks = 4, .counts_embedding = true}, {7, 8, 8, 8}},
      {{.layers = 31, .ranks = 4, .counts_loss = true}, {8, 8, 8, 7}},
      {{.layers = 31, .ranks = 4, .chunks = 2, .counts_loss = true}, {4, 4, 4, 4, 4, 4, 4, 3}},
      {{.layers = 30, .ranks = 4, .counts_embedding = true, .counts_loss = true}, {7, 8, 8, 7}},
  };
  for (const auto& test : kCases) {
    const StageLayers stages = DealMegatron(test.split);
    EXPECT_EQ(stages.layers, test.expected) << stages.problem;
  }
}

TEST(LayerSplit, SaysWhatDoesNotComeOut) {
  const struct {
    MegatronSplit split;
    std::string problem;
  } kCases[] = {
      {{.layers = 32, .ranks = 4, .first = 6},
       "found 26 layers for the 3 other pipeline ranks, allowed: as many for each of them"},
      {{.layers = 32, .ranks = 2, .first = 6, .last = 6},
       "found 20 layers for the 0 other pipeline ranks, allowed: none that are left over"},
      {{.layers = 8, .ranks = 4, .first = 6, .last = 6}, "found -4 layers"},
      {{.layers = 32, .ranks = 1, .first = 6, .last = 26}, "one of them on one rank"},
      {{.layers = 30, .ranks = 4, .chunks = 4, .first = 6},
       "found 6 layers on a pipeline rank of 4 chunks, allowed: a multiple of 4"},
      {{.layers = 32, .ranks = 1'000'000}, "found 1000000 stages, allowed: at most 10000"},
  };
  for (const auto& test : kCases) {
    const StageLayers stages = DealMegatron(test.split);
    EXPECT_THAT(stages.problem, HasSubstr(test.problem));
    EXPECT_TRUE(stages.layers.empty());
  }
}

TEST(LayerSplit, ReadsALayout) {
  const struct {
    std::string text;
    Layers expected;
  } kCases[] = {
      {"Et|t|tL", {1, 1, 1}},
      {"Ettt|(tt|)*29,t|L",
       [] {
         Layers layers(32, 2);
         layers[0] = 3, layers[30] = 1, layers[31] = 0;
         return layers;
       }()},
      {"Et*3|(tt|)*2,t|L", {3, 2, 2, 1, 0}},  // x*n is x n times
      {"Et(t)*3|L", {4, 0}},                  // (ab)*3 -> ababab
      {"E(t|tt)*2|L", {1, 3, 2, 0}},          // xy(ab|cd)*2 -> xyab|cdab|cd
      {"Et*2(t*2|)*2,,L", {4, 2, 0}},
  };
  for (const auto& test : kCases) {
    std::int64_t sum = 0;
    for (const std::int64_t each : test.expected) sum += each;
    const StageLayers stages = ReadMegatronLayout(test.text, sum);
    EXPECT_EQ(stages.layers, test.expected) << test.text << ": " << stages.problem;
  }
}

TEST(LayerSplit, RefusesOtherLayouts) {
  const struct {
    std::string text, problem;
  } kCases[] = {
      {"Et|tL", "found 2 layers, allowed: 3, as --num-layers says"},
      {"Ettt|mL", "'m', multi-token prediction"},
      {"Ettt|x|L", "found 'x', allowed: E, t, m, L, |, and *N"},
      {"Ett(t|L", "found '(', allowed"},
      {"Et*t|L", "found '*', allowed"},
      {"(t*2)*2*2", "found '*', allowed"},
      {"ttt|EL", "one E at the very beginning"},
      {"Ettt|L|", "one L at the very end"},
      {"EEttt|L", "one E"},
      {"", "one E"},
      {"Et*99999999999999999999999|L", "found more than 100000 letters"},
      {"E(t*99999)*99999|L", "found more than 100000 letters"},
      {"E(|)*20000ttt|L", "found 20002 stages, allowed: at most 10000"},
  };
  for (const auto& test : kCases) {
    const StageLayers stages = ReadMegatronLayout(test.text, 3);
    EXPECT_THAT(stages.problem, HasSubstr(test.problem)) << test.text;
    EXPECT_TRUE(stages.layers.empty());
  }
}

TEST(LayerSplit, TorchtitanWeighsTheEnds) {
  const struct {
    TorchtitanSplit split;
    Layers expected;
  } kCases[] = {
      {{.layers = 30, .stages = 4}, {7, 8, 8, 7}},              // (30 + 2) / 4
      {{.layers = 32, .stages = 8}, {4, 5, 4, 4, 4, 4, 4, 3}},  // 34: the first two have 5
      {{.layers = 32, .stages = 4, .first_less = 0, .last_less = 0}, {8, 8, 8, 8}},
      {{.layers = 3, .stages = 2, .first_less = 2, .last_less = 2}, {2, 1}},  // 4 and 3 less 2
  };
  for (const auto& test : kCases) {
    EXPECT_EQ(DealTorchtitan(test.split).layers, test.expected);
  }
  EXPECT_THAT(DealTorchtitan({.layers = 8, .stages = 12}).problem,
              HasSubstr("found 12 stages for 10 layers of which the ends take 1 and 1, allowed: "
                        "fewer stages; each has 0"));
  EXPECT_THAT(DealTorchtitan({.layers = 8, .stages = 4, .last_less = 4}).problem,
              HasSubstr("the ends take 1 and 4"));
  EXPECT_THAT(DealTorchtitan({.layers = 1'000'000, .stages = 100'000}).problem,
              HasSubstr("allowed: at most 10000"));
}

TEST(LayerSplit, ReadsNamesOfModules) {
  EXPECT_EQ(ReadModuleNames({{"tok_embeddings", "layers.0"},
                             {"layers.1", "layers.2"},
                             {"layers.3", "norm", "output"}})
                .layers,
            (Layers{1, 2, 1}));
  EXPECT_EQ(ReadModuleNames({{"tok_embeddings"}, {"layers.0"}, {"norm", "output"}}).layers,
            (Layers{0, 1, 0}));
  for (const auto& parts :
       std::vector<std::vector<std::vector<std::string>>>{{{"layers.1"}, {"layers.0"}},
                                                          {{"layers.0"}, {"tok_embeddings"}},
                                                          {{"norm"}, {"layers.0"}},
                                                          {{"layers.0"}, {"layers.2"}},
                                                          {{"layers.x"}},
                                                          {{"vision.0"}}}) {
    EXPECT_THAT(ReadModuleNames(parts).problem, HasSubstr("allowed: tok_embeddings in the first"));
  }
}

TEST(LayerSplit, ReadsPointsBetweenLayers) {
  EXPECT_EQ(ReadSplitPoints({"layers.1", "layers.4"}, 6).layers, (Layers{1, 3, 2}));
  const std::vector<std::vector<std::string>> wrong = {
      {"layers.4", "layers.1"}, {"layers.6"}, {"layers.0"}, {"norm"}, {"layers."}};
  for (const auto& points : wrong) {
    EXPECT_THAT(ReadSplitPoints(points, 6).problem,
                HasSubstr("allowed: layers.N, each behind the one before, below the 6 layers"));
  }
}

}  // namespace
}  // namespace stepsim
