#include "models/spec/config_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "sim/base/nearest.h"
#include "sim/config/read_config.h"

namespace stepsim {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 3> kSuffixes = {".yaml", ".yml", ".json"};

// "llama-3.2-3b.yaml" -> "llama-3.2-3b"; "" for a file that is no configuration.
std::string WithoutSuffix(std::string_view file_name) {
  for (const std::string_view suffix : kSuffixes) {
    if (file_name.size() > suffix.size() &&
        file_name.substr(file_name.size() - suffix.size()) == suffix) {
      return std::string(file_name.substr(0, file_name.size() - suffix.size()));
    }
  }
  return "";
}

// The files beside `path`, to find the one that was meant.
std::string NearestFile(const fs::path& path) {
  constexpr std::size_t kMostFiles = 1000;
  std::vector<std::string> names;
  std::error_code error;
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (names.size() >= kMostFiles) break;
    names.push_back(it->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return Nearest(path.filename().string(), names);
}

// Reads at most a byte more than is allowed, so that an endless device cannot fill the memory.
std::string ReadBounded(std::istream& stream, std::size_t limit) {
  constexpr std::size_t kChunk = std::size_t{1} << 16;
  std::string text;
  while (stream && text.size() <= limit) {
    const std::size_t old_size = text.size();
    text.resize(old_size + std::min(kChunk, limit + 1 - old_size));
    stream.read(text.data() + old_size, static_cast<std::streamsize>(text.size() - old_size));
    text.resize(old_size + static_cast<std::size_t>(stream.gcount()));
  }
  return text;
}

// In small letters, sorted.
std::vector<std::string> WordsOf(std::string_view text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    const bool is_separator = c == '-' || c == '_' || c == ' ';
    const bool is_capital = c >= 'A' && c <= 'Z';
    if (!is_separator) {
      words.back() += is_capital ? static_cast<char>(c - 'A' + 'a') : c;
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  if (words.back().empty()) words.pop_back();
  std::sort(words.begin(), words.end());
  return words;
}

bool IsPlainName(const std::string& name) {
  return !name.empty() && name.find_first_of("/\\") == std::string::npos && name[0] != '.';
}

}  // namespace

std::string_view FolderOf(ConfigKind kind) {
  switch (kind) {
    case ConfigKind::kHardware:
      return "hardware";
    case ConfigKind::kNetworks:
      return "networks";
    case ConfigKind::kModels:
      return "models";
    case ConfigKind::kJobs:
      return "jobs";
    case ConfigKind::kCalibrations:
      return "calibration";
    case ConfigKind::kSweeps:
      return "sweeps";
    case ConfigKind::kCollectives:
      break;
  }
  return "collectives";
}

std::vector<std::string> NamesWithWords(std::string_view text,
                                        const std::vector<std::string>& names) {
  const std::vector<std::string> wanted = WordsOf(text);
  std::vector<std::string> found;
  if (wanted.empty()) return found;
  for (const std::string& name : names) {
    const std::vector<std::string> words = WordsOf(name);
    if (std::includes(words.begin(), words.end(), wanted.begin(), wanted.end())) {
      found.push_back(name);
    }
  }
  return found;
}

ConfigNode ConfigSource::ReadTree(std::string_view text, const std::string& file_name,
                                  Diagnostics& duplicates) const {
  return ReadConfig(text, file_name, duplicates);
}

SourceFile DirectoryConfigSource::ReadFile(const std::string& path) const {
  const std::size_t limit = ConfigLimits{}.max_bytes;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    const std::string nearest = NearestFile(path);
    return {path, "",
            nearest.empty() ? "found no such file"
                            : fmt::format("found no such file; did you mean '{}'?", nearest)};
  }
  if (fs::is_directory(status)) return {path, "", "found a folder, allowed: a file"};
  if (fs::is_regular_file(status)) {
    const std::uintmax_t size = fs::file_size(path, error);
    if (!error && size > limit) {
      return {path, "", fmt::format("found {} bytes, allowed: at most {} MiB", size, limit >> 20)};
    }
  }
  errno = 0;
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return {path, "", fmt::format("cannot be read: {}", std::strerror(errno))};
  std::string text = ReadBounded(stream, limit);
  if (stream.bad()) return {path, "", "cannot be read"};
  return {path, std::move(text), ""};
}

std::optional<SourceFile> DirectoryConfigSource::FindNamed(ConfigKind kind,
                                                           const std::string& name) const {
  if (!IsPlainName(name)) return std::nullopt;
  for (const std::string_view suffix : kSuffixes) {
    const std::string path = fmt::format("{}/{}/{}{}", root_, FolderOf(kind), name, suffix);
    std::error_code error;
    if (fs::exists(path, error)) return ReadFile(path);
  }
  return std::nullopt;
}

std::vector<std::string> DirectoryConfigSource::Names(ConfigKind kind) const {
  std::vector<std::string> names;
  std::error_code error;
  const fs::path folder = fs::path(root_) / FolderOf(kind);
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::string name = WithoutSuffix(it->path().filename().string());
    if (!name.empty()) names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  return names;
}

SourceFile MemoryConfigSource::ReadFile(const std::string& path) const {
  const auto found = files_.find(path);
  if (found == files_.end()) return {path, "", "found no such file"};
  return {path, found->second, ""};
}

std::optional<SourceFile> MemoryConfigSource::FindNamed(ConfigKind kind,
                                                        const std::string& name) const {
  for (const std::string_view suffix : kSuffixes) {
    const auto found = files_.find(fmt::format("{}/{}{}", FolderOf(kind), name, suffix));
    if (found != files_.end()) return SourceFile{found->first, found->second, ""};
  }
  return std::nullopt;
}

std::vector<std::string> MemoryConfigSource::Names(ConfigKind kind) const {
  const std::string folder = fmt::format("{}/", FolderOf(kind));
  std::vector<std::string> names;
  for (const auto& [path, text] : files_) {
    if (path.rfind(folder, 0) != 0) continue;
    std::string name = WithoutSuffix(path.substr(folder.size()));
    if (!name.empty()) names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace stepsim
