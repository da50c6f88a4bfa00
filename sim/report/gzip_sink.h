// How does text become a .gz file? Piece by piece, so that a trace of any size needs 64 KiB.
//
//   GzipSink gzip(file_sink);
//   gzip.Append("{...}");
//   gzip.Finish();
//
// Equal text gives equal bytes: the header carries no time and no name.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "sim/report/writer.h"

struct z_stream_s;  // zlib's

namespace stepsim {

class GzipSink {
 public:
  explicit GzipSink(Sink out);
  ~GzipSink();
  GzipSink(const GzipSink&) = delete;
  GzipSink& operator=(const GzipSink&) = delete;

  void Append(std::string_view text);
  void Finish();  // writes the trailer; nothing may be appended afterwards

 private:
  void Deflate(int flush);

  Sink out_;
  std::unique_ptr<z_stream_s> stream_;
  std::vector<char> buffer_;
};

}  // namespace stepsim
