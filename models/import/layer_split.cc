#include "models/import/layer_split.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "sim/base/units.h"

namespace stepsim {
namespace {

constexpr std::size_t kMostStages = 10'000;
constexpr std::size_t kLongestLayout = 100'000;  // with its repetitions written out

StageLayers Problem(std::string text) { return {{}, std::move(text)}; }

// The layers of one rank of each kind; the ends as they are counted.
StageLayers LayersOfRanks(const MegatronSplit& split) {
  std::int64_t left = split.layers + (split.counts_embedding ? 1 : 0) + (split.counts_loss ? 1 : 0);
  std::int64_t others = split.ranks;
  for (const auto& told : {split.first, split.last}) {
    if (!told) continue;
    left -= *told;
    --others;
  }
  if (others < 0) return Problem("found a first and a last rank, allowed: one of them on one rank");
  if (left < 0 || (others == 0 ? left > 0 : left % others != 0)) {
    return Problem(
        fmt::format("found {} layers for the {} other pipeline ranks, allowed: {}", left, others,
                    others == 0 ? "none that are left over" : "as many for each of them"));
  }
  const std::int64_t each = others == 0 ? 0 : left / others;
  std::vector<std::int64_t> ranks(static_cast<std::size_t>(split.ranks), each);
  if (split.first) ranks.front() = *split.first;
  if (split.last) ranks.back() = *split.last;
  return {std::move(ranks), ""};
}

// Repetitions written out; a problem for what has no end.
class LayoutReader {
 public:
  explicit LayoutReader(std::string_view text) : text_(text) {}

  // false: longer than allowed.
  bool Expand(std::string* out) {
    while (at_ < text_.size()) {
      std::string piece(1, text_[at_++]);
      if (piece == "(") {
        const std::size_t end = text_.find(')', at_);
        if (end != std::string_view::npos && IsTimes(end + 1)) {
          const std::string_view inner = text_.substr(at_, end - at_);
          at_ = end + 1;
          piece.clear();
          if (!LayoutReader(inner).Expand(&piece)) return false;
        }
      }
      const std::size_t times = IsTimes(at_) ? ReadTimes() : 1;
      if (out->size() + piece.size() * times > kLongestLayout) return false;
      for (std::size_t i = 0; i < times; ++i) *out += piece;
    }
    return true;
  }

 private:
  static bool IsDigit(char c) { return c >= '0' && c <= '9'; }
  bool IsTimes(std::size_t at) const {
    return at + 1 < text_.size() && text_[at] == '*' && IsDigit(text_[at + 1]);
  }
  std::size_t ReadTimes() {
    std::size_t times = 0;
    for (++at_; at_ < text_.size() && IsDigit(text_[at_]); ++at_) {
      times = std::min(times * 10 + static_cast<std::size_t>(text_[at_] - '0'), kLongestLayout + 1);
    }
    return times;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

// A letter that has no place there; "" when all have.
std::string ProblemOfLetters(const std::string& layout) {
  const std::size_t wrong = layout.find_first_not_of("EtL|");
  if (wrong != std::string::npos && layout[wrong] == 'm') {
    return "found 'm', multi-token prediction, which is not simulated, allowed: E, t, L, |";
  }
  if (wrong != std::string::npos) {
    return fmt::format("found '{}', allowed: E, t, m, L, |, and *N behind a letter or brackets",
                       layout[wrong]);
  }
  const auto count = [&](char c) { return std::count(layout.begin(), layout.end(), c); };
  if (layout.empty() || layout.front() != 'E' || layout.back() != 'L' || count('E') != 1 ||
      count('L') != 1) {
    return "found another order, allowed: one E at the very beginning, one L at the very end";
  }
  return "";
}

// The number of "layers.7"; no layer's name has none.
std::optional<std::int64_t> LayerOf(std::string_view name) {
  constexpr std::string_view kStem = "layers.";
  if (name.substr(0, kStem.size()) != kStem) return std::nullopt;
  return ParseInteger(name.substr(kStem.size()));
}

}  // namespace

StageLayers DealMegatron(const MegatronSplit& split) {
  const auto stages = static_cast<std::size_t>(split.ranks * split.chunks);
  if (stages > kMostStages) {
    return Problem(fmt::format("found {} stages, allowed: at most {}", stages, kMostStages));
  }
  StageLayers ranks = LayersOfRanks(split);
  if (!ranks.problem.empty()) return ranks;
  StageLayers result;
  for (std::int64_t chunk = 0; chunk < split.chunks; ++chunk) {
    for (const std::int64_t layers : ranks.layers) {
      if (layers % split.chunks != 0) {
        return Problem(
            fmt::format("found {} layers on a pipeline rank of {} chunks, allowed: a "
                        "multiple of {}",
                        layers, split.chunks, split.chunks));
      }
      result.layers.push_back(layers / split.chunks);
    }
  }
  if (split.counts_embedding) --result.layers.front();
  if (split.counts_loss) --result.layers.back();
  return result;
}

StageLayers ReadMegatronLayout(std::string_view text, std::int64_t layers) {
  std::string compact;
  std::copy_if(text.begin(), text.end(), std::back_inserter(compact),
               [](char c) { return c != ','; });
  std::string layout;
  if (!LayoutReader(compact).Expand(&layout)) {
    return Problem(fmt::format("found more than {} letters, allowed: fewer", kLongestLayout));
  }
  if (std::string problem = ProblemOfLetters(layout); !problem.empty()) return Problem(problem);
  StageLayers result{{0}, ""};
  for (const char c : layout) {
    if (c == 't') ++result.layers.back();
    if (c == '|') result.layers.push_back(0);
  }
  const std::int64_t found = std::count(layout.begin(), layout.end(), 't');
  if (found != layers) {
    return Problem(
        fmt::format("found {} layers, allowed: {}, as --num-layers says", found, layers));
  }
  if (result.layers.size() > kMostStages) {
    return Problem(
        fmt::format("found {} stages, allowed: at most {}", result.layers.size(), kMostStages));
  }
  return result;
}

StageLayers DealTorchtitan(const TorchtitanSplit& split) {
  const std::int64_t weight = split.layers + split.first_less + split.last_less;
  const std::int64_t each = weight / split.stages, more = weight % split.stages;
  const std::int64_t heaviest = std::max(split.first_less, split.last_less);
  if (split.stages > static_cast<std::int64_t>(kMostStages)) {
    return Problem(fmt::format("found {} stages, allowed: at most {}", split.stages, kMostStages));
  }
  if (each == 0 || heaviest > each) {
    return Problem(
        fmt::format("found {} stages for {} layers of which the ends take {} and {}, "
                    "allowed: fewer stages; each has {}",
                    split.stages, weight, split.first_less, split.last_less, each));
  }
  StageLayers result;
  for (std::int64_t s = 0; s < split.stages; ++s) {
    result.layers.push_back(each + (s < more ? 1 : 0));
  }
  result.layers.front() -= split.first_less;
  result.layers.back() -= split.last_less;
  return result;
}

StageLayers ReadModuleNames(const std::vector<std::vector<std::string>>& stages) {
  StageLayers result;
  std::int64_t next = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    result.layers.push_back(0);
    for (const std::string& name : stages[s]) {
      const bool is_embedding = name == "tok_embeddings";
      const bool is_head = name == "norm" || name == "output";
      if ((is_embedding && s == 0) || (is_head && s + 1 == stages.size())) continue;
      if (LayerOf(name) != next) {
        return Problem(
            fmt::format("found '{}' in part {}, allowed: tok_embeddings in the first, "
                        "layers.0, layers.1, ... in their order, norm and output in the "
                        "last",
                        name, s));
      }
      ++next;
      ++result.layers.back();
    }
  }
  return result;
}

StageLayers ReadSplitPoints(const std::vector<std::string>& points, std::int64_t layers) {
  StageLayers result;
  std::int64_t begin = 0;
  for (const std::string& point : points) {
    const std::optional<std::int64_t> layer = LayerOf(point);
    if (!layer || *layer <= begin || *layer >= layers) {
      return Problem(
          fmt::format("found '{}', allowed: layers.N, each behind the one before, below "
                      "the {} layers of the model",
                      point, layers));
    }
    result.layers.push_back(*layer - begin);
    begin = *layer;
  }
  result.layers.push_back(layers - begin);
  return result;
}

}  // namespace stepsim
