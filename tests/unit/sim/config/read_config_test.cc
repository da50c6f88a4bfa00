#include "sim/config/read_config.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace stepsim {
namespace {

ConfigNode Read(std::string_view text) { return ReadConfig(text, "a.yaml"); }

std::string ErrorOf(std::string_view text) {
  try {
    Read(text);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

std::string Json(std::string_view text) { return WriteJson(Read(text)); }

std::string Repeat(std::string_view piece, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += piece;
  return text;
}

TEST(ReadConfig, KeepsPlacesFromOne) {
  const ConfigNode root = Read("plan:\n  strategy: ddp\ncaps: [1, 25]\n");
  const ConfigEntry* plan = root.Find("plan");
  ASSERT_NE(plan, nullptr);
  EXPECT_EQ(plan->key_place.ToString(), "a.yaml:1:1");
  EXPECT_EQ(plan->value.place.ToString(), "a.yaml:2:3");
  EXPECT_EQ(plan->value.Find("strategy")->value.place.ToString(), "a.yaml:2:13");
  EXPECT_EQ(root.FindValue("caps")->items[1].place.ToString(), "a.yaml:3:11");
}

// YAML 1.2 core schema: these are words and decimal numbers, whatever YAML 1.1 made of them.
TEST(ReadConfig, ScalarsStayText) {
  const ConfigNode root = Read("{a: no, b: 010, c: '25', d: 1_0, e: ~, f: , g: null, h: \"\"}");
  EXPECT_EQ(root.FindValue("a")->text, "no");
  EXPECT_EQ(root.FindValue("b")->text, "010");
  EXPECT_FALSE(root.FindValue("b")->is_quoted);
  EXPECT_TRUE(root.FindValue("c")->is_quoted);
  EXPECT_TRUE(root.FindValue("e")->IsNull());
  EXPECT_TRUE(root.FindValue("f")->IsNull());
  EXPECT_TRUE(root.FindValue("g")->IsNull());
  EXPECT_TRUE(root.FindValue("h")->IsScalar());
}

TEST(ReadConfig, ReadsJson) {
  EXPECT_EQ(Json("{\"a\": [1, 2.5, true, null, \"x\\u00e9\\n\"],\r\n\t\"b\": {}}"),
            "{\n  \"a\": [\n    1,\n    2.5,\n    true,\n    null,\n    \"x\xC3\xA9\\n\"\n  ],\n"
            "  \"b\": {}\n}");
}

TEST(ReadConfig, SkipsAByteOrderMark) {
  EXPECT_EQ(Read("\xEF\xBB\xBF"
                 "a: 1")
                .Find("a")
                ->key_place.ToString(),
            "a.yaml:1:1");
}

TEST(ReadConfig, ExpandsAliasesAndMergeKeys) {
  EXPECT_EQ(Json("base: &b {x: 1, y: 2}\nother: &o {y: 3, z: 4}\n"
                 "one:\n  <<: *b\n  x: 5\ntwo: {<<: [*b, *o]}\nthree: *b\n"),
            Json("base: {x: 1, y: 2}\nother: {y: 3, z: 4}\n"
                 "one: {x: 5, y: 2}\ntwo: {x: 1, y: 2, z: 4}\nthree: {x: 1, y: 2}\n"));
}

TEST(ReadConfig, AQuotedMergeKeyIsAWord) { EXPECT_EQ(Read("'<<': 1").entries[0].key, "<<"); }

TEST(ReadConfig, ReportsEveryDuplicateKey) {
  EXPECT_EQ(ErrorOf("a: 1\nb: 2\na: 3\nc: {d: 1, d: 2}\n"),
            "a.yaml:3:1: 'a': duplicate key, first at line 1\n"
            "a.yaml:4:11: 'd': duplicate key, first at line 4");
}

TEST(ReadConfig, ReportsADuplicateAndTheSyntaxErrorBehindIt) {
  EXPECT_EQ(ErrorOf("a: 1\na: 2\nb: [1, 2\n"),
            "a.yaml:2:1: 'a': duplicate key, first at line 1\n"
            "a.yaml:3:4: found no end of a list, allowed: '[a, b]'");
}

TEST(ReadConfig, SyntaxErrorsSayWhatIsAllowed) {
  EXPECT_EQ(ErrorOf("a: {b: 1\n"),
            "a.yaml:1:4: found no end of a mapping, allowed: '{key: value}'");
  EXPECT_EQ(
      ErrorOf("a: b: c\n"),
      "a.yaml:1:5: found a ':' where no key can stand, allowed: 'key: value' on a line of its "
      "own, or quotes around a text that contains ': '");
  EXPECT_EQ(ErrorOf("a: *nowhere\n"),
            "a.yaml:1:4: found an alias without its anchor, allowed: '&name' on a value above it");
  EXPECT_EQ(ErrorOf("a: 1\n---\nb: 2\n"),
            "a.yaml:2:1: found more text after the end of the document, allowed: one document");
  EXPECT_EQ(ErrorOf("[1]: 2\n"), "a.yaml:1:1: found a list as a key, allowed: a word");
  EXPECT_EQ(ErrorOf("a: !!python/object:os.system x\n"),
            "no error");  // an unknown name of the core tags' prefix means nothing, does nothing
  EXPECT_EQ(ErrorOf("a: !secret x\n"), "a.yaml:1:4: found the tag '!secret', allowed: no tags");
  EXPECT_EQ(ErrorOf("a:\n  <<: 3\n"), "a.yaml:2:3: <<: found '3', allowed: an alias of a mapping");
}

TEST(ReadConfig, EmptyFiles) {
  const std::string expected =
      "a.yaml: found an empty file, allowed: YAML or JSON with 'key: value'";
  for (const char* text : {"", "\n\n", "# only a comment\n", "---\n", "~", "\xEF\xBB\xBF"}) {
    EXPECT_EQ(ErrorOf(text), expected) << text;
  }
}

TEST(ReadConfig, BinaryFiles) {
  EXPECT_EQ(ErrorOf(std::string_view("\x7F"
                                     "ELF\x02\x01",
                                     6)),
            "a.yaml:1:1: found the byte 0x7F, allowed: a text file in UTF-8 (is this a binary "
            "file?)");
  EXPECT_EQ(ErrorOf("a: \xFF"),
            "a.yaml:1:4: found the byte 0xFF, allowed: a text file in UTF-8 (is this a binary "
            "file?)");
  EXPECT_EQ(ErrorOf(std::string_view("a: 1\nb\0: 2", 10)),
            "a.yaml:2:2: found the byte 0x00, allowed: a text file in UTF-8 (is this a binary "
            "file?)");
  // Overlong, surrogate, beyond U+10FFFF, cut off.
  for (const char* text : {"\xC0\xAF", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xE2\x82", "\x80"}) {
    EXPECT_NE(ErrorOf(text).find("allowed: a text file in UTF-8"), std::string::npos);
  }
  EXPECT_EQ(Read("a: \xE2\x82\xAC \xF0\x9F\x98\x80").FindValue("a")->text,
            "\xE2\x82\xAC \xF0\x9F\x98\x80");
}

// ---- Hostile input ----

TEST(ReadConfig, TooLarge) {
  EXPECT_EQ(ErrorOf(std::string((8u << 20) + 1, '[')),
            "a.yaml: found 8388609 bytes, allowed: at most 8 MiB");
}

TEST(ReadConfig, TooDeep) {
  const std::string expected =
      "found more than 100 lists and mappings inside each other, allowed: at most 100";
  EXPECT_EQ(ErrorOf(Repeat("[", 4'000'000)), "a.yaml:1:101: " + expected);
  EXPECT_EQ(ErrorOf(Repeat("{a: ", 101)), "a.yaml:1:401: " + expected);
  EXPECT_EQ(ErrorOf(Repeat("- ", 1'000'000)), "a.yaml:1:201: " + expected);
  // Brackets in quotes fool a count of brackets; the depth of the tree counts as well.
  EXPECT_NE(ErrorOf(Repeat("[\"]\",", 200'000)).find(expected), std::string::npos);
  EXPECT_EQ(ErrorOf(Repeat("[", 100) + "1" + Repeat("]", 100)), "no error");
}

TEST(ReadConfig, TooManyValues) {
  EXPECT_EQ(ErrorOf("[" + Repeat("1,", 600'000) + "1]"),
            "a.yaml:1:1000001: found more than 500000 values, allowed: at most 500000 in one file");
  EXPECT_EQ(ErrorOf(Repeat("- 1\n", 600'000)),
            "a.yaml:500000:3: found more than 500000 values (aliases counted where they are used), "
            "allowed: at most 500000 in one file");
}

TEST(ReadConfig, ABillionLaughs) {
  std::string text = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]\n";
  for (int i = 1; i < 10; ++i) {
    const std::string last = "*a" + std::to_string(i - 1);
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + last +
            Repeat(", " + last, 8) + "]\n";
  }
  EXPECT_NE(ErrorOf(text).find("found more than 500000 values"), std::string::npos);
}

TEST(ReadConfig, ALongTextInManyAliases) {
  const std::string text =
      "a: &a " + std::string(1'000'000, 'x') + "\nb: [*a" + Repeat(", *a", 400'000) + "]\n";
  EXPECT_NE(ErrorOf(text).find("found more than 500000 values"), std::string::npos);
}

TEST(ReadConfig, AnAliasInsideItself) {
  EXPECT_EQ(ErrorOf("a: &a [*a]\n"), "a.yaml:1:8: found an alias inside the value it stands for");
}

TEST(ReadConfig, LongKeysAndTextsMakeShortMessages) {
  const std::string key(100'000, 'k');
  EXPECT_LT(ErrorOf(key + ": 1\n" + key + ": 2\n").size(), 200u);
}

TEST(ReadSetValue, ReadsScalarsAndFlow) {
  const Place place{"--set a=b", 0, 0};
  EXPECT_EQ(ReadSetValue("25 MiB", place).text, "25 MiB");
  EXPECT_TRUE(ReadSetValue("", place).IsNull());
  const ConfigNode list = ReadSetValue("[1, {x: 25}]", place);
  ASSERT_TRUE(list.IsSequence());
  EXPECT_EQ(list.items[1].Find("x")->value.place.ToString(), "--set a=b");
  EXPECT_THROW(ReadSetValue("[1, 25", place), ConfigError);
}

}  // namespace
}  // namespace stepsim
