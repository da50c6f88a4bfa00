#include "models/import/importers.h"

#include <array>

namespace stepsim {

std::span<const Importer> Importers() {
  static const std::array importers = {
      Importer{"torchtitan",
               "a torchtitan job configuration (TOML)",
               {".toml"},
               {"training", "parallelism"},
               ImportTorchtitan},
      Importer{"deepspeed",
               "a DeepSpeed configuration (JSON)",
               {".json"},
               {"zero_optimization", "train_batch_size", "train_micro_batch_size_per_gpu"},
               ImportDeepspeed},
      Importer{"accelerate",
               "a configuration of Hugging Face Accelerate (YAML)",
               {".yaml", ".yml"},
               {"distributed_type", "compute_environment"},
               ImportAccelerate},
      Importer{"megatron",
               "arguments of Megatron-LM: a launch script, or a list of them",
               {".sh", ".txt", ".args"},
               {"--num-layers", "--micro-batch-size"},
               ImportMegatron},
  };
  return importers;
}

const Importer* FindImporter(std::string_view name) {
  for (const Importer& importer : Importers()) {
    if (importer.name == name) return &importer;
  }
  return nullptr;
}

std::vector<std::string> ImporterNames() {
  std::vector<std::string> names;
  for (const Importer& importer : Importers()) names.emplace_back(importer.name);
  return names;
}

}  // namespace stepsim
