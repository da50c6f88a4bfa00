#include "sim/config/config_node.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "sim/config/read_config.h"

namespace stepsim {
namespace {

ConfigNode Read(std::string_view text) { return ReadConfig(text, "a.yaml"); }
std::string Json(std::string_view text) { return WriteJson(Read(text)); }

const Place kSet{"--set", 0, 0};

std::string SetError(std::string_view text, std::string_view path) {
  ConfigNode root = Read(text);
  try {
    SetPath(root, path, MakePlain("9"), kSet);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

std::string AfterSet(std::string_view text, std::string_view path) {
  ConfigNode root = Read(text);
  SetPath(root, path, MakePlain("9"), kSet);
  return WriteJson(root);
}

TEST(SetPath, ReplacesAndCreates) {
  EXPECT_EQ(AfterSet("{a: {b: 1, c: 2}}", "a.b"), Json("{a: {b: 9, c: 2}}"));
  EXPECT_EQ(AfterSet("{a: {b: 1}}", "x.y.z"), Json("{a: {b: 1}, x: {y: {z: 9}}}"));
  EXPECT_EQ(AfterSet("{a: }", "a.b"), Json("{a: {b: 9}}"));
  EXPECT_EQ(AfterSet("{l: [{n: 1}, {n: 2}]}", "l.1.n"), Json("{l: [{n: 1}, {n: 9}]}"));
  EXPECT_EQ(AfterSet("{l: [1, 2]}", "l.0"), Json("{l: [9, 2]}"));
}

TEST(SetPath, RemembersWhereTheValueCameFrom) {
  ConfigNode root = Read("{a: {b: 1}}");
  SetPath(root, "a.b", MakePlain("9", kSet), kSet);
  EXPECT_EQ(root.FindValue("a")->Find("b")->key_place.ToString(), "--set");
  EXPECT_EQ(root.Find("a")->key_place.ToString(), "a.yaml:1:2");
}

TEST(SetPath, Errors) {
  EXPECT_EQ(SetError("{a: {b: 1}}", "a.b.c"),
            "--set: a.b.c: 'a.b' has no key below it, its value is '1'");
  EXPECT_EQ(SetError("{l: [1, 2]}", "l.2"),
            "--set: l.2: found '2' as the place in a list, allowed: 0 to 1");
  EXPECT_EQ(SetError("{l: [1, 2]}", "l.first"),
            "--set: l.first: found 'first' as the place in a list, allowed: 0 to 1");
  EXPECT_EQ(SetError("{l: []}", "l.0"),
            "--set: l.0: found '0' as the place in a list, the list is empty");
  for (const char* path : {"", ".", "a.", ".a", "a..b"}) {
    EXPECT_NE(SetError("{a: {b: 1}}", path).find("allowed: keys joined by dots"), std::string::npos)
        << path;
  }
}

TEST(Merge, KeyByKey) {
  EXPECT_EQ(WriteJson(Merge(Read("{a: 1, b: {c: 2, d: 3}, l: [1, 2]}"),
                            Read("{b: {d: 4, e: 5}, l: [3], f: 6}"))),
            Json("{a: 1, b: {c: 2, d: 4, e: 5}, l: [3], f: 6}"));
}

TEST(WriteJson, NumbersAreDecimal) {
  EXPECT_EQ(Json("[010, '010', 1e3, 1_000, .5, true, True, no, -0.25]"),
            "[\n  10,\n  \"010\",\n  1000,\n  1000,\n  0.5,\n  true,\n  \"True\",\n  \"no\",\n  "
            "-0.25\n]");
}

TEST(DescribeFound, CutsBetweenCharacters) {
  std::string text(59, 'x');
  text += "\xE2\x82\xAC and more";
  EXPECT_EQ(DescribeFound(MakeText(text)), "'" + std::string(59, 'x') + "...'");
  EXPECT_EQ(DescribeFound(ConfigNode{}), "nothing");
}

}  // namespace
}  // namespace stepsim
