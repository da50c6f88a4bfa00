#include "models/trace/event_fields.h"

#include <fast_float/fast_float.h>

#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>

namespace stepsim {
namespace {

constexpr std::int64_t kMostMicroseconds = 9'000'000'000'000'000;  // as nanoseconds in 64 bits
constexpr std::int64_t kLongestMicroseconds = 9'000'000'000'000;   // as picoseconds
constexpr std::int64_t kMostElements = std::int64_t{1} << 53;

bool IsSpace(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// The end of a string whose text begins at `begin`, npos when there is none.
std::size_t FindQuote(std::string_view text, std::size_t begin) {
  for (std::size_t i = begin; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      return i;
    }
  }
  return std::string_view::npos;
}

void AppendUtf8(std::uint32_t code, std::string* text) {
  const auto put = [&](std::uint32_t byte) { text->push_back(static_cast<char>(byte)); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xC0 | (code >> 6));
  } else {
    put(0xE0 | (code >> 12));
    put(0x80 | ((code >> 6) & 0x3F));
  }
  put(0x80 | (code & 0x3F));
}

// Whole microseconds and picoseconds of the rest.
struct Microseconds {
  bool is_negative = false;
  std::int64_t whole = 0;
  std::int64_t picoseconds = 0;
};

std::optional<Microseconds> ParseByFloat(std::string_view text) {
  double value = 0;
  const auto end = text.data() + text.size();
  const auto result = fast_float::from_chars(text.data(), end, value);
  if (result.ec != std::errc() || result.ptr != end || !std::isfinite(value)) return std::nullopt;
  if (std::abs(value) >= static_cast<double>(kMostMicroseconds)) return std::nullopt;
  const double whole = std::floor(std::abs(value));
  return Microseconds{value < 0, static_cast<std::int64_t>(whole),
                      static_cast<std::int64_t>((std::abs(value) - whole) * 1e6)};
}

std::optional<Microseconds> ParseMicroseconds(std::string_view text) {
  Microseconds parsed;
  const std::string_view all = text;
  if (!text.empty() && text.front() == '-') {
    parsed.is_negative = true;
    text.remove_prefix(1);
  }
  if (text.empty() || !IsDigit(text.front())) return std::nullopt;
  std::size_t i = 0;
  for (; i < text.size() && IsDigit(text[i]); ++i) {
    parsed.whole = 10 * parsed.whole + (text[i] - '0');
    if (parsed.whole >= kMostMicroseconds) return std::nullopt;
  }
  if (i < text.size() && text[i] == '.') {
    std::int64_t unit = 100'000;
    for (++i; i < text.size() && IsDigit(text[i]); ++i) {
      parsed.picoseconds += unit * (text[i] - '0');
      unit /= 10;
    }
  }
  if (i == text.size()) return parsed;
  return ParseByFloat(all);
}

}  // namespace

EventFields::EventFields(std::string_view object) : rest_(object) {
  if (rest_.empty() || rest_.front() != '{') {
    rest_ = {};
    is_broken_ = true;
  } else {
    rest_.remove_prefix(1);
  }
}

bool EventFields::Break() {
  is_broken_ = true;
  rest_ = {};
  return false;
}

void EventFields::SkipSpace() {
  while (!rest_.empty() && IsSpace(rest_.front())) rest_.remove_prefix(1);
}

bool EventFields::TakeString(std::string_view* text) {
  const std::size_t quote = FindQuote(rest_, 1);
  if (quote == std::string_view::npos) return Break();
  *text = rest_.substr(1, quote - 1);
  rest_.remove_prefix(quote + 1);
  return true;
}

bool EventFields::TakeValue() {
  is_string_ = rest_.front() == '"';
  if (is_string_) return TakeString(&value_);
  std::size_t depth = 0;
  std::size_t at = 0;
  for (; at < rest_.size(); ++at) {
    const char c = rest_[at];
    if (c == '"') {
      at = FindQuote(rest_, at + 1);
      if (at == std::string_view::npos) return Break();
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      if (depth == 0) break;
      --depth;
    } else if (depth == 0 && c == ',') {
      break;
    }
  }
  value_ = rest_.substr(0, at);
  while (!value_.empty() && IsSpace(value_.back())) value_.remove_suffix(1);
  rest_.remove_prefix(at);
  return !value_.empty() || Break();
}

bool EventFields::Next() {
  SkipSpace();
  while (!rest_.empty() && rest_.front() == ',') {
    rest_.remove_prefix(1);
    SkipSpace();
  }
  if (rest_.empty() || rest_.front() == '}') {
    rest_ = {};
    return false;
  }
  if (rest_.front() != '"') return Break();
  if (!TakeString(&key_)) return false;
  SkipSpace();
  if (rest_.empty() || rest_.front() != ':') return Break();
  rest_.remove_prefix(1);
  SkipSpace();
  if (rest_.empty()) return Break();
  return TakeValue();
}

std::string UnescapeJson(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      plain += text[i];
      continue;
    }
    const char c = text[++i];
    if (c == 'u' && i + 4 < text.size()) {
      std::uint32_t code = 0;
      const char* begin = text.data() + i + 1;
      const auto result = std::from_chars(begin, begin + 4, code, 16);
      const bool is_character =
          result.ec == std::errc() && result.ptr == begin + 4 && (code < 0xD800 || code > 0xDFFF);
      AppendUtf8(is_character ? code : '?', &plain);
      i += 4;
    } else if (c == 'n' || c == 't' || c == 'r' || c == 'b' || c == 'f') {
      plain += ' ';
    } else {
      plain += c;
    }
  }
  return plain;
}

std::optional<TraceMoment> ParseMoment(std::string_view microseconds) {
  const std::optional<Microseconds> parsed = ParseMicroseconds(microseconds);
  if (!parsed) return std::nullopt;
  const std::int64_t ns = parsed->whole * 1000 + parsed->picoseconds / 1000;
  const auto ps = static_cast<std::int32_t>(parsed->picoseconds % 1000);
  if (!parsed->is_negative) return TraceMoment{ns, ps};
  return ps == 0 ? TraceMoment{-ns, 0} : TraceMoment{-ns - 1, 1000 - ps};
}

std::optional<Duration> ParseLength(std::string_view microseconds) {
  const std::optional<Microseconds> parsed = ParseMicroseconds(microseconds);
  if (!parsed || parsed->whole >= kLongestMicroseconds) return std::nullopt;
  const bool is_zero = parsed->whole == 0 && parsed->picoseconds == 0;
  if (parsed->is_negative && !is_zero) return std::nullopt;
  return Duration(parsed->whole * 1'000'000 + parsed->picoseconds);
}

std::optional<std::int64_t> ParseWhole(std::string_view text) {
  if (const std::size_t dot = text.find('.'); dot != std::string_view::npos) {
    if (text.find_first_not_of('0', dot + 1) != std::string_view::npos) return std::nullopt;
    text = text.substr(0, dot);
  }
  std::int64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

std::int64_t CountElements(std::string_view shapes) {
  std::int64_t total = 0;
  std::int64_t product = 0;
  bool has_size = false;  // in this bracket
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    if (shapes[i] == '[' || shapes[i] == ']') {
      total = total > kMostElements - product ? kMostElements : total + product;
      product = 0;
      has_size = false;
    } else if (IsDigit(shapes[i])) {
      std::int64_t size = 0;
      for (; i < shapes.size() && IsDigit(shapes[i]); ++i) {
        if (size < kMostElements) size = 10 * size + (shapes[i] - '0');
      }
      --i;
      if (!has_size) product = 1;
      has_size = true;
      product = size > 0 && product > kMostElements / size ? kMostElements : product * size;
    }
  }
  return total;
}

}  // namespace stepsim
