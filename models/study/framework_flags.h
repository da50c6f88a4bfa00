// How is a job told to the framework that trains it?
//
//   for (const FrameworkFlags& flags : FlagsOf(job, changes)) print(flags.text);
//     // Megatron-LM: --tensor-model-parallel-size 4 --sequence-parallel ...
//     // torchtitan:  [parallelism] tensor_parallel_degree = 4 ...
//
// The inverse of models/import, for the keys that `stepsim tune` turns: reading the text of
// Megatron-LM, DeepSpeed or torchtitan gives back the job's values. To add a key: one row in
// framework_flags.cc for each framework that has it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/spec/job.h"
#include "models/study/variants.h"

namespace stepsim {

struct FrameworkFlags {
  std::string_view framework;       // "Megatron-LM"
  std::string_view importer;        // a row of Importers(): "megatron"; "": there is none
  std::string text;                 // as it stands in a script or a file of the framework
  std::vector<std::string> unable;  // keys of `changes` that it cannot be told
};

// The frameworks that have the job's strategy.
std::vector<FrameworkFlags> FlagsOf(const JobSpec& job, const Changes& changes);

// The keys of ours that a framework's table covers, for tests and documentation.
std::vector<std::string_view> FlagKeys(std::string_view framework);

}  // namespace stepsim
