#include "models/spec/check_collectives.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "models/spec/job_rules.h"
#include "models/spec/nccl_choice.h"
#include "sim/base/nearest.h"

namespace stepsim {
namespace {

bool IsAlphaBeta(const JobSpec& job) {
  return job.collectives.model == CollectiveModel::kAlphaBeta;
}
bool IsGloo(const JobSpec& job) { return job.collectives.model == CollectiveModel::kGloo; }
bool IsNccl(const JobSpec& job) { return job.collectives.model == CollectiveModel::kNccl; }
bool IsOlderThan(const JobSpec& job, int minor) {
  const auto release = ParseNcclRelease(job.collectives.nccl_version);
  return release.has_value() &&
         (release->major < 2 || (release->major == 2 && release->minor < minor));
}

// What the other models know nothing of.
constexpr std::array<std::string_view, 10> kNcclKeys = {
    "collectives.nccl_version", "collectives.algorithm",          "collectives.protocol",
    "collectives.min_ctas",     "collectives.max_ctas",           "collectives.nvls",
    "collectives.collnet",      "collectives.registered_buffers", "collectives.symmetric_memory",
    "collectives.cta_policy",
};
constexpr std::array kOtherRows = {
    IneffectiveKey{"collectives.corrections", "collectives.model: alpha_beta", IsAlphaBeta},
    IneffectiveKey{"collectives.corrections", "collectives.model: gloo", IsGloo},
    IneffectiveKey{"collectives.gloo_threads", "collectives.model: alpha_beta", IsAlphaBeta},
    IneffectiveKey{"collectives.gloo_threads", "collectives.model: nccl", IsNccl},
    IneffectiveKey{
        "collectives.symmetric_memory",
        "collectives.nccl_version before 2.27, which has no such kernels",
        [](const JobSpec& j) { return j.collectives.symmetric_memory && IsOlderThan(j, 27); }},
    IneffectiveKey{"collectives.cta_policy",
                   "collectives.nccl_version before 2.28, which has no copy engines",
                   [](const JobSpec& j) {
                     return j.collectives.cta_policy == CtaPolicy::kZero && IsOlderThan(j, 28);
                   }},
    IneffectiveKey{"collectives.cta_policy", "collectives.registered_buffers: false",
                   [](const JobSpec& j) {
                     return j.collectives.cta_policy == CtaPolicy::kEfficiency &&
                            !j.collectives.registered_buffers;
                   }},
};
constexpr auto kRows = [] {
  std::array<IneffectiveKey, 2 * kNcclKeys.size() + kOtherRows.size()> rows{};
  std::size_t next = 0;
  for (const std::string_view key : kNcclKeys) {
    rows[next++] = {key, "collectives.model: alpha_beta", IsAlphaBeta};
    rows[next++] = {key, "collectives.model: gloo", IsGloo};
  }
  for (const IneffectiveKey& row : kOtherRows) rows[next++] = row;
  return rows;
}();

class CollectiveChecker {
 public:
  CollectiveChecker(const JobSpec& job, FieldReading& reading)
      : spec_(job.collectives), reading_(reading) {}

  void Check() {
    CheckRelease();
    CheckAllReduce();
    if (spec_.model != CollectiveModel::kNccl) return;
    ReportAll("collectives.algorithm", ParseNcclAlgorithms(spec_.algorithm).problems);
    ReportAll("collectives.protocol", ParseNcclProtocols(spec_.protocol).problems);
    if (spec_.max_ctas > 0 && spec_.min_ctas > spec_.max_ctas) {
      Report("collectives.min_ctas",
             fmt::format("found {}, allowed: at most collectives.max_ctas ({})", spec_.min_ctas,
                         spec_.max_ctas));
    }
  }

 private:
  void Report(std::string_view path, std::string_view message) {
    if (reading_.IsInvalid(path)) return;
    reading_.diagnostics.Add(reading_.PlaceOf(path), fmt::format("{}: {}", path, message));
  }

  void ReportAll(std::string_view path, const std::vector<std::string>& problems) {
    for (const std::string& problem : problems) Report(path, problem);
  }

  void CheckRelease() {
    if (ParseNcclRelease(spec_.nccl_version).has_value()) return;
    Report("collectives.nccl_version",
           fmt::format("found '{}', allowed: a release of NCCL such as 2.18 or 2.27.3",
                       spec_.nccl_version));
  }

  // One name, so that a what-if can compare algorithms.
  void CheckAllReduce() {
    if (spec_.all_reduce.empty()) return;
    std::vector<std::string_view> allowed = {"ring", "hierarchical"};
    if (spec_.model == CollectiveModel::kGloo) allowed.pop_back();
    if (spec_.model == CollectiveModel::kNccl) {
      allowed.clear();
      for (const std::string_view name : NcclAlgorithmNames()) {
        if (name != "pat" && name != "two_level") allowed.push_back(name);
      }
    }
    const NcclChoice choice = ParseNcclAlgorithms(spec_.all_reduce);
    const bool is_one = choice.problems.empty() && choice.lists.size() == 1 &&
                        choice.lists[0].collective.empty() && !choice.lists[0].is_negated &&
                        choice.lists[0].names.size() == 1;
    for (const std::string_view name : allowed) {
      if (is_one && choice.lists[0].names[0] == name) return;
    }
    const std::string nearest = Nearest(spec_.all_reduce, allowed);
    Report("collectives.all_reduce",
           fmt::format("found '{}', allowed: {}{}", spec_.all_reduce, fmt::join(allowed, ", "),
                       nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest)));
  }

  const CollectiveModelSpec& spec_;
  FieldReading& reading_;
};

// The hop latency of one model means nothing to the other. A profile always has both.
void CheckLatencySettings(const JobSpec& job, FieldReading& reading) {
  constexpr std::array<std::string_view, 2> kLinks = {"hardware.intra_node",
                                                      "hardware.network.link"};
  const std::string_view key = IsNccl(job) ? "latency" : "added_latency";
  for (const std::string_view link : kLinks) {
    if (job.nodes == 1 && link != kLinks[0]) continue;  // the network itself has no effect
    const std::string path = fmt::format("{}.{}", link, key);
    const auto given = reading.given.find(path);
    if (given == reading.given.end() || OriginText(given->second) != "--set") continue;
    reading.diagnostics.Add(
        given->second,
        fmt::format("{}: has no effect with collectives.model: {}{}", path,
                    ToString(job.collectives.model), IsNccl(job) ? "; see added_latency" : ""));
  }
}

}  // namespace

std::span<const IneffectiveKey> IneffectiveCollectiveKeys() { return kRows; }

void CheckCollectives(const JobSpec& job, FieldReading& reading) {
  CollectiveChecker(job, reading).Check();
  CheckLatencySettings(job, reading);
}

}  // namespace stepsim
