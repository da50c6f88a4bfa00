// How does each framework write down its settings? Spellings with values become lines.
#pragma once

#include <string>
#include <vector>

namespace stepsim {

struct SpelledFlag {
  std::string spelling;  // "zero_optimization.stage", "ddp-bucket-size", "fully_shard.mesh"
  std::string value;
};

// DistributedDataParallel(..., bucket_cap_mb=25); what begins with # is a remark.
std::string PythonText(const std::vector<SpelledFlag>& flags);
// [parallelism]
// tensor_parallel_degree = 4
std::string TomlText(const std::vector<SpelledFlag>& flags);
// --ddp-bucket-size 40000000 --sequence-parallel; "true" is a switch, "false" is none.
std::string ArgumentText(const std::vector<SpelledFlag>& flags);
// {"zero_optimization": {"stage": 1}}
std::string JsonText(const std::vector<SpelledFlag>& flags);
// export NCCL_ALGO=ring
std::string EnvironmentText(const std::vector<SpelledFlag>& flags);

}  // namespace stepsim
