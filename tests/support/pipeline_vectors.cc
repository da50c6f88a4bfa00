#include "tests/support/pipeline_vectors.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

namespace stepsim::testing {
namespace {

const char kFolder[] = STEPSIM_SOURCE_DIR "/tests/data/pp_vectors/";

const std::map<std::string, std::string>& ScheduleOfFamily() {
  static const std::map<std::string, std::string> names = {
      {"torch_gpipe", "gpipe"},
      {"torch_1f1b", "1f1b"},
      {"torch_interleaved1f1b", "interleaved_1f1b"},
      {"torch_interleavedzb", "zb1p"},
      {"torch_loopedbfs", "looped_bfs"},
      {"torch_zbv", "zbv"},
      {"torch_dualpipev", "dualpipev"},
      {"megatron_1f1b", "1f1b"},
      {"megatron_interleaved", "megatron_interleaved"},
      {"dualpipe", "dualpipe"},
      {"sailzb_zb1p", "zb1p"},
      {"sailzb_zb2p", "zb2p"},
      {"sailzb_zbv", "zbv_sail"},
  };
  return names;
}

// "torch_zbv_p4_m12": the words before the first _p<digit> are the family.
PipelineVector Parse(const std::string& name) {
  PipelineVector vector{name, "", {}};
  const std::size_t family_end = name.find("_p");
  vector.schedule = ScheduleOfFamily().at(name.substr(0, family_end));
  std::istringstream words(name.substr(family_end + 1));
  if (vector.schedule.rfind("zbv", 0) == 0 || vector.schedule == "dualpipev")
    vector.shape.chunks = 2;
  for (std::string word; std::getline(words, word, '_');) {
    const std::int32_t value = std::stoi(word.substr(1));
    if (word[0] == 'p') vector.shape.ranks = value;
    if (word[0] == 'v') vector.shape.chunks = value;
    if (word[0] == 'm') vector.shape.microbatches = value;
    if (word[0] == 'g') vector.shape.group = value;
  }
  if (vector.schedule == "looped_bfs") vector.shape.chunks = 2;
  return vector;
}

}  // namespace

std::vector<PipelineVector> PipelineVectors() {
  const std::string ending = "_compute.csv";
  std::vector<PipelineVector> vectors;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    const std::string file = entry.path().filename().string();
    if (file.size() < ending.size() || file.find("artifact") != std::string::npos) continue;
    const std::size_t stem = file.size() - ending.size();
    if (file.substr(stem) == ending) vectors.push_back(Parse(file.substr(0, stem)));
  }
  std::sort(vectors.begin(), vectors.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return vectors;
}

std::string ReadPipelineFile(const std::string& name) {
  std::ifstream file(kFolder + name, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::vector<std::string>> CellsOf(const std::string& csv) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(csv);
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    rows.emplace_back();
    std::istringstream cells(line);
    for (std::string cell; std::getline(cells, cell, ',');) {
      if (!cell.empty()) rows.back().push_back(cell);
    }
  }
  return rows;
}

}  // namespace stepsim::testing
