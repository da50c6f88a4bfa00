#include "sim/report/gzip_sink.h"

#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "sim/base/check.h"

namespace stepsim {
namespace {

constexpr std::size_t kBufferSize = 64 * 1024;
// A trace is repetitive: the fastest level already gives a tenth of the size, and export stays
// bound by formatting rather than by compression.
constexpr int kLevel = Z_BEST_SPEED;
constexpr int kGzipWindowBits = 15 + 16;  // the largest window, with a gzip header
constexpr int kMemoryLevel = 8;
constexpr std::size_t kLargestInput = std::size_t{1} << 30;  // zlib counts in 32 bits

}  // namespace

GzipSink::GzipSink(Sink out)
    : out_(std::move(out)), stream_(std::make_unique<z_stream_s>()), buffer_(kBufferSize) {
  const int status = deflateInit2(stream_.get(), kLevel, Z_DEFLATED, kGzipWindowBits, kMemoryLevel,
                                  Z_DEFAULT_STRATEGY);
  SIM_CHECK(status == Z_OK, "zlib cannot start");
}

GzipSink::~GzipSink() { deflateEnd(stream_.get()); }

void GzipSink::Append(std::string_view text) {
  while (!text.empty()) {
    const std::string_view piece = text.substr(0, kLargestInput);
    text.remove_prefix(piece.size());
    // zlib reads through a pointer to non-const, but never writes there.
    stream_->next_in = reinterpret_cast<Bytef*>(const_cast<char*>(piece.data()));
    stream_->avail_in = static_cast<uInt>(piece.size());
    Deflate(Z_NO_FLUSH);
  }
}

void GzipSink::Finish() { Deflate(Z_FINISH); }

void GzipSink::Deflate(int flush) {
  do {
    stream_->next_out = reinterpret_cast<Bytef*>(buffer_.data());
    stream_->avail_out = static_cast<uInt>(buffer_.size());
    const int status = deflate(stream_.get(), flush);
    SIM_CHECK(status != Z_STREAM_ERROR, "zlib lost its state");
    const std::size_t produced = buffer_.size() - stream_->avail_out;
    if (produced > 0) out_({buffer_.data(), produced});
  } while (stream_->avail_out == 0);
}

}  // namespace stepsim
