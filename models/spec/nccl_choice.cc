#include "models/spec/nccl_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cctype>

#include "sim/base/nearest.h"

namespace stepsim {
namespace {

using Names = std::span<const std::string_view>;

constexpr std::array<std::string_view, 9> kAlgorithms = {
    "tree",      "ring", "collnet_direct", "collnet_chain", "nvls",
    "nvls_tree", "pat",  "hierarchical",   "two_level"};
constexpr std::array<std::string_view, 3> kProtocols = {"ll", "ll128", "simple"};
constexpr std::array<std::string_view, 5> kCollectives = {"all_reduce", "all_gather",
                                                          "reduce_scatter", "broadcast", "reduce"};

std::string_view Trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// "NVLSTree", "nvls-tree" and "nvls_tree" are one name.
std::string Folded(std::string_view name) {
  std::string folded;
  for (const char c : name) {
    if (c == '_' || c == '-') continue;
    folded += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return folded;
}

class ListParser {
 public:
  explicit ListParser(Names names) : names_(names) {}

  NcclChoice Parse(std::string_view text) {
    while (!text.empty()) {
      const std::size_t end = std::min(text.find(';'), text.size());
      ParseList(Trim(text.substr(0, end)));
      text.remove_prefix(std::min(text.size(), end + 1));
    }
    return std::move(choice_);
  }

 private:
  void ParseList(std::string_view text) {
    NcclNameList list;
    if (const std::size_t colon = text.find(':'); colon != std::string_view::npos) {
      list.collective = Canonical(Trim(text.substr(0, colon)), kCollectives);
      text = Trim(text.substr(colon + 1));
    }
    for (const NcclNameList& other : choice_.lists) {
      if (other.collective != list.collective) continue;
      choice_.problems.push_back(list.collective.empty()
                                     ? "found two lists without a collective, allowed: one"
                                     : fmt::format("found two lists for {}", list.collective));
    }
    list.is_negated = !text.empty() && text.front() == '^';
    if (list.is_negated) text.remove_prefix(1);
    while (true) {
      const std::size_t end = std::min(text.find(','), text.size());
      list.names.push_back(Canonical(Trim(text.substr(0, end)), names_));
      if (end == text.size()) break;
      text.remove_prefix(end + 1);
    }
    choice_.lists.push_back(std::move(list));
  }

  std::string Canonical(std::string_view name, Names allowed) {
    const std::string folded = Folded(name);
    for (const std::string_view candidate : allowed) {
      if (Folded(candidate) == folded) return std::string(candidate);
    }
    const std::string nearest = Nearest(name, allowed);
    choice_.problems.push_back(
        fmt::format("found '{}', allowed: {}{}", name, fmt::join(allowed, ", "),
                    nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest)));
    return {};
  }

  Names names_;
  NcclChoice choice_;
};

}  // namespace

const NcclNameList* NcclChoice::ListFor(std::string_view collective) const {
  const NcclNameList* rest = nullptr;
  for (const NcclNameList& list : lists) {
    if (list.collective == collective) return &list;
    if (list.collective.empty()) rest = &list;
  }
  return rest;
}

NcclChoice ParseNcclAlgorithms(std::string_view text) {
  return ListParser(kAlgorithms).Parse(text);
}
NcclChoice ParseNcclProtocols(std::string_view text) { return ListParser(kProtocols).Parse(text); }

std::optional<NcclRelease> ParseNcclRelease(std::string_view text) {
  if (!text.empty() && text.back() == '+') text.remove_suffix(1);
  std::array<int, 3> numbers{};
  std::size_t count = 0;
  std::size_t digits = 0;
  for (const char c : text) {
    if (c == '.') {
      if (digits == 0 || ++count == numbers.size()) return std::nullopt;
      digits = 0;
    } else if (c >= '0' && c <= '9' && ++digits <= 4) {
      numbers[count] = numbers[count] * 10 + (c - '0');
    } else {
      return std::nullopt;
    }
  }
  if (count == 0 || digits == 0) return std::nullopt;
  return NcclRelease{numbers[0], numbers[1]};
}

std::span<const std::string_view> NcclAlgorithmNames() { return kAlgorithms; }
std::span<const std::string_view> NcclProtocolNames() { return kProtocols; }

}  // namespace stepsim
