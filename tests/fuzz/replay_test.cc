// Every input that the fuzzers start from, and every one that ever crashed, as ordinary tests.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
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

TEST(FuzzReplay, Corpus) {
  const std::vector<fs::path> jobs = FilesIn("corpus/config");
  const std::vector<fs::path> models = FilesIn("corpus/hf_config");
  ASSERT_FALSE(jobs.empty());
  ASSERT_FALSE(models.empty());
  const std::vector<fs::path> tables = FilesIn("corpus/csv");
  ASSERT_FALSE(tables.empty());
  for (const fs::path& path : tables) EXPECT_NO_THROW(FuzzCsv(ReadFile(path))) << path;
  const std::vector<fs::path> measured = FilesIn("corpus/measured");
  ASSERT_FALSE(measured.empty());
  for (const fs::path& path : measured) EXPECT_NO_THROW(FuzzMeasuredTable(ReadFile(path))) << path;
  const std::vector<fs::path> memory = FilesIn("corpus/memory");
  ASSERT_FALSE(memory.empty());
  for (const fs::path& path : memory) EXPECT_NO_THROW(FuzzMemoryTable(ReadFile(path))) << path;
  const std::vector<fs::path> schedules = FilesIn("corpus/schedule");
  ASSERT_FALSE(schedules.empty());
  for (const fs::path& path : schedules) EXPECT_NO_THROW(FuzzSchedule(ReadFile(path))) << path;
  const std::vector<fs::path> toml = FilesIn("corpus/toml");
  const std::vector<fs::path> imports = FilesIn("corpus/import");
  ASSERT_FALSE(toml.empty());
  ASSERT_FALSE(imports.empty());
  for (const fs::path& path : toml) EXPECT_NO_THROW(FuzzToml(ReadFile(path))) << path;
  for (const fs::path& path : imports) EXPECT_NO_THROW(FuzzImport(ReadFile(path))) << path;
  const std::vector<fs::path> conditions = FilesIn("corpus/condition");
  ASSERT_FALSE(conditions.empty());
  for (const fs::path& path : conditions) EXPECT_NO_THROW(FuzzCondition(ReadFile(path))) << path;
  const std::vector<fs::path> traces = FilesIn("corpus/trace");
  ASSERT_FALSE(traces.empty());
  for (const fs::path& path : traces) EXPECT_NO_THROW(FuzzTrace(ReadFile(path))) << path;
  for (const fs::path& path : jobs) EXPECT_NO_THROW(FuzzConfig(ReadFile(path))) << path;
  for (const fs::path& path : models) EXPECT_NO_THROW(FuzzHfConfig(ReadFile(path))) << path;
}

TEST(FuzzReplay, FormerCrashes) {
  for (const fs::path& path : FilesIn("crashes")) {
    EXPECT_NO_THROW(FuzzConfig(ReadFile(path))) << path;
    EXPECT_NO_THROW(FuzzHfConfig(ReadFile(path))) << path;
    EXPECT_NO_THROW(FuzzCsv(ReadFile(path))) << path;
    EXPECT_NO_THROW(FuzzToml(ReadFile(path))) << path;
    EXPECT_NO_THROW(FuzzImport(ReadFile(path))) << path;
    EXPECT_NO_THROW(FuzzSchedule(ReadFile(path))) << path;
    EXPECT_NO_THROW(FuzzCondition(ReadFile(path))) << path;
    EXPECT_NO_THROW(FuzzTrace(ReadFile(path))) << path;
  }
}

}  // namespace
}  // namespace stepsim
