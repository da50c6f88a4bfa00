// Every input that the fuzzers start from, and every one that ever crashed, as ordinary tests.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/fuzz_targets.h"

namespace stepsim {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> FilesIn(const std::string& folder) {
  std::vector<fs::path> files;
  const fs::path root = fs::path(STEPSIM_SOURCE_DIR) / "tests/fuzz" / folder;
  if (!fs::exists(root)) return {};  // no crash was ever found
  for (const auto& entry : fs::directory_iterator(root)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

std::string ReadFile(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

struct Target {
  const char* corpus;  // of tests/fuzz/corpus
  void (*run)(std::string_view bytes);
};
constexpr Target kTargets[] = {
    {"chakra", FuzzChakra},
    {"condition", FuzzCondition},
    {"config", FuzzConfig},
    {"csv", FuzzCsv},
    {"hf_config", FuzzHfConfig},
    {"import", FuzzImport},
    {"live", FuzzLiveSweep},
    {"measured", FuzzMeasuredTable},
    {"measured_log", FuzzMeasuredLog},
    {"memory", FuzzMemoryTable},
    {"schedule", FuzzSchedule},
    {"toml", FuzzToml},
    {"trace", FuzzTrace},
};

TEST(FuzzReplay, Corpus) {
  for (const Target& target : kTargets) {
    const std::vector<fs::path> files = FilesIn(std::string("corpus/") + target.corpus);
    EXPECT_FALSE(files.empty()) << target.corpus;
    for (const fs::path& path : files) EXPECT_NO_THROW(target.run(ReadFile(path))) << path;
  }
}

TEST(FuzzReplay, FormerCrashes) {
  for (const fs::path& path : FilesIn("crashes")) {
    for (const Target& target : kTargets) EXPECT_NO_THROW(target.run(ReadFile(path))) << path;
  }
}

}  // namespace
}  // namespace stepsim
