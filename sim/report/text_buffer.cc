#include "sim/report/text_buffer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace stepsim {
namespace {

constexpr std::int64_t kPicosecondsPerMicrosecond = 1'000'000;
constexpr std::size_t kDecimals = 6;

// Nothing in it needs an escape.
bool IsPlain(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; });
}

}  // namespace

TextBuffer::TextBuffer(const Sink& sink)
    : sink_(sink), chars_(std::make_unique<char[]>(kCapacity)) {}

void TextBuffer::PutInteger(std::int64_t value) {
  const fmt::format_int digits(value);
  Put({digits.data(), digits.size()});
}

void TextBuffer::PutMicroseconds(Duration time) {
  const std::int64_t picoseconds = time.count();
  PutInteger(picoseconds / kPicosecondsPerMicrosecond);
  std::int64_t rest = picoseconds % kPicosecondsPerMicrosecond;
  std::array<char, kDecimals + 1> text;
  for (std::size_t i = kDecimals; i > 0; --i) {
    text[i] = static_cast<char>('0' + rest % 10);
    rest /= 10;
  }
  text[0] = '.';
  Put({text.data(), text.size()});
}

void TextBuffer::PutQuoted(std::string_view text) {
  if (!IsPlain(text)) return Put(QuoteJson(text));
  Put("\"");
  Put(text);
  Put("\"");
}

void TextBuffer::Flush() {
  if (size_ > 0) sink_({chars_.get(), size_});
  size_ = 0;
}

void TextBuffer::PutLong(std::string_view text) {
  Flush();
  if (text.size() > kCapacity) return sink_(text);
  Put(text);
}

std::string QuoteJson(std::string_view text) {
  return nlohmann::json(std::string(text))
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace stepsim
