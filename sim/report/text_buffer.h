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
  void PutInteger(std::int64_t value);
  void PutQuoted(std::string_view text);  // a JSON string
  // Six decimals, so that no picosecond is lost. REQUIRES: time >= 0.
  void PutMicroseconds(Duration time);

  void Flush();

 private:
  static constexpr std::size_t kCapacity = 64 * 1024;
  void PutLong(std::string_view text);

  const Sink& sink_;
  std::unique_ptr<char[]> chars_;
  std::size_t size_ = 0;
};

// With its quotation marks: `a"b` becomes "a\"b". Bytes that are no UTF-8 are replaced.
std::string QuoteJson(std::string_view text);

}  // namespace stepsim
