// Where do files and named configurations come from? A seam, so that tests need no disk.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/diagnostics.h"
#include "sim/config/config_node.h"

namespace stepsim {

enum class ConfigKind { kHardware, kNetworks, kModels, kJobs, kCollectives, kCalibrations, kSweeps };

std::string_view FolderOf(ConfigKind kind);  // "hardware", "networks", ...

struct SourceFile {
  std::string name;  // for messages: the path
  std::string text;
  std::string error;  // empty when the text was read: "found no such file", ...
};

class ConfigSource {
 public:
  virtual ~ConfigSource() = default;
  virtual SourceFile ReadFile(const std::string& path) const = 0;
  // configs/<kind>/<name>.yaml or .json; nullopt when there is none.
  virtual std::optional<SourceFile> FindNamed(ConfigKind kind, const std::string& name) const = 0;
  virtual std::vector<std::string> Names(ConfigKind kind) const = 0;  // sorted
  // The tree of a file's text, as ReadConfig makes it. Throws ConfigError.
  virtual ConfigNode ReadTree(std::string_view text, const std::string& file_name,
                              Diagnostics& duplicates) const;
};

// Those of `names` that contain every word of `text`, whatever the order and the letter case. Words
// are separated by '-', '_' or blanks: "DGX-H100" and "h100 dgx" both give {"h100-sxm-dgx"}. A
// reference that is nobody's name means the only one of these, where there is just one.
std::vector<std::string> NamesWithWords(std::string_view text,
                                        const std::vector<std::string>& names);

// Files of the disk; names from the folders below `root`, such as root/hardware/h100-sxm-dgx.yaml.
class DirectoryConfigSource : public ConfigSource {
 public:
  explicit DirectoryConfigSource(std::string root) : root_(std::move(root)) {}
  SourceFile ReadFile(const std::string& path) const override;
  std::optional<SourceFile> FindNamed(ConfigKind kind, const std::string& name) const override;
  std::vector<std::string> Names(ConfigKind kind) const override;

 private:
  std::string root_;
};

// Texts by path: {"hardware/box.yaml": ...} is the hardware named "box", any key is a file.
class MemoryConfigSource : public ConfigSource {
 public:
  explicit MemoryConfigSource(std::map<std::string, std::string> files)
      : files_(std::move(files)) {}
  SourceFile ReadFile(const std::string& path) const override;
  std::optional<SourceFile> FindNamed(ConfigKind kind, const std::string& name) const override;
  std::vector<std::string> Names(ConfigKind kind) const override;

 private:
  std::map<std::string, std::string> files_;
};

}  // namespace stepsim
