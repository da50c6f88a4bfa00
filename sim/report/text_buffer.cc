#include "sim/report/text_buffer.h"

#include <array>
#include <nlohmann/json.hpp>

namespace stepsim {
namespace {

constexpr std::uint64_t kPicosecondsPerMicrosecond = 1'000'000;

// "00" to "99": two digits for one division.
constexpr std::array<char, 200> MakePairs() {
  std::array<char, 200> pairs{};
  for (std::size_t i = 0; i < 100; ++i) {
    pairs[2 * i] = static_cast<char>('0' + i / 10);
    pairs[2 * i + 1] = static_cast<char>('0' + i % 10);
  }
  return pairs;
}
constexpr std::array<char, 200> kPairs = MakePairs();

void WritePair(char* out, std::uint64_t value) { std::memcpy(out, &kPairs[2 * value], 2); }

std::size_t CountDigits(std::uint64_t value) {
  std::size_t digits = 1;
  for (; value >= 10'000; value /= 10'000) digits += 4;
  return digits + (value >= 10) + (value >= 100) + (value >= 1000);
}

// Returns the number of characters written.
std::size_t WriteDigits(char* out, std::uint64_t value) {
  const std::size_t digits = CountDigits(value);
  std::size_t left = digits;
  for (; left > 2; left -= 2) {
    WritePair(out + left - 2, value % 100);
    value /= 100;
  }
  if (left == 2) {
    WritePair(out, value);
  } else {
    *out = static_cast<char>('0' + value);
  }
  return digits;
}

}  // namespace

TextBuffer::TextBuffer(const Sink& sink)
    : sink_(sink), chars_(std::make_unique<char[]>(kCapacity)) {}

void TextBuffer::PutInteger(std::int64_t value) {
  char* out = Room();
  if (value < 0) {
    *out++ = '-';
    ++size_;
  }
  const auto magnitude = static_cast<std::uint64_t>(value);
  size_ += WriteDigits(out, value < 0 ? 0 - magnitude : magnitude);
}

void TextBuffer::PutMicroseconds(Duration time) {
  const auto picoseconds = static_cast<std::uint64_t>(time.count());
  const std::uint64_t rest = picoseconds % kPicosecondsPerMicrosecond;
  char* out = Room();
  const std::size_t digits = WriteDigits(out, picoseconds / kPicosecondsPerMicrosecond);
  out += digits;
  *out = '.';
  WritePair(out + 1, rest / 10'000);
  WritePair(out + 3, rest / 100 % 100);
  WritePair(out + 5, rest % 100);
  size_ += digits + 7;
}

void TextBuffer::PutQuoted(std::string_view text) {
  if (!IsPlainJson(text)) return Put(QuoteJson(text));
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

bool IsPlainJson(std::string_view text) {
  bool is_plain = true;
  for (const char c : text) is_plain &= c >= ' ' && c <= '~' && c != '"' && c != '\\';
  return is_plain;
}

}  // namespace stepsim
