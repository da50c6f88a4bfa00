#include "tools/stepsim/size_range.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>

namespace stepsim {
namespace {

constexpr double kDefaultFactor = 2;

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t at = text.find(separator); at != std::string_view::npos;
       at = text.find(separator)) {
    parts.push_back(text.substr(0, at));
    text.remove_prefix(at + 1);
  }
  parts.push_back(text);
  return parts;
}

std::string_view Trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

class RangeParser {
 public:
  RangeParser(std::string_view text, const RangeRule& rule, Diagnostics& diagnostics)
      : text_(text), rule_(rule), diagnostics_(diagnostics) {}

  std::vector<std::int64_t> Parse() {
    for (const std::string_view item : Split(text_, ',')) {
      if (!AddItem(Trim(item))) return {};
    }
    return std::move(values_);
  }

 private:
  bool IsBytes() const { return rule_.unit == Unit::kBytes; }
  const char* Noun() const { return IsBytes() ? " of bytes" : ""; }

  bool Refuse(const std::string& message) {
    constexpr std::size_t kLongest = 80;
    const bool is_long = text_.size() > kLongest;
    diagnostics_.Add(
        {fmt::format("{} {}{}", rule_.option, text_.substr(0, kLongest), is_long ? "..." : ""), 0,
         0},
        message);
    return false;
  }

  std::string Grammar() const {
    return IsBytes() ? "'1KiB:8GiB:x2', '64MB:256MB:+64MB' or a list such as '8KiB,1MiB'"
                     : "'1024:8192:x2', '1024:8192:+1024' or a list such as '1024,4096'";
  }

  bool AddItem(std::string_view item) {
    const std::vector<std::string_view> parts = Split(item, ':');
    if (parts.size() > 3) {
      return Refuse(
          fmt::format("found {} parts in '{}', allowed: {}", parts.size(), item, Grammar()));
    }
    const std::optional<std::int64_t> low = ParseValue(parts[0]);
    if (!low) return false;
    if (parts.size() == 1) return Add(*low);
    const std::optional<std::int64_t> high = ParseValue(parts[1]);
    if (!high) return false;
    if (*high < *low) {
      return Refuse(
          fmt::format("found '{}', allowed: a range that ends where it begins or above", item));
    }
    return AddRange(*low, *high, parts.size() == 3 ? Trim(parts[2]) : "");
  }

  bool AddRange(std::int64_t low, std::int64_t high, std::string_view step) {
    if (!step.empty() && step[0] == '+') {
      const std::optional<std::int64_t> width = ParseValue(step.substr(1));
      return width && AddSteps(low, high, *width);
    }
    if (step.empty()) return AddMultiples(low, high, kDefaultFactor);
    const std::optional<double> factor =
        step[0] == 'x' ? ParseNumber(Trim(step.substr(1))) : std::nullopt;
    if (!factor || !(*factor > 1) || !std::isfinite(*factor)) {
      return Refuse(
          fmt::format("found step '{}', allowed: a factor above 1 such as 'x2', or an "
                      "increment such as '{}'",
                      step, IsBytes() ? "+1MiB" : "+1024"));
    }
    return AddMultiples(low, high, *factor);
  }

  // 16, 32, 48: the last value is the largest that does not pass `high`.
  bool AddSteps(std::int64_t low, std::int64_t high, std::int64_t width) {
    for (std::int64_t value = low;; value += width) {
      if (!Add(value)) return false;
      if (value > high - width) return true;
    }
  }

  // Rounded to whole numbers, each only once.
  bool AddMultiples(std::int64_t low, std::int64_t high, double factor) {
    std::int64_t last = 0;
    for (double exact = static_cast<double>(low);; exact *= factor) {
      const auto value = static_cast<std::int64_t>(std::llround(exact));
      if (value > high) return true;
      if (value != last && !Add(value)) return false;
      if (++rounds_ > kMostRangePoints) return RefuseCount();
      last = value;
    }
  }

  bool Add(std::int64_t value) {
    if (values_.size() == kMostRangePoints) return RefuseCount();
    values_.push_back(value);
    return true;
  }

  bool RefuseCount() {
    return Refuse(fmt::format("found more than {} {}, allowed: at most that many", kMostRangePoints,
                              IsBytes() ? "sizes" : "values"));
  }

  std::optional<std::int64_t> ParseValue(std::string_view text) {
    text = Trim(text);
    const ParsedQuantity parsed = ParseQuantity(text, rule_.unit);
    if (text.empty()) {
      Refuse(fmt::format("found nothing where a value should be, allowed: {}", Grammar()));
    } else if (!parsed.ok()) {
      Refuse(parsed.error);
    } else if (parsed.value != std::floor(parsed.value) || parsed.value < 1 ||
               parsed.value > static_cast<double>(rule_.most)) {
      Refuse(
          fmt::format("found '{}', allowed: a whole number{} from 1 to {}", text, Noun(),
                      IsBytes() ? FormatBytes(Bytes{rule_.most}) : fmt::format("{}", rule_.most)));
    } else {
      return static_cast<std::int64_t>(parsed.value);
    }
    return std::nullopt;
  }

  std::string_view text_;
  const RangeRule& rule_;
  Diagnostics& diagnostics_;
  std::vector<std::int64_t> values_;
  std::size_t rounds_ = 0;
};

}  // namespace

std::vector<std::int64_t> ParseRange(std::string_view text, const RangeRule& rule,
                                     Diagnostics& diagnostics) {
  return RangeParser(text, rule, diagnostics).Parse();
}

}  // namespace stepsim
