#include "models/spec/config_source.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "models/spec/load_job.h"
#include "sim/base/diagnostics.h"

namespace stepsim {
namespace {

namespace fs = std::filesystem;

class DirectorySource : public testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(root_);
    fs::create_directories(root_ / "hardware");
    Write("hardware/b.yaml", "name: b");
    Write("hardware/a.json", "{}");
    Write("hardware/notes.txt", "");
  }
  void TearDown() override { fs::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    std::ofstream(root_ / path) << text;
  }
  std::string ErrorOf(const std::string& path) const {
    return DirectoryConfigSource(root_.string()).ReadFile((root_ / path).string()).error;
  }

  const fs::path root_ =
      fs::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(DirectorySource, ListsAndFindsNames) {
  const DirectoryConfigSource source(root_.string());
  EXPECT_EQ(source.Names(ConfigKind::kHardware), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(source.Names(ConfigKind::kModels), std::vector<std::string>{});
  const auto file = source.FindNamed(ConfigKind::kHardware, "b");
  ASSERT_TRUE(file.has_value());
  EXPECT_EQ(file->text, "name: b");
  EXPECT_EQ(file->name, (root_ / "hardware/b.yaml").string());
  EXPECT_FALSE(source.FindNamed(ConfigKind::kHardware, "c").has_value());
  EXPECT_FALSE(source.FindNamed(ConfigKind::kHardware, "../hardware/b").has_value());
  EXPECT_FALSE(source.FindNamed(ConfigKind::kHardware, "").has_value());
}

TEST_F(DirectorySource, SaysWhatIsWrongWithAFile) {
  EXPECT_EQ(ErrorOf("hardware/b.yml"), "found no such file; did you mean 'b.yaml'?");
  EXPECT_EQ(ErrorOf("nowhere/x"), "found no such file");
  EXPECT_EQ(ErrorOf("hardware"), "found a folder, allowed: a file");
  EXPECT_EQ(ErrorOf("hardware/b.yaml"), "");
}

// The file has no blocks on the disk: its size is looked at before anything is read.
TEST_F(DirectorySource, AGigabyteAnswersAtOnce) {
  Write("big.yaml", "[");
  fs::resize_file(root_ / "big.yaml", 1'000'000'000);
  EXPECT_EQ(ErrorOf("big.yaml"), "found 1000000000 bytes, allowed: at most 8 MiB");
}

TEST_F(DirectorySource, AnEndlessDeviceIsReadToTheLimit) {
  if (!fs::exists("/dev/zero")) GTEST_SKIP() << "no such device here";
  try {
    LoadJob("/dev/zero", {}, DirectoryConfigSource(root_.string()));
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(), "/dev/zero: found 8388609 bytes, allowed: at most 8 MiB");
  }
}

}  // namespace
}  // namespace stepsim
