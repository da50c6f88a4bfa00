// How are the same files read many times without reading them again? Each file is read and parsed
// once, so that all variants of a job see the same text, whatever happens to the files meanwhile.
//
//   RememberingSource source(disk);
//   LoadJob("job.yaml", {"nodes=2"}, source);
//   LoadJob("job.yaml", {"nodes=4"}, source);  // nothing is read from the disk, nothing parsed
#pragma once

#include <memory>

#include "models/spec/config_source.h"

namespace stepsim {

// May be used by several threads at once.
class RememberingSource : public ConfigSource {
 public:
  // REQUIRES: `source` outlives this object.
  explicit RememberingSource(const ConfigSource& source);
  ~RememberingSource() override;

  SourceFile ReadFile(const std::string& path) const override;
  std::optional<SourceFile> FindNamed(ConfigKind kind, const std::string& name) const override;
  std::vector<std::string> Names(ConfigKind kind) const override;
  ConfigNode ReadTree(std::string_view text, const std::string& file_name,
                      Diagnostics& duplicates) const override;

 private:
  struct Memory;
  const ConfigSource& source_;
  std::unique_ptr<Memory> memory_;
};

}  // namespace stepsim
