#include <fmt/format.h>

#include <map>
#include <string>

#include "models/spec/job_rules.h"
#include "models/spec/mesh_order.h"
#include "models/spec/rank_pace.h"

namespace stepsim {
namespace {

constexpr std::string_view kStragglers = "simulate.stragglers";
constexpr double kLeast = 0.1, kMost = 100;

bool IsFactor(double factor) { return factor >= kLeast && factor <= kMost; }

bool IsFolded(const JobSpec& job) { return !job.simulate.all_ranks; }

// Of folded ranks those that stand for a stage of the pipeline: 0, and so on in its direction.
bool IsStage(const JobSpec& job, std::int64_t rank) {
  const std::int64_t stride = MeshStride(job, "pp");
  return rank % stride == 0 && rank / stride < job.plan.pipeline_parallel;
}

std::string WhereFolded(const JobSpec& job) {
  if (job.plan.pipeline_parallel == 1) return "with simulate.ranks: all";
  return fmt::format(
      "with simulate.ranks: all, or for all ranks of a stage, of which the first "
      "are 0 to {} in steps of {}",
      (job.plan.pipeline_parallel - 1) * MeshStride(job, "pp"), MeshStride(job, "pp"));
}

void CheckStraggler(const JobProblems& problems, const std::string& text) {
  const JobSpec& job = problems.job;
  const std::optional<Straggler> straggler = ParseStraggler(text);
  if (!straggler || !IsFactor(straggler->factor)) {
    problems.Report(kStragglers,
                    fmt::format("found '{}', allowed: RANK:FACTOR with a factor from {} to {}, as "
                                "3:1.2 for a rank whose kernels take 1.2 times as long",
                                text, kLeast, kMost));
    return;
  }
  if (straggler->rank >= job.gpus()) {
    problems.Report(kStragglers, fmt::format("found rank {} in '{}', allowed: 0 to {}",
                                             straggler->rank, text, job.gpus() - 1));
    return;
  }
  const bool has_stages = job.plan.pipeline_parallel > 1;
  if (IsFolded(job) && !(has_stages && IsStage(job, straggler->rank))) {
    problems.Report(kStragglers, fmt::format("found '{}' with simulate.ranks: folded, where one "
                                             "rank stands for its peers, allowed: {}",
                                             text, WhereFolded(job)));
  }
}

}  // namespace

void CheckSimulate(const JobProblems& problems) {
  const JobSpec& job = problems.job;
  if (problems.AnyInvalid({kStragglers, "simulate.jitter", "simulate.ranks", "nodes",
                           "gpus_per_node", "plan.pipeline_parallel", "plan.mesh_order"})) {
    return;
  }
  std::map<std::int64_t, double> factors;  // of one rank they multiply
  for (const std::string& text : job.simulate.stragglers) {
    CheckStraggler(problems, text);
    const std::optional<Straggler> straggler = ParseStraggler(text);
    if (!straggler || !IsFactor(straggler->factor)) continue;
    const double factor = factors.try_emplace(straggler->rank, 1).first->second *=
        straggler->factor;
    if (IsFactor(factor)) continue;
    problems.Report(kStragglers, fmt::format("found factors of rank {} that multiply to {}, "
                                             "allowed: {} to {}",
                                             straggler->rank, factor, kLeast, kMost));
    break;
  }
  if (job.simulate.jitter > 0 && IsFolded(job) && job.plan.pipeline_parallel == 1) {
    problems.Report("simulate.jitter",
                    fmt::format("found {} with simulate.ranks: folded, where one rank stands for "
                                "all and nobody waits for another, allowed: 0, or "
                                "simulate.ranks: all",
                                job.simulate.jitter));
  }
}

}  // namespace stepsim
