#include "sim/base/units.h"

#include <fast_float/fast_float.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "sim/base/nearest.h"

namespace stepsim {
namespace {

// value in base units = number * 10^power * factor. The factors are powers of two and the power of
// ten joins the number's own exponent before it is read, so that every value is rounded once.
struct Scale {
  std::string_view name;
  int power = 0;
  double factor = 1;

  double ToNumber(double value) const { return value / factor / std::pow(10.0, power); }
};

constexpr double kBit = 0.125;
constexpr double kKi = 1024;
constexpr double kMi = kKi * 1024;
constexpr double kGi = kMi * 1024;
constexpr double kTi = kGi * 1024;

// Ascending; where two units or spellings write a value equally short, the first is taken.
constexpr std::array kByteScales = {
    Scale{"B"},     Scale{"bytes"},       Scale{"byte"},   Scale{"kB", 3},
    Scale{"KB", 3}, Scale{"KiB", 0, kKi}, Scale{"MB", 6},  Scale{"MiB", 0, kMi},
    Scale{"GB", 9}, Scale{"GiB", 0, kGi}, Scale{"TB", 12}, Scale{"TiB", 0, kTi}};
constexpr std::array kBandwidthScales = {Scale{"B/s"},
                                         Scale{"kB/s", 3},
                                         Scale{"kb/s", 3, kBit},
                                         Scale{"kbit/s", 3, kBit},
                                         Scale{"kbps", 3, kBit},
                                         Scale{"MB/s", 6},
                                         Scale{"Mb/s", 6, kBit},
                                         Scale{"Mbit/s", 6, kBit},
                                         Scale{"Mbps", 6, kBit},
                                         Scale{"MiB/s", 0, kMi},
                                         Scale{"GB/s", 9},
                                         Scale{"Gb/s", 9, kBit},
                                         Scale{"Gbit/s", 9, kBit},
                                         Scale{"Gbps", 9, kBit},
                                         Scale{"GiB/s", 0, kGi},
                                         Scale{"TB/s", 12},
                                         Scale{"Tb/s", 12, kBit},
                                         Scale{"Tbit/s", 12, kBit},
                                         Scale{"Tbps", 12, kBit},
                                         Scale{"TiB/s", 0, kTi}};
constexpr std::array kTimeScales = {
    Scale{"ps", -12},     Scale{"ns", -9}, Scale{"us", -6}, Scale{"\u00b5s", -6},
    Scale{"\u03bcs", -6}, Scale{"ms", -3}, Scale{"s"}};
constexpr std::array kFlopRateScales = {
    Scale{"FLOP/s"},      Scale{"FLOPS"},      Scale{"MFLOP/s", 6},  Scale{"MFLOPS", 6},
    Scale{"GFLOP/s", 9},  Scale{"GFLOPS", 9},  Scale{"TFLOP/s", 12}, Scale{"TFLOPS", 12},
    Scale{"PFLOP/s", 15}, Scale{"PFLOPS", 15}, Scale{"EFLOP/s", 18}, Scale{"EFLOPS", 18}};
constexpr std::array kFlopScales = {Scale{"FLOP"},      Scale{"FLOPs"},      Scale{"kFLOP", 3},
                                    Scale{"MFLOP", 6},  Scale{"MFLOPs", 6},  Scale{"GFLOP", 9},
                                    Scale{"GFLOPs", 9}, Scale{"TFLOP", 12},  Scale{"TFLOPs", 12},
                                    Scale{"PFLOP", 15}, Scale{"PFLOPs", 15}, Scale{"EFLOP", 18}};

struct UnitInfo {
  std::span<const Scale> scales;
  std::string_view base;
  std::string_view example;
  std::string_view noun;   // "a size"
  std::string_view units;  // the spellings worth showing in a message
};

UnitInfo InfoOf(Unit unit) {
  switch (unit) {
    case Unit::kBytes:
      return {kByteScales, "bytes", "25 MiB", "a size", "B, kB, MB, GB, TB, KiB, MiB, GiB, TiB"};
    case Unit::kBandwidth:
      return {kBandwidthScales, "bytes/s", "400 Gb/s", "a bandwidth",
              "MB/s, GB/s, GiB/s, TB/s, Mb/s, Gb/s, Gbit/s, Gbps; b is a bit, B a byte"};
    case Unit::kTime:
      return {kTimeScales, "s", "5 us", "a time", "ps, ns, us, ms, s"};
    case Unit::kFlopRate:
      return {kFlopRateScales, "FLOP/s", "312 TFLOP/s", "a rate", "GFLOP/s, TFLOP/s, PFLOP/s"};
    case Unit::kFlops:
      return {kFlopScales, "FLOP", "236 MFLOP", "an amount of work", "FLOP, MFLOP, GFLOP, TFLOP"};
    case Unit::kNone:
      break;
  }
  return {{}, "", "1.5", "a number", ""};
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsSpace(char c) { return c == ' ' || c == '\t'; }

std::string_view Trim(std::string_view text) {
  while (!text.empty() && IsSpace(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsSpace(text.back())) text.remove_suffix(1);
  return text;
}

// Digits with single underscores between them, appended to `plain` without the underscores.
std::size_t TakeDigits(std::string_view text, std::string& plain) {
  std::size_t i = 0;
  while (i < text.size()) {
    const bool joins = text[i] == '_' && i > 0 && i + 1 < text.size() && IsDigit(text[i + 1]);
    if (!IsDigit(text[i]) && !joins) break;
    if (!joins) plain += text[i];
    ++i;
  }
  return i;
}

struct NumberPrefix {
  std::string mantissa;  // as fast_float reads it
  int exponent = 0;
  std::size_t length = 0;  // characters of the text; 0: no number there
  bool has_point = false;
  bool has_exponent = false;
};

// The optional "e[+-]digits" at text[number.length].
void TakeExponent(std::string_view text, NumberPrefix& number) {
  std::size_t i = number.length;
  if (i >= text.size() || (text[i] != 'e' && text[i] != 'E')) return;
  ++i;
  bool negative = false;
  if (i < text.size() && (text[i] == '+' || text[i] == '-')) negative = text[i++] == '-';
  std::string digits;
  const std::size_t length = TakeDigits(text.substr(i), digits);
  if (length == 0) return;
  constexpr int kBeyondDouble = 9999;  // also what absurdly many digits count as
  int exponent = 0;
  for (const char c : digits) exponent = std::min(exponent * 10 + (c - '0'), kBeyondDouble);
  number.exponent = negative ? -exponent : exponent;
  number.length = i + length;
  number.has_exponent = true;
}

// The longest prefix of the form [+-] digits [. digits] [e [+-] digits].
NumberPrefix TakeNumber(std::string_view text) {
  NumberPrefix number;
  std::size_t i = 0;
  if (i < text.size() && (text[i] == '+' || text[i] == '-')) {
    if (text[i] == '-') number.mantissa += '-';
    ++i;
  }
  std::size_t digits = TakeDigits(text.substr(i), number.mantissa);
  i += digits;
  if (i < text.size() && text[i] == '.') {
    if (digits == 0) number.mantissa += '0';
    number.mantissa += '.';
    number.has_point = true;
    const std::size_t fraction = TakeDigits(text.substr(i + 1), number.mantissa);
    if (fraction == 0) number.mantissa += '0';
    digits += fraction;
    i += 1 + fraction;
  }
  if (digits == 0) return {};
  number.length = i;
  TakeExponent(text, number);
  return number;
}

// The number times 10^power, rounded once.
std::optional<double> ToDouble(const NumberPrefix& number, int power = 0) {
  if (number.length == 0) return std::nullopt;
  const std::string text = fmt::format("{}e{}", number.mantissa, number.exponent + power);
  double value = 0;
  const char* end = text.data() + text.size();
  const auto result = fast_float::from_chars(text.data(), end, value);
  if (result.ec != std::errc() || result.ptr != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

// A quoted excerpt, so that a megabyte of junk makes a short message.
std::string Excerpt(std::string_view text) {
  constexpr std::size_t kLongest = 60;
  if (text.size() <= kLongest) return fmt::format("'{}'", text);
  return fmt::format("'{}...' ({} characters)", text.substr(0, kLongest), text.size());
}

std::string Allowed(const UnitInfo& info) {
  if (info.units.empty()) return fmt::format("allowed: a number, for example '{}'", info.example);
  return fmt::format("allowed: {} with its unit ({}), for example '{}'", info.noun, info.units,
                     info.example);
}

// Offers a unit only when there is one candidate: 'gb/s' could be bits or bytes.
std::string UnitHint(std::string_view unit, std::span<const Scale> scales) {
  std::vector<std::string_view> names;
  for (const Scale& scale : scales) names.push_back(scale.name);
  const std::string first = Nearest(unit, names);
  if (first.empty()) return "";
  std::vector<std::string_view> reversed(names.rbegin(), names.rend());
  if (Nearest(unit, reversed) != first) return "";
  return fmt::format("; did you mean '{}'?", first);
}

// Three significant digits: "4.00", "12.3", "150".
std::string ThreeDigits(double value) {
  const double size = std::abs(value);
  if (size < 9.995) return fmt::format("{:.2f}", value);
  if (size < 99.95) return fmt::format("{:.1f}", value);
  return fmt::format("{:.0f}", value);
}

// `scales` ascending; picks the largest unit in which the rounded number is at least 1.
std::string FormatScaled(double value, std::span<const Scale> scales) {
  const Scale* best = &scales.front();
  for (const Scale& scale : scales) {
    if (std::abs(scale.ToNumber(value)) >= 0.9995) best = &scale;
  }
  return fmt::format("{} {}", ThreeDigits(best->ToNumber(value)), best->name);
}

}  // namespace

ParsedQuantity ParseQuantity(std::string_view text, Unit unit) {
  const UnitInfo info = InfoOf(unit);
  const std::string_view trimmed = Trim(text);
  const NumberPrefix number = TakeNumber(trimmed);
  const std::optional<double> value = ToDouble(number);
  const std::string_view name = Trim(trimmed.substr(number.length));
  const auto fail = [&](std::string_view why, const std::string& hint) {
    return ParsedQuantity{
        0, fmt::format("found {}{}, {}{}", Excerpt(trimmed), why, Allowed(info), hint)};
  };
  if (!value) return fail("", "");
  if (unit == Unit::kNone) return name.empty() ? ParsedQuantity{*value, ""} : fail("", "");
  if (name.empty()) return fail(" without a unit", "");
  for (const Scale& scale : info.scales) {
    if (scale.name != name) continue;
    const std::optional<double> scaled = ToDouble(number, scale.power);
    if (!scaled || !std::isfinite(*scaled * scale.factor)) return fail("", "");
    return {*scaled * scale.factor, ""};
  }
  return fail("", UnitHint(name, info.scales));
}

std::optional<std::int64_t> ParseInteger(std::string_view text) {
  const NumberPrefix number = TakeNumber(text);
  if (number.length == 0 || number.length != text.size()) return std::nullopt;
  if (!number.has_point && !number.has_exponent) {
    std::int64_t value = 0;
    const char* end = number.mantissa.data() + number.mantissa.size();
    const auto result = std::from_chars(number.mantissa.data(), end, value);
    if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
    return value;
  }
  // "1e6" and "1.5e9" are whole numbers, "4.0" is not written as one.
  constexpr double kExactlyRepresented = 9007199254740992.0;  // 2^53
  const std::optional<double> value = ToDouble(number);
  if (!number.has_exponent || !value || std::abs(*value) > kExactlyRepresented ||
      *value != std::floor(*value)) {
    return std::nullopt;
  }
  return static_cast<std::int64_t>(*value);
}

std::optional<double> ParseNumber(std::string_view text) {
  const NumberPrefix number = TakeNumber(text);
  if (number.length != text.size()) return std::nullopt;
  return ToDouble(number);
}

std::string_view UnitExample(Unit unit) { return InfoOf(unit).example; }

std::vector<std::string_view> UnitNames(Unit unit) {
  std::vector<std::string_view> names;
  for (const Scale& scale : InfoOf(unit).scales) names.push_back(scale.name);
  return names;
}

std::string_view BaseUnit(Unit unit) { return InfoOf(unit).base; }

std::string FormatTime(double seconds) {
  constexpr std::array kShown = {Scale{"ps", -12}, Scale{"ns", -9}, Scale{"us", -6},
                                 Scale{"ms", -3}, Scale{"s"}};
  if (seconds == 0) return "0 s";
  return FormatScaled(seconds, kShown);
}

std::string FormatTime(Duration duration) { return FormatTime(ToSeconds(duration)); }

std::string FormatBytes(double bytes) {
  constexpr std::array kShown = {Scale{"kB", 3}, Scale{"MB", 6}, Scale{"GB", 9}, Scale{"TB", 12},
                                 Scale{"PB", 15}};
  if (std::abs(bytes) < 999.5) return fmt::format("{:.0f} B", bytes);
  return FormatScaled(bytes, kShown);
}

std::string FormatBytes(Bytes bytes) { return FormatBytes(ToDouble(bytes)); }

std::string FormatMemory(Bytes bytes) {
  constexpr std::array kShown = {Scale{"KiB", 0, kKi}, Scale{"MiB", 0, kMi}, Scale{"GiB", 0, kGi},
                                 Scale{"TiB", 0, kTi}};
  if (std::abs(ToDouble(bytes)) < kKi) return FormatBytes(bytes);
  return FormatScaled(ToDouble(bytes), kShown);
}

std::string FormatBandwidth(double bytes_per_second) {
  constexpr std::array kShown = {Scale{"B/s"}, Scale{"kB/s", 3}, Scale{"MB/s", 6}, Scale{"GB/s", 9},
                                 Scale{"TB/s", 12}};
  return FormatScaled(bytes_per_second, kShown);
}

std::string FormatFlopRate(double flops_per_second) {
  constexpr std::array kShown = {Scale{"FLOP/s"}, Scale{"MFLOP/s", 6}, Scale{"GFLOP/s", 9},
                                 Scale{"TFLOP/s", 12}, Scale{"PFLOP/s", 15}};
  return FormatScaled(flops_per_second, kShown);
}

std::string FormatCount(double count) {
  constexpr std::array kShown = {Scale{"M", 6}, Scale{"B", 9}, Scale{"T", 12}};
  if (std::abs(count) >= 999999.5) return FormatScaled(count, kShown);
  std::string digits = fmt::format("{:.0f}", std::abs(count));
  for (std::size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, ",");
  return std::round(count) < 0 ? "-" + digits : digits;
}

std::string WriteQuantity(double value, Unit unit) {
  const UnitInfo info = InfoOf(unit);
  if (unit == Unit::kNone) return fmt::format("{}", value);
  const Scale& base = unit == Unit::kTime ? info.scales.back() : info.scales.front();
  if (value == 0) return fmt::format("0 {}", base.name);
  std::string best;
  std::size_t best_length = 0;
  for (const Scale& scale : info.scales) {
    const double number = scale.ToNumber(value);
    if (!best.empty() && std::abs(number) < 1) continue;
    // 15 digits hide the rounding of ToNumber; where they are too few, all of them are written.
    for (const std::string& digits : {fmt::format("{:.15g}", number), fmt::format("{}", number)}) {
      const bool has_exponent = digits.find('e') != std::string::npos;  // the last choice
      const std::size_t length = digits.size() + (has_exponent ? 100 : 0);
      if (!best.empty() && length >= best_length) continue;
      std::string text = fmt::format("{} {}", digits, scale.name);
      const ParsedQuantity back = ParseQuantity(text, unit);
      if (!back.ok() || back.value != value) continue;
      best = std::move(text);
      best_length = length;
    }
  }
  return best.empty() ? fmt::format("{} {}", value, base.name) : best;
}

}  // namespace stepsim
