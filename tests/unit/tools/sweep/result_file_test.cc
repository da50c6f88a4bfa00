#include "tools/sweep/result_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace stepsim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Existing = ResultFile::Existing;

class ResultFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    path_ = (std::filesystem::temp_directory_path() /
             (std::string("stepsim_result_file_") + info->name()))
                .string();
    std::filesystem::remove(path_);
    header_.sweep = "s";
    header_.hash = "0123456789abcdef";
    header_.axes = {{"plan.data_parallel", "", false}};
    header_.metrics = {"step_time_s"};
    header_.points = header_.shard_points = 10;
  }
  void TearDown() override { std::filesystem::remove(path_); }

  std::string Text() const {
    std::ifstream file(path_, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  void Write(const std::string& text) const { std::ofstream(path_, std::ios::binary) << text; }
  static std::string Row(std::uint64_t index) {
    return "{\"index\":" + std::to_string(index) + ",\"axes\":{}}\n";
  }
  // Writes the rows behind those that are there; returns how many were.
  std::uint64_t Run(Existing existing, std::uint64_t rows) const {
    ResultFile file(path_, header_, existing);
    std::uint64_t next = 0;
    const std::uint64_t before =
        file.SkipDone([&](std::uint64_t index) { return index == next++; });
    for (std::uint64_t i = before; i < rows; ++i) file.Append(Row(i));
    file.Finish();
    return before;
  }
  std::string ErrorOf(Existing existing) const {
    try {
      Run(existing, 2);
    } catch (const ConfigError& error) {
      return error.diagnostics().front().ToString();
    }
    return "";
  }

  std::string path_;
  ResultHeader header_;
};

TEST_F(ResultFileTest, WritesAHeaderAndRows) {
  EXPECT_EQ(Run(Existing::kRefuse, 2), 0u);
  EXPECT_EQ(Text(), WriteHeader(header_) + Row(0) + Row(1));
}

TEST_F(ResultFileTest, TouchesNoFileUnasked) {
  Run(Existing::kRefuse, 2);
  const std::string before = Text();
  EXPECT_THAT(ErrorOf(Existing::kRefuse), HasSubstr("--resume goes on with it"));
  EXPECT_EQ(Text(), before);
  EXPECT_EQ(Run(Existing::kReplace, 1), 0u);
  EXPECT_EQ(Text(), WriteHeader(header_) + Row(0));
}

// Cut off anywhere, a file is continued to the same bytes.
TEST_F(ResultFileTest, IsContinuedFromAnyByte) {
  Run(Existing::kRefuse, 3);
  const std::string whole = Text();
  for (std::size_t size = 0; size <= whole.size(); ++size) {
    Write(whole.substr(0, size));
    Run(Existing::kResume, 3);
    ASSERT_EQ(Text(), whole) << size;
  }
}

TEST_F(ResultFileTest, ResumesAFileThatIsNotThere) {
  EXPECT_EQ(Run(Existing::kResume, 2), 0u);
  EXPECT_EQ(Text(), WriteHeader(header_) + Row(0) + Row(1));
}

TEST_F(ResultFileTest, FilesOfOthersAreRefusedAndKept) {
  for (const std::string& text :
       {std::string("a,b\n1,2\n"), std::string("{\"schema\":\"stepsim.sweep/2\"}\n"),
        std::string("{\"schema\":\"stepsim.sweep/1\"}\n"), std::string("no line end"),
        std::string(100'000, '\0'), WriteHeader(header_) + Row(1),
        WriteHeader(header_) + Row(0) + Row(0), WriteHeader(header_) + "{\"index\":0,\"ax\n",
        WriteHeader(header_) + "\n"}) {
    Write(text);
    EXPECT_THAT(ErrorOf(Existing::kResume), HasSubstr("allowed")) << text;
    EXPECT_EQ(Text(), text);
  }
}

TEST_F(ResultFileTest, HeadersThatSayNothingAreNamed) {
  const std::string good = WriteHeader(header_);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  const std::pair<std::string, const char*> cases[] = {
      {with("[\"step_time_s\"]", "[]"), "found a header without axes or metrics"},
      {with("\"points\":10", "\"points\":-10"), "found no number of points"},
      {with("\"points\":10", "\"points\":1e30"), "found no number of points"},
      {with("\"points\":10", "\"points\":0"), "found 10 of 0 points"},
      {with("\"shard_points\":10", "\"shard_points\":11"), "found 11 of 10 points"}};
  for (const auto& [text, error] : cases) {
    Write(text);
    EXPECT_THAT(ErrorOf(Existing::kResume), HasSubstr(error)) << text;
    EXPECT_EQ(Text(), text);
  }
}

TEST_F(ResultFileTest, OtherSweepsAndShardsAreNamed) {
  ResultHeader other = header_;
  other.hash = "fedcba9876543210";
  Write(WriteHeader(other));
  EXPECT_THAT(ErrorOf(Existing::kResume), HasSubstr("found the rows of another sweep"));
  other = header_;
  other.shard = {2, 3};
  Write(WriteHeader(other));
  EXPECT_THAT(ErrorOf(Existing::kResume), HasSubstr("found shard 2/3, allowed: shard 1/1"));
  Write("{\"schema\":\"stepsim.sweep/2\"}\n");
  EXPECT_THAT(ErrorOf(Existing::kResume), HasSubstr("found the schema 'stepsim.sweep/2'"));
}

TEST_F(ResultFileTest, OneWriterAtATime) {
  auto first = std::make_unique<ResultFile>(path_, header_, Existing::kRefuse);
  first->SkipDone([](std::uint64_t) { return true; });
  const std::string before = Text();
  for (const Existing existing : {Existing::kRefuse, Existing::kResume, Existing::kReplace}) {
    EXPECT_THAT(ErrorOf(existing), HasSubstr("another process"));
  }
  EXPECT_EQ(Text(), before);
  first.reset();
  EXPECT_EQ(Run(Existing::kResume, 2), 0u);
}

TEST_F(ResultFileTest, AFullDeviceIsAnError) {
  ResultFile file("/dev/full", header_, Existing::kRefuse);
  try {
    file.SkipDone([](std::uint64_t) { return true; });
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("cannot write /dev/full: No space left on device"));
  }
}

// A disk that fills up: whole lines stay, and the sweep goes on from there.
TEST_F(ResultFileTest, AFullDiskLosesNothing) {
  ASSERT_NE(std::signal(SIGXFSZ, SIG_IGN), SIG_ERR);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = WriteHeader(header_).size() + 2 * Row(0).size() + 5;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  std::string message;
  try {
    Run(Existing::kRefuse, 4);
  } catch (const std::runtime_error& error) {
    message = error.what();
  }
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_THAT(message, HasSubstr("with --resume the sweep goes on"));
  EXPECT_EQ(Text(), WriteHeader(header_) + Row(0) + Row(1));
  EXPECT_EQ(Run(Existing::kResume, 4), 2u);
  EXPECT_EQ(Text(), WriteHeader(header_) + Row(0) + Row(1) + Row(2) + Row(3));
}

TEST(ResultHeader, IsReadAsItWasWritten) {
  ResultHeader header;
  header.sweep = "a \"b\"";
  header.hash = "1";
  header.version = "0.1.0";
  header.points = 12;
  header.shard = {2, 3};
  header.shard_points = 4;
  header.axes = {{"nodes", "", false}, {"hardware.gpu.memory", "bytes", true}};
  header.metrics = {"step_time_s"};
  header.curve = {"nodes", "step_time_s", {"hardware.gpu.memory"}};
  std::string line = WriteHeader(header);
  ASSERT_EQ(line.back(), '\n');
  line.pop_back();
  EXPECT_EQ(WriteHeader(ReadHeader(line, {})), line + "\n");
  EXPECT_EQ(ReadHeader(line, {}).axes[1].path, "hardware.gpu.memory");
}

TEST(ResultHeader, RowsBeginWithTheirIndex) {
  EXPECT_EQ(IndexOf("{\"index\":17,\"axes\":{}}"), 17u);
  for (const char* line : {"", "{}", "{\"index\":17", "{\"index\":17}", "{\"index\":x,}",
                           "{\"index\":-1,\"axes\":{}}", "{\"index\":1,\"axes\":{"}) {
    EXPECT_FALSE(IndexOf(line).has_value()) << line;
  }
}

}  // namespace
}  // namespace stepsim
