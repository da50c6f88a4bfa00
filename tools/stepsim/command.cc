#include "tools/stepsim/command.h"

#include <array>
#include <filesystem>
#include <system_error>

#include "sim/base/nearest.h"

namespace stepsim {
namespace {

constexpr std::array kCommands = {
    Command{"run", "how long is a step, where is communication exposed, what MFU",
            "stepsim run gpt2_ddp_8xa100 --set network=ethernet-25g --export result.json",
            AddRunCommand},
    Command{
        "explain",
        "why is the step as long as it is: stalls, causes, critical path, ceilings, next actions",
        "stepsim explain gpt2_ddp_32xa40_25gbe", AddExplainCommand},
    Command{"whatif", "what would changes bring: one line each, simulated",
            "stepsim whatif gpt2_ddp_32xa40_25gbe --set network=ethernet-100g --set "
            "plan.ddp.comm_hook=bf16_compress+plan.ddp.bucket_cap_mb=100",
            AddWhatIfCommand},
    Command{"required", "from which bandwidth, batch or number of nodes on is a target reached",
            "stepsim required gpt2_ddp_32xa40_25gbe --exposed 5%", AddRequiredCommand},
    Command{"infer", "which bandwidth or speed does a measured step imply, and is it healthy",
            "stepsim infer gpt2_ddp_32xa40_25gbe --step-time 4.6s", AddInferCommand},
    Command{"sweep", "how does a step change over many values of its fields, on all cores",
            "stepsim sweep gpt2_ddp_8xa100 --vary plan.ddp.bucket_cap_mb=1,5,25:400:x2 --export "
            "curve.svg",
            AddSweepCommand},
    Command{"merge", "what do all shards of a sweep say together",
            "stepsim merge out.*-of-8.jsonl --export out.csv --export out.svg", AddMergeCommand},
    Command{"tune", "which values of buckets, prefetch, batch, sharding, splits, ... are best",
            "stepsim tune gpt2_ddp_32xa40_25gbe --budget memory=40GiB", AddTuneCommand},
    Command{"cost", "how long does one collective, GEMM, attention or memory kernel take alone",
            "stepsim cost all_reduce --hardware dgx-h100 --nodes 2", AddCostCommand},
    Command{"validate", "how far from measurements are the predictions",
            "stepsim validate collectives curves.csv --calibrate two-point --export errors.csv",
            AddValidateCommand},
    Command{"calibrate",
            "what do measurements of a real cluster say: a calibration for run and all others",
            "stepsim calibrate --nccl-tests all_reduce.log --gemm gemm.csv --hardware dgx-h100 -o "
            "mine.yaml",
            AddCalibrateCommand},
    Command{"schedule",
            "in which order do a pipeline's micro-batches run, and how large is the bubble",
            "stepsim schedule zbv --stages 4 --microbatches 8", AddScheduleCommand},
    Command{"trace", "what did a profiler see: the account of a measured step, rank by rank",
            "stepsim trace rank0.json.gz rank1.json.gz --export measured.json", AddTraceCommand},
    Command{"chakra", "how long do recorded execution traces take on another machine",
            "stepsim chakra step.0.et step.1.et --hardware dgx-h100 --gpus-per-node 2",
            AddChakraCommand},
    Command{"compare", "where do a prediction and a profile of the real step part",
            "stepsim compare my_job.yaml rank0.json.gz --tolerance 10%", AddCompareCommand},
    Command{"list", "what exists: hardware, networks, models, jobs, metrics, writers, ...",
            "stepsim list hardware", AddListCommand},
    Command{"describe", "one field or metric: meaning, unit, default, range",
            "stepsim describe plan.ddp.bucket_cap_mb", AddDescribeCommand},
    Command{"schema", "a JSON Schema that an editor's YAML server understands",
            "stepsim schema job > job.schema.json", AddSchemaCommand},
};

// The configs/ folder of the tree or installation that the program belongs to.
std::string FindConfigFolder(const std::string& executable) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  for (fs::path folder = fs::path(executable).parent_path(); !folder.empty();
       folder = folder.parent_path()) {
    for (const char* candidate : {"configs", "share/stepsim/configs"}) {
      if (fs::is_directory(folder / candidate / "hardware", ignored)) {
        return (folder / candidate).string();
      }
    }
    if (folder == folder.parent_path()) break;
  }
  return STEPSIM_CONFIG_FOLDER;
}

}  // namespace

std::span<const Command> Commands() { return kCommands; }

std::unique_ptr<ConfigSource> Session::Configs() const {
  return std::make_unique<DirectoryConfigSource>(
      config_folder.empty() ? FindConfigFolder(streams.executable) : config_folder);
}

std::string DidYouMean(std::string_view name, const std::vector<std::string>& candidates) {
  const std::string nearest = Nearest(name, candidates);
  return nearest.empty() ? "" : "; did you mean '" + nearest + "'?";
}

}  // namespace stepsim
