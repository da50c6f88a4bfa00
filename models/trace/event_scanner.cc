#include "models/trace/event_scanner.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace stepsim {
namespace {

constexpr std::size_t kFirstBuffer = std::size_t{256} << 10;
// Longer values are passed over: no event that a profiler writes comes near.
constexpr std::size_t kLongestValue = std::size_t{16} << 20;
constexpr std::size_t kHeadLength = 16;
// More blanks than this are no trace: a device of zeros has no end.
constexpr std::size_t kMostSpace = std::size_t{1} << 20;

bool IsSpace(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t' || c == '\0'; }
bool EndsScalar(char c) { return c == ',' || c == ']' || c == '}' || c == ':' || IsSpace(c); }

// What matters between strings.
constexpr std::array<bool, 256> MakeStops() {
  std::array<bool, 256> stops{};
  for (const char c : {'"', '{', '}', '[', ']'}) stops[static_cast<unsigned char>(c)] = true;
  return stops;
}
constexpr std::array<bool, 256> kStops = MakeStops();

}  // namespace

EventScanner::EventScanner(ByteSource& source) : source_(source), buffer_(kFirstBuffer) {
  Fill();
  head_.assign(buffer_.data(), std::min(end_, kHeadLength));
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (std::string_view(head_).substr(0, kByteOrderMark.size()) == kByteOrderMark) {
    pos_ = kByteOrderMark.size();
  }
}

bool EventScanner::Fill() {
  if (is_source_over_) return false;
  if (pos_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + pos_, end_ - pos_);
    end_ -= pos_;
    pos_ = 0;
  }
  if (end_ == buffer_.size()) buffer_.resize(2 * buffer_.size());
  const std::size_t got = source_.Read(buffer_.data() + end_, buffer_.size() - end_);
  is_source_over_ = got == 0;
  bytes_read_ += got;
  end_ += got;
  return got > 0;
}

bool EventScanner::SkipSpace(bool and_commas) {
  std::size_t skipped = 0;
  while (true) {
    const std::size_t from = pos_;
    while (pos_ < end_ && (IsSpace(buffer_[pos_]) || (and_commas && buffer_[pos_] == ','))) ++pos_;
    if (pos_ < end_) return true;
    skipped += pos_ - from;
    if (skipped > kMostSpace) is_source_over_ = true;
    if (!Fill()) return false;
  }
}

EventScanner::Item EventScanner::Next() {
  while (state_ != State::kOver) {
    std::optional<Item> item;
    if (state_ == State::kStart) {
      item = NextDocument();
    } else {
      item = state_ == State::kObject ? NextMember() : NextEvent();
    }
    if (item) return *item;
  }
  return Item::kEnd;
}

std::optional<EventScanner::Item> EventScanner::NextDocument() {
  if (!SkipSpace(/*and_commas=*/true)) {
    state_ = State::kOver;
    return Item::kEnd;
  }
  const char first = buffer_[pos_];
  if (first != '[' && first != '{') {
    state_ = State::kOver;
    return Item::kNoJson;
  }
  ++pos_;
  is_bare_array_ = first == '[';
  state_ = is_bare_array_ ? State::kEvents : State::kObject;
  return std::nullopt;
}

std::optional<EventScanner::Item> EventScanner::NextMember() {
  while (true) {
    if (!SkipSpace(/*and_commas=*/true)) return EndEarly();
    if (buffer_[pos_] == '}') {
      ++pos_;
      return EndDocument();
    }
    if (!TakeValue()) return EndEarly();
    const bool is_key = text_.size() >= 2 && text_.front() == '"';
    key_ = is_key ? std::string(text_.substr(1, text_.size() - 2)) : std::string();
    if (!SkipSpace(/*and_commas=*/false)) return EndEarly();
    if (buffer_[pos_] != ':') {
      // No member: what is none is passed over, but never without a step.
      if (buffer_[pos_] == ']') ++pos_;
      continue;
    }
    ++pos_;
    if (!SkipSpace(/*and_commas=*/false)) return EndEarly();
    if (key_ == "traceEvents" && buffer_[pos_] == '[') {
      ++pos_;
      state_ = State::kEvents;
      return std::nullopt;
    }
    if (!TakeValue()) return EndEarly();
    return Item::kMember;
  }
}

std::optional<EventScanner::Item> EventScanner::NextEvent() {
  while (true) {
    if (!SkipSpace(/*and_commas=*/true)) {
      // A bare array need not be closed.
      if (is_bare_array_) return EndDocument();
      return EndEarly();
    }
    const char c = buffer_[pos_];
    if (c == ']') {
      ++pos_;
      if (is_bare_array_) return EndDocument();
      state_ = State::kObject;
      return std::nullopt;
    }
    const bool is_event = c == '{';
    if (!TakeValue()) return EndEarly();
    if (is_event && !text_.empty()) return Item::kEvent;
  }
}

EventScanner::Item EventScanner::EndDocument() {
  state_ = State::kStart;
  return Item::kDocumentEnd;
}

EventScanner::Item EventScanner::EndEarly() {
  is_truncated_ = true;
  pos_ = end_;  // what has no end is no document of its own either
  return EndDocument();
}

// `at` is behind the opening quote, relative to pos_; ends behind the closing one.
bool EventScanner::TakeString(std::size_t* at) {
  while (true) {
    const char* begin = buffer_.data() + pos_;
    const std::size_t have = end_ - pos_;
    while (*at < have) {
      const void* found = std::memchr(begin + *at, '"', have - *at);
      if (found == nullptr) {
        *at = have;
        break;
      }
      const auto quote = static_cast<std::size_t>(static_cast<const char*>(found) - begin);
      std::size_t slashes = 0;
      while (slashes < quote && begin[quote - 1 - slashes] == '\\') ++slashes;
      *at = quote + 1;
      if (slashes % 2 == 0) return true;
    }
    if (end_ - pos_ > 2 * kLongestValue) {
      // Too long to keep; two bytes stay, for a backslash before the quote.
      pos_ = end_ - 2;
      *at = 2;
    }
    if (!Fill()) return false;
  }
}

bool EventScanner::TakeValue() {
  std::size_t at = 0;  // relative to pos_, which Fill moves
  std::size_t depth = 0;
  const std::size_t taken_before = bytes_read_ - (end_ - pos_);
  const auto finish = [&] {
    const std::size_t length = bytes_read_ - (end_ - pos_) - taken_before + at;
    const bool is_kept = length <= kLongestValue && at == length;
    text_ = is_kept ? std::string_view(buffer_.data() + pos_, at) : std::string_view();
    pos_ += at;
    return true;
  };
  const char first = buffer_[pos_];
  if (first != '"' && first != '{' && first != '[') {
    at = 1;
    while (true) {
      while (pos_ + at < end_ && !EndsScalar(buffer_[pos_ + at])) ++at;
      if (pos_ + at < end_) return finish();
      if (at > kLongestValue) pos_ = end_ - 1, at = 1;
      if (!Fill()) return finish();
    }
  }
  while (true) {
    const char* begin = buffer_.data() + pos_;
    const std::size_t have = end_ - pos_;
    while (at < have && !kStops[static_cast<unsigned char>(begin[at])]) ++at;
    if (at == have) {
      if (at > 2 * kLongestValue) pos_ = end_, at = 0;
      if (!Fill()) return false;
      continue;
    }
    const char c = begin[at++];
    if (c == '"') {
      if (!TakeString(&at)) return false;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else {
      --depth;
    }
    if (depth == 0) return finish();
  }
}

}  // namespace stepsim
