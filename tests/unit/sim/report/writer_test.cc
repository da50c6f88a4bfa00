#include "sim/report/writer.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <stdexcept>
#include <string>

#include "sim/report/gzip_sink.h"
#include "tests/support/report_fixture.h"
#include "tests/support/timeline_fixture.h"

namespace stepsim {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::TwoRankStep;

constexpr Writer kHello{".txt", "a greeting",
                        [](const Result&, const Sink& sink) { sink("hello\n"); }};
constexpr Writer kBroken{".txt", "fails halfway", [](const Result&, const Sink& sink) {
                           sink("half");
                           throw std::runtime_error("no more");
                         }};

std::string ReadFile(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string Gunzip(const fs::path& path) {
  gzFile file = gzopen(path.c_str(), "rb");
  std::string text;
  char buffer[4096];
  for (int n; (n = gzread(file, buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<std::size_t>(n));
  }
  EXPECT_EQ(gzclose(file), Z_OK);  // also reports a file that was cut off
  return text;
}

std::string WriteToText(const Writer& writer, const Result& result) {
  std::string text;
  writer.write(result, [&text](std::string_view piece) { text += piece; });
  return text;
}

// A folder of its own for each test, removed afterwards.
class WriteFile : public ::testing::Test {
 protected:
  WriteFile() {
    const ::testing::TestInfo* test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(::testing::TempDir()) / fmt::format("stepsim_{}_{}", test->name(), getpid());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~WriteFile() override { fs::remove_all(folder_); }

  std::string Path(const std::string& name) const { return (folder_ / name).string(); }
  void Write(const std::string& name, const Writer& writer) const {
    const TaskGraph graph;
    const Timeline timeline;
    WriteFileAtomically(Path(name), writer, {graph, timeline, report_});
  }
  std::string ErrorOf(const std::string& name, const Writer& writer) const {
    try {
      Write(name, writer);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  }
  std::set<std::string> Files() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      names.insert(entry.path().filename().string());
    }
    return names;
  }

  fs::path folder_;
  StepReport report_ = testing::HandMadeReport();
};

TEST(Writers, AreFoundByTheirLongestSuffix) {
  EXPECT_EQ(FindWriter("out/x.trace.json")->suffix, ".trace.json");
  EXPECT_EQ(FindWriter("x.trace.json.gz")->suffix, ".trace.json.gz");
  EXPECT_EQ(FindWriter("x.json")->suffix, ".json");
  EXPECT_EQ(FindWriter("a.trace/x.json")->suffix, ".json");
  EXPECT_EQ(FindWriter("x.csv")->suffix, ".csv");
  EXPECT_EQ(FindWriter("x.md")->suffix, ".md");
  EXPECT_EQ(FindWriter("x.jsn"), nullptr);
  EXPECT_EQ(FindWriter("x.json.gz"), nullptr);
  EXPECT_EQ(FindWriter(""), nullptr);
}

TEST(Writers, EveryRowIsFoundAndWrites) {
  testing::SimulatedStep step = TwoRankStep();
  step.report.context = testing::HandMadeReport().context;
  for (const Writer& writer : Writers()) {
    EXPECT_EQ(FindWriter("name" + std::string(writer.suffix)), &writer);
    EXPECT_FALSE(writer.doc.empty());
    EXPECT_EQ(writer.is_gzipped, writer.suffix.ends_with(".gz"));
    EXPECT_THAT(WriteToText(writer, step.result()), HasSubstr("\n")) << writer.suffix;
  }
}

TEST_F(WriteFile, AppearsComplete) {
  Write("x.txt", kHello);
  EXPECT_EQ(ReadFile(Path("x.txt")), "hello\n");
  EXPECT_EQ(Files(), std::set<std::string>{"x.txt"});
}

TEST_F(WriteFile, ReplacesTheOldFile) {
  std::ofstream(Path("x.txt")) << "a much longer text than the new one";
  Write("x.txt", kHello);
  EXPECT_EQ(ReadFile(Path("x.txt")), "hello\n");
}

TEST_F(WriteFile, AFailureLeavesTheOldFileAndNothingElse) {
  std::ofstream(Path("x.txt")) << "old";
  EXPECT_EQ(ErrorOf("x.txt", kBroken), "no more");
  EXPECT_EQ(ReadFile(Path("x.txt")), "old");
  EXPECT_EQ(ErrorOf("new.txt", kBroken), "no more");
  EXPECT_EQ(Files(), std::set<std::string>{"x.txt"});
}

TEST_F(WriteFile, AMissingFolderIsOneClearLine) {
  EXPECT_EQ(ErrorOf("missing/x.txt", kHello),
            "cannot write " + Path("missing/x.txt") + ": No such file or directory");
}

TEST_F(WriteFile, APathBelowAFileIsOneClearLine) {
  std::ofstream(Path("file")) << "old";
  EXPECT_EQ(ErrorOf("file/x.txt", kHello),
            "cannot write " + Path("file/x.txt") + ": Not a directory");
}

TEST_F(WriteFile, AFolderIsOneClearLine) {
  fs::create_directory(Path("folder.txt"));
  EXPECT_EQ(ErrorOf("folder.txt", kHello),
            "cannot write " + Path("folder.txt") + ": Is a directory");
}

// The device that is always full, where the system has it.
TEST_F(WriteFile, AFullDiskIsOneClearLine) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  fs::create_symlink("/dev/full", Path("x.txt"));
  EXPECT_EQ(ErrorOf("x.txt", kHello),
            "cannot write " + Path("x.txt") + ": No space left on device");
  EXPECT_EQ(Files(), std::set<std::string>{"x.txt"});
}

TEST_F(WriteFile, ADeviceIsNotReplaced) {
  fs::create_symlink("/dev/null", Path("null"));
  Write("null", kHello);
  EXPECT_TRUE(fs::is_symlink(Path("null")));
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(WriteFile, ALinkIsFollowed) {
  std::ofstream(Path("target.txt")) << "old";
  fs::create_symlink("target.txt", Path("link.txt"));
  Write("link.txt", kHello);
  EXPECT_TRUE(fs::is_symlink(Path("link.txt")));
  EXPECT_EQ(ReadFile(Path("target.txt")), "hello\n");
}

TEST_F(WriteFile, GzippedTraceIsTheTrace) {
  const testing::SimulatedStep step = TwoRankStep();
  const Writer& gzipped = *FindWriter("x.trace.json.gz");
  WriteFileAtomically(Path("a.trace.json.gz"), gzipped, step.result());
  EXPECT_EQ(Gunzip(Path("a.trace.json.gz")), WriteToText(gzipped, step.result()));
  WriteFileAtomically(Path("b.trace.json.gz"), gzipped, step.result());
  EXPECT_EQ(ReadFile(Path("a.trace.json.gz")), ReadFile(Path("b.trace.json.gz")));
}

// More than the buffers hold, in pieces of every kind.
TEST_F(WriteFile, GzipOfManyPieces) {
  std::string expected;
  std::ofstream file(Path("x.gz"), std::ios::binary);
  GzipSink gzip([&file](std::string_view piece) {
    file.write(piece.data(), static_cast<std::streamsize>(piece.size()));
  });
  std::uint32_t state = 1;
  for (std::size_t size : {0, 1, 70'000, 3, 1'000'000}) {
    std::string piece;
    for (std::size_t i = 0; i < size; ++i) {
      state = state * 1664525u + 1013904223u;  // hard to compress
      piece += static_cast<char>(state >> 24);
    }
    gzip.Append(piece);
    expected += piece;
  }
  gzip.Finish();
  file.close();
  EXPECT_EQ(Gunzip(Path("x.gz")), expected);
}

}  // namespace
}  // namespace stepsim
