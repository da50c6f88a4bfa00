#include "models/trace/byte_source.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "sim/base/check.h"
#include "sim/base/diagnostics.h"

namespace stepsim {
namespace {

class FileSource : public ByteSource {
 public:
  explicit FileSource(const std::string& path) {
    std::error_code ignored;
    if (std::filesystem::is_directory(path, ignored)) {
      throw ConfigError({path, 0, 0}, "is a folder, expected a trace file");
    }
    file_ = std::fopen(path.c_str(), "rb");
    if (file_ == nullptr) {
      throw ConfigError({path, 0, 0}, "cannot be read: " + std::generic_category().message(errno));
    }
  }
  ~FileSource() override { std::fclose(file_); }
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;

  std::size_t Read(char* to, std::size_t size) override {
    const std::size_t got = std::fread(to, 1, size, file_);
    if (got == 0 && std::ferror(file_) != 0) problem_ = "the file cannot be read to its end";
    return got;
  }

 private:
  std::FILE* file_ = nullptr;
};

class TextSource : public ByteSource {
 public:
  explicit TextSource(std::string_view text) : text_(text) {}
  std::size_t Read(char* to, std::size_t size) override {
    const std::size_t got = std::min(size, text_.size());
    if (got > 0) std::memcpy(to, text_.data(), got);
    text_.remove_prefix(got);
    return got;
  }

 private:
  std::string_view text_;
};

constexpr unsigned char kGzipMagic[] = {0x1f, 0x8b};

// Hands on what begins like gzip unpacked, everything else as it is.
class UnpackingSource : public ByteSource {
 public:
  explicit UnpackingSource(std::unique_ptr<ByteSource> packed)
      : packed_(std::move(packed)), buffer_(kBufferSize) {
    Refill();
    is_gzip_ = have_ >= sizeof(kGzipMagic) &&
               std::memcmp(buffer_.data(), kGzipMagic, sizeof(kGzipMagic)) == 0;
    if (!is_gzip_) return;
    constexpr int kGzipOnly = 15 + 16;
    SIM_CHECK(inflateInit2(&stream_, kGzipOnly) == Z_OK, "zlib cannot start");
  }
  ~UnpackingSource() override {
    if (is_gzip_) inflateEnd(&stream_);
  }
  UnpackingSource(const UnpackingSource&) = delete;
  UnpackingSource& operator=(const UnpackingSource&) = delete;

  std::size_t Read(char* to, std::size_t size) override {
    return is_gzip_ ? Inflate(to, size) : Copy(to, size);
  }

 private:
  static constexpr std::size_t kBufferSize = std::size_t{256} << 10;

  bool Refill() {
    next_ = 0;
    have_ = packed_->Read(buffer_.data(), buffer_.size());
    if (have_ == 0) problem_ = packed_->problem();
    return have_ > 0;
  }

  std::size_t Copy(char* to, std::size_t size) {
    if (next_ == have_ && !Refill()) return 0;
    const std::size_t got = std::min(size, have_ - next_);
    std::memcpy(to, buffer_.data() + next_, got);
    next_ += got;
    return got;
  }

  std::size_t Inflate(char* to, std::size_t size) {
    stream_.next_out = reinterpret_cast<Bytef*>(to);
    stream_.avail_out = static_cast<uInt>(std::min<std::size_t>(size, std::size_t{1} << 30));
    const uInt room = stream_.avail_out;
    while (stream_.avail_out == room && !is_over_) {
      if (next_ == have_ && !Refill()) return EndEarly("the gzip file is cut off");
      stream_.next_in = reinterpret_cast<Bytef*>(buffer_.data() + next_);
      stream_.avail_in = static_cast<uInt>(have_ - next_);
      const int status = inflate(&stream_, Z_NO_FLUSH);
      next_ = have_ - stream_.avail_in;
      if (status == Z_STREAM_END) {
        BeginNextMember();
      } else if (status != Z_OK && status != Z_BUF_ERROR) {
        is_over_ = true;
        problem_ = "the gzip file is damaged";
      }
    }
    return room - stream_.avail_out;
  }

  std::size_t EndEarly(const char* why) {
    is_over_ = true;
    if (problem_.empty()) problem_ = why;
    return 0;
  }

  // As gzip does: members may follow each other, zeros and garbage behind the last are left out.
  void BeginNextMember() {
    if (next_ == have_ && !Refill()) {
      is_over_ = true;
      return;
    }
    if (static_cast<unsigned char>(buffer_[next_]) != kGzipMagic[0]) {
      is_over_ = true;
      return;
    }
    inflateReset(&stream_);
  }

  std::unique_ptr<ByteSource> packed_;
  std::vector<char> buffer_;
  std::size_t next_ = 0, have_ = 0;
  bool is_gzip_ = false, is_over_ = false;
  z_stream stream_{};
};

}  // namespace

std::unique_ptr<ByteSource> OpenTraceFile(const std::string& path) {
  return std::make_unique<UnpackingSource>(std::make_unique<FileSource>(path));
}

std::unique_ptr<ByteSource> OpenTraceText(std::string_view text) {
  return std::make_unique<UnpackingSource>(std::make_unique<TextSource>(text));
}

}  // namespace stepsim
