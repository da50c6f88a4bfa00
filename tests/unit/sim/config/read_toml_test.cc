#include "sim/config/read_toml.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace stepsim {
namespace {

ConfigNode Read(std::string_view text) { return ReadToml(text, "a.toml"); }

std::string ErrorOf(std::string_view text, const ConfigLimits& limits = {}) {
  try {
    ReadToml(text, "a.toml", limits);
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.diagnostics().size(), 1u);
    return error.what();
  }
  return "no error";
}

std::string Repeat(std::string_view piece, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += piece;
  return text;
}

TEST(ReadToml, KeepsPlacesAndTheOrderOfTheDocument) {
  const ConfigNode root =
      Read("[training]\nseq_len = 8192  # tokens\nbatch = 1\n\n[a]\nx = [1, 2]\n");
  ASSERT_EQ(root.entries.size(), 2u);
  EXPECT_EQ(root.entries[0].key, "training");
  const ConfigNode& training = root.entries[0].value;
  EXPECT_EQ(training.entries[0].key, "seq_len");
  EXPECT_EQ(training.entries[0].key_place.ToString(), "a.toml:2:1");
  EXPECT_EQ(training.entries[0].value.place.ToString(), "a.toml:2:11");
  EXPECT_EQ(training.entries[1].key, "batch");
  EXPECT_EQ(root.entries[1].value.FindValue("x")->items[1].place.ToString(), "a.toml:6:9");
}

// TOML 1.0's types: what is no text in quotes is a plain scalar.
TEST(ReadToml, ReadsEveryType) {
  const ConfigNode root = Read(
      "a = 1_000\nb = 0x10\nc = 3e-4\nd = 2.0\ne = true\nf = 'no\\n'\ng = \"x\\u00e9\"\n"
      "h = 2026-01-02\ni = {x.y = 1}\nj = []\nk = inf\n[[l]]\nm = 1\n[[l]]\nm = 2\n");
  EXPECT_EQ(root.FindValue("a")->text, "1000");
  EXPECT_EQ(root.FindValue("b")->text, "16");
  EXPECT_EQ(root.FindValue("c")->text, "0.0003");
  EXPECT_EQ(root.FindValue("d")->text, "2.0");
  EXPECT_EQ(root.FindValue("e")->text, "true");
  EXPECT_FALSE(root.FindValue("e")->is_quoted);
  EXPECT_EQ(root.FindValue("f")->text, "no\\n");
  EXPECT_TRUE(root.FindValue("f")->is_quoted);
  EXPECT_EQ(root.FindValue("g")->text, "x\xC3\xA9");
  EXPECT_EQ(root.FindValue("h")->text, "2026-01-02");
  EXPECT_EQ(root.FindValue("i")->FindValue("x")->FindValue("y")->text, "1");
  EXPECT_TRUE(root.FindValue("j")->IsSequence());
  EXPECT_EQ(root.FindValue("k")->text, "inf");
  EXPECT_EQ(root.FindValue("l")->items[1].FindValue("m")->text, "2");
}

TEST(ReadToml, AnErrorHasItsPlace) {
  EXPECT_EQ(ErrorOf("a = 1\nb = \n").substr(0, 44), "a.toml:2:5: found text that is not TOML: Err");
  EXPECT_NE(ErrorOf("a = 1\na = 2\n").find("a.toml:2:"), std::string::npos);
  EXPECT_NE(ErrorOf("a = \"x\n").find("a.toml:1:"), std::string::npos);
  EXPECT_NE(ErrorOf("[a\nb = 1\n").find("a.toml:1:"), std::string::npos);
  EXPECT_NE(ErrorOf("a = '\xFF'").find("a.toml:1:"), std::string::npos);
  EXPECT_NE(ErrorOf(std::string_view("a\0b", 3)).find("a.toml:1:"), std::string::npos);
  // Found by a fuzzer: the parser takes a control character for a part of a key.
  EXPECT_EQ(ErrorOf("a = 1\n[\x1C"
                    "a.b]\n"),
            "a.toml:2:2: found the byte 0x1C, allowed: a text file in UTF-8 (is this a binary "
            "file?)");
  EXPECT_EQ(ErrorOf("# nothing\n"),
            "a.toml: found an empty file, allowed: TOML with 'key = value'");
}

// Each is small, and would make a tree that is deep or has many nodes.
TEST(ReadToml, LimitsHostileText) {
  constexpr std::size_t kMany = 200'000;
  for (const std::string& deep :
       {"a = " + Repeat("[", kMany), Repeat("a.", kMany) + "a = 1",
        "[" + Repeat("a.", kMany) + "a]", "x = " + Repeat("{a.a.a.a = ", kMany),
        "x = " + Repeat("{\"]\" = [", kMany), Repeat("\"a\".", kMany) + "b = 1"}) {
    EXPECT_NE(ErrorOf(deep).find("inside each other, allowed: at most 100"), std::string::npos)
        << deep.substr(0, 20);
  }
  EXPECT_NE(ErrorOf("a = [" + Repeat("1,", 600'000) + "]").find("more than 500000 values"),
            std::string::npos);
  EXPECT_NE(ErrorOf(std::string(100, 'a'), {.max_bytes = 99}).find("found 100 bytes"),
            std::string::npos);
}

// Brackets and dots in texts, comments and numbers are no depth.
TEST(ReadToml, CountsOnlyWhatNests) {
  const std::string brackets = Repeat("[{.", 200);
  EXPECT_EQ(ErrorOf("a = \"" + brackets + "\\\"\" # " + brackets + "\nb = '" + brackets +
                    "'\nc = \"\"\"\n" + brackets + "\"\"\"\nd = '''" + brackets + "'''\n"),
            "no error");
  EXPECT_EQ(ErrorOf("a = [" + Repeat("0.5, ", 500) + "]\n" + Repeat("[t]\n[u]\n", 0)), "no error");
  EXPECT_EQ(ErrorOf("a = [\n" + Repeat("  [0.5, {x.y = 1}],\n", 500) + "]\n"), "no error");
}

TEST(ReadToml, TruncatedTextIsOneError) {
  const std::string text = "[a]\nb = {c = [1, \"x\"], d = '''\ny'''}\n[[e.f]]\ng = 1.5e3\n";
  for (std::size_t size = 0; size < text.size(); ++size) {
    try {
      Read(text.substr(0, size));
    } catch (const ConfigError& error) {
      EXPECT_EQ(error.diagnostics().size(), 1u) << size;
    }
  }
}

}  // namespace
}  // namespace stepsim
