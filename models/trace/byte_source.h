// Where do the bytes of a trace come from? A file, plain or gzipped, or a text; piece by piece.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace stepsim {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Up to `size` bytes; 0 at the end.
  virtual std::size_t Read(char* to, std::size_t size) = 0;
  // Why the end came early; "" when it did not.
  const std::string& problem() const { return problem_; }

 protected:
  std::string problem_;
};

// A source can be read twice by opening it twice.
using OpenSource = std::function<std::unique_ptr<ByteSource>()>;

// Unpacks what begins as gzip does, several members included. Throws ConfigError when the file
// cannot be opened.
std::unique_ptr<ByteSource> OpenTraceFile(const std::string& path);
// REQUIRES: the text lives as long as the source.
std::unique_ptr<ByteSource> OpenTraceText(std::string_view text);

}  // namespace stepsim
