// Does every number say where it comes from? The `sources:` of a file name the paths they cover; a
// shorter path covers what is under it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "sim/config/read_config.h"
#include "tests/support/shipped.h"

namespace stepsim {
namespace {

using ::testing::IsEmpty;
using testing::PlainName;
using testing::ReadRepositoryFile;
using testing::ShippedConfigs;
using ::testing::TestWithParam;
using ::testing::ValuesIn;

// The paths of all values under `node`. A list is one value.
void CollectValues(const ConfigNode& node, const std::string& path,
                   std::vector<std::string>& paths) {
  if (!node.IsMapping()) {
    paths.push_back(path);
    return;
  }
  for (const ConfigEntry& entry : node.entries) {
    CollectValues(entry.value, JoinPath(path, entry.key), paths);
  }
}

bool Covers(const std::string& source, const std::string& value) {
  return value == source || value.rfind(source + ".", 0) == 0;
}

struct Sourced {
  std::vector<std::string> values;
  std::vector<std::string> sources;
};

// What only names or describes needs no source.
Sourced Read(const std::string& path) {
  ConfigNode root = ReadConfig(ReadRepositoryFile(path), path);
  Sourced file;
  if (const ConfigNode* sources = root.FindValue("sources")) {
    for (const ConfigEntry& entry : sources->entries) {
      EXPECT_FALSE(entry.value.text.empty()) << path << ": " << entry.key;
      file.sources.push_back(entry.key);
    }
  }
  for (const char* key : {"sources", "name", "description", "tokens_per_sample"}) root.Remove(key);
  CollectValues(root, "", file.values);
  return file;
}

void ExpectSourced(const std::string& path) {
  const Sourced file = Read(path);
  std::vector<std::string> bare, dangling;
  for (const std::string& value : file.values) {
    if (std::none_of(file.sources.begin(), file.sources.end(),
                     [&](const std::string& source) { return Covers(source, value); })) {
      bare.push_back(value);
    }
  }
  for (const std::string& source : file.sources) {
    if (std::none_of(file.values.begin(), file.values.end(),
                     [&](const std::string& value) { return Covers(source, value); })) {
      dangling.push_back(source);
    }
  }
  EXPECT_THAT(bare, IsEmpty()) << path << ": values without a source";
  EXPECT_THAT(dangling, IsEmpty()) << path << ": sources of nothing";
}

class HardwareSources : public TestWithParam<std::string> {};
class NetworkSources : public TestWithParam<std::string> {};
class CollectiveSources : public TestWithParam<std::string> {};
class ModelSources : public TestWithParam<std::string> {};

TEST_P(HardwareSources, CoverEveryValue) {
  ExpectSourced("configs/hardware/" + GetParam() + ".yaml");
}
TEST_P(NetworkSources, CoverEveryValue) {
  ExpectSourced("configs/networks/" + GetParam() + ".yaml");
}
TEST_P(CollectiveSources, CoverEveryValue) {
  ExpectSourced("configs/collectives/" + GetParam() + ".yaml");
}
TEST_P(ModelSources, CoverEveryValue) { ExpectSourced("configs/models/" + GetParam() + ".yaml"); }

INSTANTIATE_TEST_SUITE_P(Configs, HardwareSources,
                         ValuesIn(ShippedConfigs().Names(ConfigKind::kHardware)), PlainName);
INSTANTIATE_TEST_SUITE_P(Configs, NetworkSources,
                         ValuesIn(ShippedConfigs().Names(ConfigKind::kNetworks)), PlainName);
INSTANTIATE_TEST_SUITE_P(Configs, CollectiveSources,
                         ValuesIn(ShippedConfigs().Names(ConfigKind::kCollectives)), PlainName);
INSTANTIATE_TEST_SUITE_P(Configs, ModelSources,
                         ValuesIn(ShippedConfigs().Names(ConfigKind::kModels)), PlainName);

TEST(Sources, AShorterPathCoversWhatIsUnderIt) {
  EXPECT_TRUE(Covers("gpu", "gpu.peak.bf16"));
  EXPECT_TRUE(Covers("gpu.peak", "gpu.peak.bf16"));
  EXPECT_FALSE(Covers("gpu.peak.b", "gpu.peak.bf16"));
  EXPECT_FALSE(Covers("gpu.peak", "gpu.memory"));
}

}  // namespace
}  // namespace stepsim
