#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>

#include "sim/report/gzip_sink.h"
#include "sim/report/writer.h"

namespace stepsim {
namespace {

constexpr mode_t kNewFileMode = 0666;  // the umask of the user takes away what it wants
constexpr int kMostAttempts = 100;

[[noreturn]] void FailToWrite(const std::string& path, int error) {
  throw std::runtime_error(
      fmt::format("cannot write {}: {}", path, std::generic_category().message(error)));
}

// What `path` finally names: a link is followed, so that the link itself survives the rename.
std::string FinalTarget(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_symlink(path, error)) return path;
  const std::filesystem::path target = std::filesystem::weakly_canonical(path, error);
  return error ? path : target.string();
}

// A device, a pipe or a folder: it must not be replaced by a file, so it is opened as it is.
bool IsSpecial(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  return std::filesystem::exists(status) && !std::filesystem::is_regular_file(status);
}

// A file that appears under its name when it is complete, or not at all.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path) : path_(path), target_(FinalTarget(path)) {
    if (IsSpecial(target_)) {
      descriptor_ = open(target_.c_str(), O_WRONLY | O_CLOEXEC);
    } else {
      OpenTemporary();
    }
    if (descriptor_ < 0) FailToWrite(path_, errno);
  }
  ~OutputFile() {
    if (descriptor_ >= 0) close(descriptor_);
    if (!temporary_.empty()) unlink(temporary_.c_str());
  }
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void Append(std::string_view text) {
    while (!text.empty()) {
      const ssize_t written = write(descriptor_, text.data(), text.size());
      if (written < 0) {
        if (errno == EINTR) continue;
        FailToWrite(path_, errno);
      }
      text.remove_prefix(static_cast<std::size_t>(written));
    }
  }

  void Commit() {
    const int descriptor = descriptor_;
    descriptor_ = -1;
    if (close(descriptor) != 0) FailToWrite(path_, errno);  // network file systems report here
    if (temporary_.empty()) return;
    if (std::rename(temporary_.c_str(), target_.c_str()) != 0) FailToWrite(path_, errno);
    temporary_.clear();
  }

 private:
  // Beside the target, because a rename is atomic only within one file system.
  void OpenTemporary() {
    for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
      std::string name = fmt::format("{}.partial-{}-{}", target_, getpid(), attempt);
      descriptor_ = open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kNewFileMode);
      if (descriptor_ >= 0) temporary_ = std::move(name);
      if (descriptor_ >= 0 || errno != EEXIST) return;
    }
  }

  std::string path_;  // as the user wrote it
  std::string target_;
  std::string temporary_;  // empty when there is nothing to remove
  int descriptor_ = -1;
};

}  // namespace

void WriteFileAtomically(const std::string& path, const Writer& writer, const Result& result) {
  OutputFile file(path);
  const Sink to_file = [&file](std::string_view text) { file.Append(text); };
  if (writer.is_gzipped) {
    GzipSink gzip(to_file);
    writer.write(result, [&gzip](std::string_view text) { gzip.Append(text); });
    gzip.Finish();
  } else {
    writer.write(result, to_file);
  }
  file.Commit();
}

void WriteFileAtomically(const std::string& path, std::string_view text) {
  OutputFile file(path);
  file.Append(text);
  file.Commit();
}

void WriteFileAtomically(const std::string& path, const std::function<void(const Sink&)>& write) {
  OutputFile file(path);
  write([&file](std::string_view text) { file.Append(text); });
  file.Commit();
}

}  // namespace stepsim
