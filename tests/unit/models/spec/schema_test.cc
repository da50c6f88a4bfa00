#include "models/spec/schema.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "sim/base/diagnostics.h"
#include "sim/config/config_node.h"
#include "sim/config/read_config.h"

namespace stepsim {
namespace {

const ConfigNode& At(const ConfigNode& node, const std::vector<std::string>& keys) {
  const ConfigNode* current = &node;
  for (const std::string& key : keys) {
    current = current->FindValue(key);
    if (current == nullptr) throw std::runtime_error("no key " + key);
  }
  return *current;
}

TEST(Schema, OfAJob) {
  const ConfigNode schema = ReadConfig(JobSchema(), "schema");
  EXPECT_EQ(At(schema, {"$schema"}).text, "http://json-schema.org/draft-07/schema#");
  EXPECT_EQ(At(schema, {"additionalProperties"}).text, "false");
  EXPECT_EQ(At(schema, {"properties", "nodes", "minimum"}).text, "1");
  EXPECT_EQ(At(schema, {"properties", "gpus_per_node", "description"}).text,
            "GPUs used per node; default: the profile's");
  EXPECT_EQ(At(schema, {"properties", "plan", "properties", "strategy", "enum"}).items[0].text,
            "ddp");
  // A name, or the content of such a file.
  const ConfigNode& hardware = At(schema, {"properties", "hardware", "anyOf"});
  ASSERT_EQ(hardware.items.size(), 2u);
  EXPECT_EQ(At(hardware.items[0], {"type"}).text, "string");
  EXPECT_EQ(At(hardware.items[1], {"properties", "base", "type"}).text, "string");
  // With a base it may only override, without one it must be whole.
  EXPECT_EQ(hardware.items[1].FindValue("required"), nullptr);
  EXPECT_EQ(At(hardware.items[1], {"if", "required"}).items[0].text, "base");
  EXPECT_EQ(At(hardware.items[1], {"else", "properties", "gpu", "required"}).items.size(), 5u);
  // Aliases are no typing errors in an editor either.
  EXPECT_NE(At(schema, {"properties", "batch", "properties"}).Find("seq_len"), nullptr);
}

TEST(Schema, OfTheOtherFiles) {
  EXPECT_EQ(At(ReadConfig(HardwareSchema(), "s"), {"properties", "gpu", "type"}).text, "object");
  EXPECT_EQ(
      At(ReadConfig(NetworkSchema(), "s"), {"else", "properties", "link", "required"}).items.size(),
      2u);  // type and bandwidth
  EXPECT_EQ(At(ReadConfig(ModelSchema(), "s"), {"properties", "layers", "type"}).text, "array");
}

TEST(DescribeField, ByPathByItsEndAndByAnotherSpelling) {
  const std::string text =
      "batch.micro_batch_size\n  samples per GPU and micro-step\n"
      "  allowed  a whole number from 1 to 1000000\n  default  1\n"
      "  also     micro_batch, mbs\n";
  EXPECT_EQ(DescribeField("batch.micro_batch_size"), text);
  EXPECT_EQ(DescribeField("micro_batch_size"), text);
  EXPECT_EQ(DescribeField("mbs"), text);
}

TEST(DescribeField, UnknownNames) {
  try {
    DescribeField("bucket_cap");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(), "found no field 'bucket_cap'; did you mean 'bucket_cap_mb'?");
  }
  EXPECT_THROW(DescribeField(""), ConfigError);
}

TEST(AllFieldPaths, EveryOneCanBeDescribed) {
  const std::vector<std::string> paths = AllFieldPaths();
  EXPECT_GT(paths.size(), 90u);
  for (const std::string& path : paths) EXPECT_NE(DescribeField(path), "") << path;
  for (const char* path : {"plan.ddp.no_sync", "hardware.network.link.latency",
                           "model.transformer.kv_heads", "model.layers.N.parameters.N.elements"}) {
    EXPECT_EQ(std::count(paths.begin(), paths.end(), path), 1) << path;
  }
}

}  // namespace
}  // namespace stepsim
