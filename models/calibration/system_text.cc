#include "models/calibration/system_text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <vector>

#include "sim/base/units.h"

namespace stepsim {
namespace {

struct WordKind {
  std::string_view begin;  // of a word
  std::string_view kind;
  double gigabits = 0;  // the rate that the word implies where none is said
};
// The first row that fits decides, so what is special stands before what is general.
constexpr std::array kTransports = {
    WordKind{"efa", "efa"},
    WordKind{"tcpxo", "tcpxo"},
    WordKind{"tcpx", "tcpx"},
    WordKind{"slingshot", "slingshot"},
    WordKind{"omni", "omnipath"},
    WordKind{"opa", "omnipath"},
    WordKind{"roce", "roce"},
    WordKind{"gib", "roce"},
    WordKind{"spectrum", "roce"},
    WordKind{"xdr", "infiniband", 800},
    WordKind{"ndr", "infiniband", 400},
    WordKind{"hdr", "infiniband", 200},
    WordKind{"edr", "infiniband", 100},
    WordKind{"fdr", "infiniband", 56},
    WordKind{"ib", "infiniband"},
    WordKind{"infiniband", "infiniband"},
    WordKind{"bluefield", "roce"},
    WordKind{"connectx", "roce"},
    WordKind{"mlx5", "roce"},
    WordKind{"ethernet", "ethernet"},
    WordKind{"tcp", "ethernet"},
    WordKind{"socket", "ethernet"},
};

struct PcieGeneration {
  std::string_view word;
  double gigabytes;
};
constexpr std::array kPcie = {
    // 16 lanes, per direction
    PcieGeneration{"pcie3", 16e9},
    PcieGeneration{"pcie4", 32e9},
    PcieGeneration{"pcie5", 64e9},
    PcieGeneration{"pcie6", 128e9},
};

constexpr std::int64_t kGpusPerTray = 4;
constexpr std::int64_t kMostNics = 100'000;
constexpr double kMostGigabits = 1e6;

std::vector<std::string> SplitWords(std::string_view words) {
  std::vector<std::string> list;
  std::size_t begin = 0;
  while (begin < words.size()) {
    const std::size_t end = std::min(words.find(' ', begin), words.size());
    if (end > begin) list.emplace_back(words.substr(begin, end - begin));
    begin = end + 1;
  }
  return list;
}

// "8x2x100g" -> 16 NICs of 100 Gb/s; "200g" -> 1 of 200.
struct Rate {
  std::int64_t count = 1;
  double gigabits = 0;
};
std::optional<Rate> ParseRate(std::string_view word) {
  if (word.size() < 2 || word.back() != 'g') return std::nullopt;
  word.remove_suffix(1);
  Rate rate;
  while (true) {
    const std::size_t end = std::min(word.find('x'), word.size());
    const auto number = ParseInteger(word.substr(0, end));
    if (!number || *number < 1) return std::nullopt;
    if (end == word.size()) {
      rate.gigabits = static_cast<double>(*number);
      return rate.gigabits <= kMostGigabits ? std::optional(rate) : std::nullopt;
    }
    if (*number > kMostNics || rate.count > kMostNics / *number) return std::nullopt;
    rate.count *= *number;
    word.remove_prefix(end + 1);
  }
}

// "100-200G" is a guess between two, no statement.
bool IsEndOfRange(std::string_view text, std::string_view word) {
  const std::string end = "-" + std::string(word.substr(0, word.size() - 1));
  const std::size_t at = text.find(end);
  return at != std::string_view::npos && at > 0 && text[at - 1] >= '0' && text[at - 1] <= '9';
}

bool IsMemoryOrForm(std::string_view word) {
  if (word == "pcie" || word == "nvl" || word == "hgx" || word == "class") return true;
  if (word.substr(0, 3) == "sxm") return true;
  return word.size() > 2 && word.substr(word.size() - 2) == "gb" &&
         ParseInteger(word.substr(0, word.size() - 2)).has_value();
}

}  // namespace

std::string Words(std::string_view text) {
  std::string words;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      words += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (!words.empty() && words.back() != ' ') {
      words += ' ';
    }
  }
  return words;
}

bool HasWordBeginning(std::string_view words, std::string_view begin) {
  for (std::size_t at = words.find(begin); at != std::string_view::npos;
       at = words.find(begin, at + 1)) {
    if (at == 0 || words[at - 1] == ' ') return true;
  }
  return false;
}

bool HasWord(std::string_view words, std::string_view word) {
  for (std::size_t at = words.find(word); at != std::string_view::npos;
       at = words.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || words[at - 1] == ' ') && (end == words.size() || words[end] == ' ')) {
      return true;
    }
  }
  return false;
}

NicText ParseNic(std::string_view text, std::int64_t gpus_per_node) {
  const std::string words = Words(text);
  NicText nic;
  nic.is_none = words.empty() || words == "none" || words == "none ";
  double implied = 0;
  for (const WordKind& row : kTransports) {
    if (!HasWordBeginning(words, row.begin)) continue;
    if (nic.transport.empty()) nic.transport = row.kind;
    if (implied == 0 && row.kind == nic.transport) implied = row.gigabits;
  }
  // "NCCL_IB_DISABLE=1": the verbs of the card stay unused.
  if (words.find("ib disable 1") != std::string::npos) nic.transport = "ethernet";
  const std::vector<std::string> list = SplitWords(words);
  for (std::size_t i = 0; i < list.size() && nic.bandwidth.value == 0; ++i) {
    const auto rate = ParseRate(list[i]);
    if (!rate || IsEndOfRange(text, list[i])) continue;
    nic.count = rate->count;
    nic.bandwidth = Bandwidth{rate->gigabits * 1e9 / 8};
  }
  if (nic.bandwidth.value == 0) nic.bandwidth = Bandwidth{implied * 1e9 / 8};
  if (words.find("per gpu") != std::string::npos) nic.count = gpus_per_node;
  if (HasWord(words, "tray") && nic.count > 0) {
    nic.count *= std::max<std::int64_t>(1, gpus_per_node / kGpusPerTray);
  }
  for (std::size_t i = 0; i + 1 < list.size() && nic.count == 0; ++i) {
    if (list[i + 1] == "rails") nic.count = ParseInteger(list[i]).value_or(0);
  }
  return nic;
}

FabricText ParseFabric(std::string_view text) {
  const std::string words = Words(text);
  FabricText fabric;
  if (HasWordBeginning(words, "pcie") || HasWord(words, "shm")) {
    fabric.type = "pcie";
    for (const PcieGeneration& row : kPcie) {
      if (HasWordBeginning(words, row.word)) fabric.bandwidth = Bandwidth{row.gigabytes};
    }
  } else if (HasWordBeginning(words, "nv") || HasWord(words, "mnnvl")) {
    fabric.type = "nvlink";
    fabric.is_cube_mesh = HasWord(words, "mesh");
    fabric.is_multi_node = HasWord(words, "mnnvl");
  }
  return fabric;
}

std::string GpuModel(std::string_view name) {
  std::string_view head = name.substr(0, name.find('('));
  head = head.substr(0, head.find(" or "));
  std::string model;
  for (const std::string& word : SplitWords(Words(head))) {
    if (!IsMemoryOrForm(word)) model += word;
  }
  return model;
}

}  // namespace stepsim
