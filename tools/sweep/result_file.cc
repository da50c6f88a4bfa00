#include "tools/sweep/result_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <stdexcept>
#include <system_error>

#include "sim/base/diagnostics.h"

namespace stepsim {
namespace {

constexpr mode_t kNewFileMode = 0666;  // the umask of the user takes away what it wants

}  // namespace

ResultFile::ResultFile(const std::string& path, const ResultHeader& header, Existing existing)
    : path_(path), header_(header) {
  descriptor_ = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, kNewFileMode);
  if (descriptor_ < 0) Fail(errno);
  try {
    OpenFile(existing);
  } catch (...) {
    close(descriptor_);
    throw;
  }
}

void ResultFile::OpenFile(Existing existing) {
  if (!IsRegular()) return;  // a device or a pipe
  Lock();
  struct stat status {};
  if (fstat(descriptor_, &status) != 0) Fail(errno);
  if (status.st_size == 0 || existing == Existing::kResume) return;
  if (existing == Existing::kRefuse) {
    throw ConfigError({path_, 0, 0},
                      "found a file, allowed: none; --resume goes on with it, --force replaces it");
  }
  if (ftruncate(descriptor_, 0) != 0) Fail(errno);
}

ResultFile::~ResultFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

bool ResultFile::IsRegular() const {
  struct stat status {};
  return fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode);
}

void ResultFile::Lock() {
  if (flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return;
  if (errno != EWOULDBLOCK) return;  // a file system without locks: nothing to rely on
  throw ConfigError({path_, 0, 0},
                    "found another process that writes this file, allowed: one; give this one "
                    "another --output or --shard");
}

void ResultFile::Fail(int error) const {
  throw std::runtime_error(fmt::format(
      "cannot write {}: {}{}", path_, std::generic_category().message(error),
      size_ == 0 ? "" : "; the rows so far are kept: with --resume the sweep goes on from there"));
}

std::uint64_t ResultFile::SkipDone(const std::function<bool(std::uint64_t)>& is_next) {
  std::uint64_t rows = 0;
  if (IsRegular()) {
    size_ = CheckLines(is_next, rows);
    if (ftruncate(descriptor_, static_cast<off_t>(size_)) != 0) Fail(errno);
  }
  if (size_ == 0) Append(WriteHeader(header_));
  return rows;
}

std::uint64_t ResultFile::CheckLines(const std::function<bool(std::uint64_t)>& is_next,
                                     std::uint64_t& rows) const {
  std::ifstream file(path_, std::ios::binary);
  const std::string header = WriteHeader(header_);
  std::string line;
  std::uint64_t size = 0;
  if (const int first = file.peek(); first != std::ifstream::traits_type::eof() &&
                                     first != '{') {  // before a line of any length is read
    throw ConfigError({path_, 1, 1},
                      "found no header of a sweep, allowed: rows of this one; "
                      "another --output, or --force to replace them");
  }
  file.clear();
  for (int number = 1; std::getline(file, line); ++number) {
    const Place place{path_, number, 1};
    const bool is_whole = !file.eof();  // else without its end of line: it was being written
    if (number == 1) {
      const bool is_begun = !is_whole && header.compare(0, line.size(), line) == 0;
      if (is_begun) return 0;
      const ResultHeader found = ReadHeader(line, place);
      if (found.hash != header_.hash || found.points != header_.points) {
        throw ConfigError(place, fmt::format("found the rows of another sweep ('{}', {} points, "
                                             "hash {}), allowed: of '{}', {} points, hash {}; "
                                             "another --output, or --force to replace them",
                                             found.sweep, found.points, found.hash, header_.sweep,
                                             header_.points, header_.hash));
      }
      if (!(found.shard == header_.shard)) {
        throw ConfigError(place, fmt::format("found shard {}, allowed: shard {}",
                                             found.shard.Text(), header_.shard.Text()));
      }
    } else if (is_whole) {
      const auto index = IndexOf(line);
      if (!index || !is_next(*index)) {
        throw ConfigError(place,
                          "found no row of this sweep, or one in the wrong place, allowed: rows as "
                          "they were written; --force begins the file anew");
      }
      ++rows;
    }
    if (is_whole) size += line.size() + 1;
  }
  return size;
}

void ResultFile::Append(std::string_view lines) {
  std::string_view rest = lines;
  while (!rest.empty()) {
    const ssize_t written = write(descriptor_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int error = errno;
      // The rows that went in whole stay; part of one would be cut off by --resume anyway.
      const std::string_view done = lines.substr(0, lines.size() - rest.size());
      const std::size_t whole = done.rfind('\n') + 1;  // npos + 1 is 0
      size_ += whole;
      if (IsRegular() && ftruncate(descriptor_, static_cast<off_t>(size_)) != 0) {
        // Then the next --resume cuts it.
      }
      Fail(error);
    }
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  size_ += lines.size();
}

void ResultFile::Finish() {
  if (IsRegular() && fsync(descriptor_) != 0) Fail(errno);
  const int descriptor = descriptor_;
  descriptor_ = -1;
  if (close(descriptor) != 0) Fail(errno);
}

}  // namespace stepsim
