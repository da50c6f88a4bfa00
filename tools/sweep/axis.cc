#include "tools/sweep/axis.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <utility>

#include "models/study/step_condition.h"
#include "sim/base/units.h"
#include "sim/config/read_config.h"
#include "sim/report/text_buffer.h"
#include "tools/sweep/json_text.h"

namespace stepsim {
namespace {

constexpr double kTolerance = 1e-9;  // of a range's end

std::string_view Trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// Commas outside of quotes, brackets and braces.
std::vector<std::string_view> SplitItems(std::string_view text) {
  std::vector<std::string_view> items;
  int depth = 0;
  char quote = '\0';
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != '\0') {
      if (c == quote) quote = '\0';
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if (c == ']' || c == '}') {
      --depth;
    } else if (c == ',' && depth == 0) {
      items.push_back(text.substr(begin, i - begin));
      begin = i + 1;
    }
  }
  items.push_back(text.substr(begin));
  return items;
}

std::vector<std::string_view> SplitColons(std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::size_t at = text.find(':'); at != std::string_view::npos; at = text.find(':')) {
    parts.push_back(Trim(text.substr(0, at)));
    text.remove_prefix(at + 1);
  }
  parts.push_back(Trim(text));
  return parts;
}

// 15 digits: what is left of 0.1 + 0.1 + 0.1 beyond them is rounding.
double Rounded(double value) { return ParseNumber(fmt::format("{:.15g}", value)).value_or(value); }

class AxisReader {
 public:
  AxisReader(Axis& axis, Diagnostics& problems) : axis_(axis), problems_(problems) {}

  void Read(const ConfigNode& node) {
    if (node.IsSequence()) {
      for (const ConfigNode& item : node.items) AddItem(item);
    } else if (node.IsScalar()) {
      AddText(node);
    } else if (node.IsMapping()) {
      AddValue(node);
    }
    if (axis_.values.empty() && problems_.empty()) {
      Refuse(node.place, fmt::format("found no value, allowed: {}", Grammar()));
    }
  }

 private:
  bool IsNumeric() const {
    const FieldKind kind = axis_.field.row().kind;
    return kind == FieldKind::kInteger || kind == FieldKind::kNumber;
  }
  Unit unit() const { return axis_.field.row().unit; }

  std::string Grammar() const {
    if (!IsNumeric()) return "a list of values";
    if (unit() == Unit::kNone) return "a list such as 1,2,8, or ranges such as 1:64:x2 and 8:64:+8";
    return fmt::format(
        "a list such as {}, or ranges of such values, START:END:x2 or START:END:+STEP",
        UnitExample(unit()));
  }

  void Refuse(const Place& place, const std::string& message) {
    problems_.Add(place, fmt::format("{}: {}", axis_.field.path(), message));
  }

  void AddText(const ConfigNode& node) {
    for (const std::string_view text : SplitItems(node.text)) {
      if (Trim(text).empty()) {
        Refuse(node.place, fmt::format("found nothing between commas, allowed: {}", Grammar()));
        return;
      }
      if (IsNumeric() && text.find(':') != std::string_view::npos &&
          text.find_first_of("{[\"'") == std::string_view::npos) {  // "1:" is a mapping in YAML
        AddItem(MakePlain(std::string(Trim(text)), node.place));
        continue;
      }
      try {
        AddItem(ReadSetValue(Trim(text), node.place));
      } catch (const ConfigError& error) {
        for (const Diagnostic& d : error.diagnostics()) Refuse(node.place, d.message);
      }
    }
  }

  void AddItem(const ConfigNode& node) {
    const bool is_range = IsNumeric() && node.IsScalar() && !node.is_quoted &&
                          node.text.find(':') != std::string::npos;
    if (is_range) {
      AddRange(node);
    } else {
      AddValue(node);
    }
  }

  void AddValue(const ConfigNode& node) {
    if (axis_.values.size() >= kMostPoints) return RefuseCount(node.place);
    const std::size_t before = problems_.list().size();
    const FieldValue value = axis_.field.Read(node, problems_);
    if (problems_.list().size() != before) return;
    AxisValue added;
    added.set = SetText(node);
    added.value = axis_.field.IsReference() && node.IsScalar() ? ConditionValue(node.text)
                                                               : ToConditionValue(value);
    const bool is_number = node.IsScalar() && IsNumeric() && unit() == Unit::kNone;
    added.label = node.IsScalar() ? node.text : node.IsNull() ? "null" : added.set;
    added.json = is_number ? JsonNumber(std::get<double>(added.value))
                 : std::holds_alternative<bool>(added.value) || !node.IsScalar()
                     ? added.set
                     : QuoteJson(node.text);
    axis_.values.push_back(std::move(added));
  }

  void RefuseCount(const Place& place) {
    if (!problems_.empty()) return;
    Refuse(place,
           fmt::format("found more than {} values, allowed: at most that many", kMostPoints));
  }

  // ---- Ranges ----

  std::optional<double> Number(const ConfigNode& node, std::string_view text) {
    const ParsedQuantity parsed = ParseQuantity(text, unit());
    if (parsed.ok()) return parsed.value;
    Refuse(node.place, fmt::format("'{}': {}", node.text, parsed.error));
    return std::nullopt;
  }

  void AddRange(const ConfigNode& node) {
    const std::vector<std::string_view> parts = SplitColons(node.text);
    if (parts.size() != 3 || parts[2].empty()) {
      return Refuse(node.place,
                    fmt::format("found '{}', allowed: START:END:xFACTOR or "
                                "START:END:+STEP, for example {}",
                                node.text, unit() == Unit::kNone ? "1:64:x2" : "25MiB:1GiB:x2"));
    }
    const auto low = Number(node, parts[0]), high = Number(node, parts[1]);
    if (!low || !high) return;
    std::string_view step = parts[2];
    if (step.front() == 'x' || step.front() == '*') {
      const auto factor = ParseNumber(Trim(step.substr(1)));
      if (!factor) {
        return Refuse(node.place,
                      fmt::format("found the step '{}', allowed: a factor such as x2", step));
      }
      return AddMultiples(node, *low, *high, *factor);
    }
    const bool is_down = step.front() == '-';
    if (is_down || step.front() == '+') step.remove_prefix(1);
    if (const auto width = Number(node, Trim(step))) {
      AddSteps(node, *low, *high, is_down ? -*width : *width);
    }
  }

  void RefuseEndless(const ConfigNode& node) {
    Refuse(node.place, fmt::format("found '{}', which never reaches its end, allowed: a step that "
                                   "leads from the start to the end",
                                   node.text));
  }

  void AddSteps(const ConfigNode& node, double low, double high, double width) {
    const double count = std::floor((high - low) / width + kTolerance) + 1;
    if (!(count >= 1) || !std::isfinite(count)) return RefuseEndless(node);
    if (count > static_cast<double>(kMostPoints)) return RefuseCount(node.place);
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      AddNumber(node, low + static_cast<double>(i) * width, high);
      if (!problems_.empty()) return;
    }
  }

  void AddMultiples(const ConfigNode& node, double low, double high, double factor) {
    const bool is_up = factor > 1 && high >= low && low > 0;
    const bool is_down = factor > 0 && factor < 1 && high <= low && high > 0;
    if (!is_up && !is_down) return RefuseEndless(node);
    const double count = std::log(high / low) / std::log(factor);
    if (count > static_cast<double>(kMostPoints)) return RefuseCount(node.place);
    for (double value = low;
         is_up ? value <= high * (1 + kTolerance) : value >= high * (1 - kTolerance);
         value *= factor) {
      if (axis_.values.size() >= kMostPoints) return RefuseCount(node.place);
      AddNumber(node, value, high);
      if (!problems_.empty()) return;
    }
  }

  void AddNumber(const ConfigNode& node, double value, double high) {
    value = std::abs(value - high) <= kTolerance * std::abs(high) ? high : Rounded(value);
    if (unit() == Unit::kBytes) value = std::round(value);
    if (axis_.field.row().kind == FieldKind::kInteger && value != std::floor(value)) {
      if (problems_.empty()) {
        Refuse(node.place,
               fmt::format("'{}' leads to {}, allowed: whole numbers", node.text, value));
      }
      return;
    }
    const bool is_whole = std::abs(value) < 1e15 && value == std::floor(value);
    const std::string text = unit() != Unit::kNone ? Quantity(value, node.text)
                             : is_whole            ? fmt::format("{:.0f}", value)
                                                   : fmt::format("{}", value);
    if (problems_.empty()) AddValue(MakePlain(text, node.place));
  }

  // In the unit of the range's start, where that is exact.
  std::string Quantity(double value, std::string_view range) const {
    std::string_view start = Trim(range.substr(0, range.find(':')));
    const std::size_t letter = start.find_last_of("0123456789. ");
    const std::string_view name = start.substr(letter == std::string_view::npos ? 0 : letter + 1);
    const ParsedQuantity one = ParseQuantity(fmt::format("1 {}", name), unit());
    if (one.ok() && one.value > 0) {
      std::string text = fmt::format("{:.15g} {}", value / one.value, name);
      const ParsedQuantity back = ParseQuantity(text, unit());
      if (back.ok() && back.value == value) return text;
    }
    return WriteQuantity(value, unit());
  }

  Axis& axis_;
  Diagnostics& problems_;
};

}  // namespace

Axis ReadAxis(std::string_view path, const Place& path_place, const ConfigNode& node) {
  Axis axis{FindJobField(path, path_place), {}};
  Diagnostics problems;
  AxisReader(axis, problems).Read(node.IsNull() ? MakePlain("", path_place) : node);
  problems.ThrowIfAny();
  return axis;
}

ConfigNode VaryNode(std::string_view text, const Place& place) {
  const bool is_list = !text.empty() && text.front() == '[';
  return is_list ? ReadSetValue(text, place) : MakePlain(std::string(text), place);
}

std::string SetText(const ConfigNode& node) {
  if (node.IsNull()) return "null";
  if (node.IsScalar()) return node.is_quoted ? QuoteJson(node.text) : node.text;
  std::string text;
  bool in_text = false, is_escaped = false;
  for (const char c : WriteJson(node)) {  // on one line
    if (c == '"' && !is_escaped) in_text = !in_text;
    is_escaped = in_text && c == '\\' && !is_escaped;
    if (c == '\n') continue;
    if (c == ' ' && !in_text &&
        (text.empty() || text.back() == ' ' || text.back() == '[' || text.back() == '{')) {
      continue;
    }
    text += c;
  }
  return text;
}

}  // namespace stepsim
