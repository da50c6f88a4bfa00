#include "tests/support/shipped.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>

#include "sim/metrics/critical_path.h"

namespace stepsim::testing {

std::string RepositoryPath(const std::string& path) {
  return std::string(STEPSIM_SOURCE_DIR) + "/" + path;
}

std::string ReadRepositoryFile(const std::string& path) {
  std::ifstream file(RepositoryPath(path), std::ios::binary);
  EXPECT_TRUE(file.is_open()) << path;
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

DirectoryConfigSource ShippedConfigs() { return DirectoryConfigSource(RepositoryPath("configs")); }

ResolvedJob LoadShipped(const std::string& job, const std::vector<std::string>& sets) {
  return LoadJob(job, sets, ShippedConfigs());
}

ResolvedJob LoadText(const std::string& text, const std::vector<std::string>& sets) {
  return LoadJobText(text, "job.yaml", sets, ShippedConfigs());
}

void ExpectIdentity(const StepReport& report) {
  for (const RankAccount& rank : report.ranks) {
    Duration exposed{};
    for (const Duration site : rank.exposed) exposed += site;
    EXPECT_EQ(rank.step, rank.compute + rank.contention + exposed + rank.peer_wait + rank.bubble +
                             rank.host + rank.idle);
    EXPECT_EQ(rank.step, report.window.length());
  }
}

void ExpectPathTilesStep(const TaskGraph& graph, const Timeline& timeline,
                         const StepReport& report) {
  SimTime covered = report.window.begin;
  for (const PathPiece& piece : StepPath(graph, timeline, report.window)) {
    EXPECT_EQ(piece.begin, covered) << graph.label(piece.task).name;
    EXPECT_GT(piece.end, piece.begin) << graph.label(piece.task).name;
    covered = piece.end;
  }
  EXPECT_EQ(covered, report.window.end);
}

std::string PlainName(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace_if(
      name.begin(), name.end(),
      [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
}

}  // namespace stepsim::testing
