#include <fmt/format.h>

#include <array>

#include "models/spec/job_rules.h"

namespace stepsim {
namespace {

bool CountsLayers(const RecomputeSpec& recompute) {
  return recompute.IsFull() || recompute.IsSelective(RecomputePolicy::kLayer);
}

constexpr std::array kRows = {
    IneffectiveKey{"recompute", "a model that is a list of layers",
                   [](const JobSpec& j) { return TransformerOf(j) == nullptr; }},
    IneffectiveKey{"recompute.method", "a recompute.granularity that is not full",
                   [](const JobSpec& j) { return !j.recompute.IsFull(); }},
    IneffectiveKey{"recompute.num_layers",
                   "recompute that is neither full nor selective with policy: layer",
                   [](const JobSpec& j) { return !CountsLayers(j.recompute); }},
    IneffectiveKey{"recompute.policy", "a recompute.granularity that is not selective",
                   [](const JobSpec& j) {
                     return j.recompute.granularity != RecomputeGranularity::kSelective;
                   }},
    IneffectiveKey{
        "recompute.modules", "recompute that is not selective with policy: modules",
        [](const JobSpec& j) { return !j.recompute.IsSelective(RecomputePolicy::kModules); }},
    IneffectiveKey{"memory.communicator", "plan.strategy: none",
                   [](const JobSpec& j) { return !j.plan.communicates(); }},
    IneffectiveKey{"recompute.early_stop", "recompute.granularity: none",
                   [](const JobSpec& j) { return !j.recompute.IsOn(); }},
};

void CheckModules(const JobProblems& problems) {
  const RecomputeSpec& recompute = problems.job.recompute;
  const RecomputeModules& modules = recompute.modules;
  if (!recompute.IsSelective(RecomputePolicy::kModules)) return;
  if (modules.core_attn || modules.mlp || modules.layernorm || modules.moe) return;
  problems.Report("recompute.modules",
                  "found none, allowed: at least one of core_attn, mlp, layernorm, moe");
}

}  // namespace

std::span<const IneffectiveKey> IneffectiveMemoryKeys() { return kRows; }

void CheckMemory(const JobProblems& problems) {
  const JobSpec& job = problems.job;
  CheckModules(problems);
  const TransformerSpec* spec = TransformerOf(job);
  const RecomputeSpec& recompute = job.recompute;
  constexpr std::string_view kPath = "recompute.num_layers";
  if (spec == nullptr || !CountsLayers(recompute) ||
      problems.AnyInvalid(
          {kPath, "recompute.granularity", "recompute.method", "model.transformer.layers"})) {
    return;
  }
  if (recompute.num_layers > spec->layers) {
    problems.Report(kPath, fmt::format("found {}, allowed: at most the {} layers of model {}",
                                       recompute.num_layers, spec->layers, job.model.name));
  }
  const bool is_fsdp = job.plan.strategy == "fsdp1" || job.plan.strategy == "fsdp2";
  const bool is_joint = recompute.IsFull() && recompute.method == RecomputeMethod::kUniform;
  if (is_fsdp && is_joint && recompute.num_layers > 1) {
    problems.Report(kPath,
                    fmt::format("found {} with plan.strategy: {}, allowed: 1: a checkpoint lies "
                                "inside one wrapped layer, or its rerun would gather parameters "
                                "that backward has not asked for",
                                recompute.num_layers, job.plan.strategy));
  }
}

}  // namespace stepsim
