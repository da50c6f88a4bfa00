#include "models/spec/remembering_source.h"

#include <mutex>
#include <utility>

namespace stepsim {

struct RememberingSource::Memory {
  std::mutex mutex;
  std::map<std::string, SourceFile> files;
  std::map<std::pair<ConfigKind, std::string>, std::optional<SourceFile>> named;
  std::map<ConfigKind, std::vector<std::string>> names;
  struct Tree {
    std::string text;
    ConfigNode node;
  };
  std::map<std::string, Tree> trees;  // by the file's name
};

RememberingSource::RememberingSource(const ConfigSource& source)
    : source_(source), memory_(std::make_unique<Memory>()) {}

RememberingSource::~RememberingSource() = default;

namespace {

// The remembered value of a key; made by `make` when it is asked for the first time.
template <class Map, class Make>
typename Map::mapped_type Recall(std::mutex& mutex, Map& map, const typename Map::key_type& key,
                                 const Make& make) {
  const std::lock_guard lock(mutex);
  const auto found = map.find(key);
  if (found != map.end()) return found->second;
  return map.emplace(key, make()).first->second;
}

}  // namespace

SourceFile RememberingSource::ReadFile(const std::string& path) const {
  return Recall(memory_->mutex, memory_->files, path, [&] { return source_.ReadFile(path); });
}

std::optional<SourceFile> RememberingSource::FindNamed(ConfigKind kind,
                                                       const std::string& name) const {
  return Recall(memory_->mutex, memory_->named, {kind, name},
                [&] { return source_.FindNamed(kind, name); });
}

std::vector<std::string> RememberingSource::Names(ConfigKind kind) const {
  return Recall(memory_->mutex, memory_->names, kind, [&] { return source_.Names(kind); });
}

// A text with problems is read anew each time, so that they are reported each time.
ConfigNode RememberingSource::ReadTree(std::string_view text, const std::string& file_name,
                                       Diagnostics& duplicates) const {
  {
    const std::lock_guard lock(memory_->mutex);
    const auto found = memory_->trees.find(file_name);
    if (found != memory_->trees.end() && found->second.text == text) return found->second.node;
  }
  const std::size_t problems = duplicates.list().size();
  ConfigNode node = source_.ReadTree(text, file_name, duplicates);
  if (duplicates.list().size() == problems) {
    const std::lock_guard lock(memory_->mutex);
    memory_->trees.insert_or_assign(file_name, Memory::Tree{std::string(text), node});
  }
  return node;
}

}  // namespace stepsim
