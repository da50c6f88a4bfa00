// How is a large text written fast? Into a buffer, by hand, handed on in pieces of 64 KiB.
//
//   TextBuffer text(sink);
//   text.Put("{\"ts\":");
//   text.PutMicroseconds(Duration{1'500'000});   // 1.500000, exact to the picosecond
//   text.Put("}");
//   text.Flush();
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "sim/base/time.h"
#include "sim/report/writer.h"

namespace stepsim {

class TextBuffer {
 public:
  explicit TextBuffer(const Sink& sink);

  void Put(std::string_view text) {
    if (text.size() > kCapacity - size_) return PutLong(text);
    std::memcpy(chars_.get() + size_, text.data(), text.size());
    size_ += text.size();
  }
  // A literal: its length is known, so that the copy becomes a few stores.
  template <std::size_t kSize>
  void Put(const char (&literal)[kSize]) {
    static_assert(kSize <= kSlack);
    std::memcpy(Room(), literal, kSize - 1);
    size_ += kSize - 1;
  }
  void PutInteger(std::int64_t value);
  // Six decimals, so that no picosecond is lost. REQUIRES: time >= 0.
  void PutMicroseconds(Duration time);
  void PutQuoted(std::string_view text);  // a JSON string

  void Flush();

 private:
  static constexpr std::size_t kCapacity = 64 * 1024;
  static constexpr std::size_t kSlack = 128;  // for what is short and of limited length

  // Where at least kSlack characters fit.
  char* Room() {
    if (size_ > kCapacity - kSlack) Flush();
    return chars_.get() + size_;
  }
  void PutLong(std::string_view text);

  const Sink& sink_;
  std::unique_ptr<char[]> chars_;
  std::size_t size_ = 0;
};

// With its quotation marks: `a"b` becomes "a\"b". Bytes that are no UTF-8 are replaced.
std::string QuoteJson(std::string_view text);
// Nothing in it needs an escape: printable ASCII without `"` and `\`.
bool IsPlainJson(std::string_view text);

}  // namespace stepsim
