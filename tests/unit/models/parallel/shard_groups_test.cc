// Which units become one group, under each wrapping policy?
#include "models/parallel/shard_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "models/spec/wrap_modules.h"
#include "tests/support/sharded_step.h"

namespace stepsim {
namespace {

using namespace testing_sharded;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> NamesOf(const ShardGroups& groups) {
  std::vector<std::string> names;
  for (const ShardGroup& group : groups.groups) names.push_back(group.name);
  return names;
}

ShardGroups Custom(const std::vector<std::string>& modules) {
  return GroupUnits(ThreeLayers(), WrapPolicy::kCustom, 0, modules);
}

TEST(ShardGroups, ByLayer) {
  const ShardGroups groups = GroupUnits(ThreeLayers(), WrapPolicy::kLayer, 0, {});
  EXPECT_THAT(NamesOf(groups), ElementsAre("root", "layers.0", "layers.1", "layers.2"));
  EXPECT_THAT(groups.groups[0].parameters, ElementsAre(0, 4));
}

// A group of its own for the table, and one for what stands at the end, as torchtitan wraps them:
// nothing is left for the root.
TEST(ShardGroups, ByModules) {
  const ShardGroups groups = Custom({"layers.*", "embedding", "head"});
  EXPECT_THAT(NamesOf(groups),
              ElementsAre("root", "embedding", "layers.0", "layers.1", "layers.2", "head"));
  EXPECT_THAT(groups.groups[0].parameters, IsEmpty());
  EXPECT_THAT(groups.of_unit, ElementsAre(1, 2, 3, 4, 5));
  EXPECT_EQ(groups.groups[1].elements, kElements);
}

TEST(ShardGroups, SeveralModulesAreOneGroup) {
  const ShardGroups groups = Custom({"layers.0+layers.1", "layers.2 + head"});
  EXPECT_THAT(NamesOf(groups), ElementsAre("root", "layers.0..layers.1", "layers.2..head"));
  EXPECT_THAT(groups.groups[0].parameters, ElementsAre(0));
  EXPECT_THAT(groups.of_unit, ElementsAre(0, 1, 1, 2, 2));
  EXPECT_EQ(groups.groups[2].elements, 2 * kElements);
}

// A unit closes the group that it fills; a table that the head uses too stays with the root, as it
// has to be there for both.
TEST(ShardGroups, ByParameters) {
  EXPECT_THAT(NamesOf(GroupUnits(ThreeLayers(), WrapPolicy::kMinParameters, 2 * kElements, {})),
              ElementsAre("root", "embedding..layers.0", "layers.1..layers.2"));
  Workload tied = ThreeLayers();
  tied.units.back().operators[0].parameters_ready.clear();
  tied.units.back().operators[0].also_uses = {0};
  const ShardGroups groups = GroupUnits(tied, WrapPolicy::kMinParameters, kElements, {});
  EXPECT_THAT(NamesOf(groups), ElementsAre("root", "layers.0", "layers.1", "layers.2"));
}

TEST(WrapModules, Patterns) {
  EXPECT_TRUE(FitsPattern("layers.12", "layers.*"));
  EXPECT_TRUE(FitsPattern("layers.12", "layers.1*"));
  EXPECT_TRUE(FitsPattern("layer1.0.conv1", "*conv*"));
  EXPECT_TRUE(FitsPattern("head", "head"));
  EXPECT_FALSE(FitsPattern("head", "hea"));
  EXPECT_FALSE(FitsPattern("layers.2", "layers.1*"));
  EXPECT_FALSE(FitsPattern("embedding", "*head"));
  EXPECT_TRUE(FitsPattern("aab", "*ab"));
}

TEST(WrapModules, Problems) {
  const std::vector<std::string> units = {"embedding", "layers.0", "layers.1", "layers.2", "head"};
  EXPECT_THAT(ResolveWrap({"layer.*"}, units).problems,
              ElementsAre("found 'layer.*', which fits no module, allowed: embedding, layers.0 to "
                          "layers.2, head; did you mean 'layers.*'?"));
  EXPECT_THAT(ResolveWrap({"embeding"}, units).problems,
              ElementsAre("found 'embeding', which fits no module, allowed: embedding, layers.0 to "
                          "layers.2, head; did you mean 'embedding'?"));
  EXPECT_THAT(
      ResolveWrap({"layers.*", "layers.1"}, units).problems,
      ElementsAre("found module 'layers.1' in 'layers.*' and in 'layers.1', allowed: once"));
  EXPECT_THAT(ResolveWrap({"embedding+head"}, units).problems,
              ElementsAre("found 'embedding+head', allowed: modules that follow each other, of "
                          "embedding, layers.0 to layers.2, head"));
}

// A stage of a pipeline has its own part of a network's wrapping, and of a joined entry.
TEST(ShardGroups, AStageTakesWhatItHolds) {
  const std::vector<std::string> entries = {"embedding", "layers.*", "head+layers.9"};
  const ShardGroups groups =
      GroupUnits(WorkloadOf({{"layers.6", 1, 2}, {"layers.7", 1, 2}, {"head", 1, 2}}),
                 WrapPolicy::kCustom, 0, entries);
  EXPECT_THAT(groups.of_unit, ElementsAre(1, 2, 3));
}

}  // namespace
}  // namespace stepsim
