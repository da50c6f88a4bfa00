#include "models/host_pace.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "models/spec/check_job.h"
#include "sim/base/units.h"

namespace stepsim {
namespace {

constexpr double kNotableShare = 0.02;  // of the step

// What makes the host cheaper, is not done yet and can be done in this job.
std::string Remedies(const JobSpec& job) {
  std::vector<std::string> remedies;
  const auto add = [&](std::string remedy, const JobSpec& changed) {
    if (!IsPossible(changed)) return;
    for (const std::string& path : KeysToTakeOut(changed)) {
      remedy += fmt::format(" without {}", path);
    }
    remedies.push_back(std::move(remedy));
  };
  if (job.host.synchronize) remedies.emplace_back("host.synchronize: false");
  if (!job.host.cuda_graphs) {
    JobSpec captured = job;
    captured.host.cuda_graphs = true;
    add("host.cuda_graphs: true", captured);
  }
  const bool is_transformer = std::holds_alternative<TransformerSpec>(job.model.network);
  if (is_transformer && job.kernels != KernelMode::kCompiled) {
    remedies.emplace_back("kernels: compiled");
  }
  remedies.emplace_back("a larger micro-batch");
  return fmt::format("{}", fmt::join(remedies, ", "));
}

std::string Launches(const HostWork& work) {
  const std::int32_t kernels = work.launches + work.collective_calls;
  if (kernels == 0) return fmt::format("{} CUDA graphs", work.graph_launches);
  return fmt::format("{} kernels", FormatCount(kernels));
}

}  // namespace

Duration WithinHostPace(const JobSpec& job, const HostPace& pace, Duration without, Duration now) {
  const Duration least = job.host.synchronize ? Duration::zero() : std::min(pace.time, now);
  return std::clamp(without, least, now);
}

void LimitCeilings(const HostPace& pace, StepReport* report) {
  const Duration most = std::max(Duration::zero(), report->account().step - pace.time);
  for (CollectiveReport& collective : report->collectives) {
    if (pace.is_slower() && collective.exposed > Duration::zero()) collective.saved = Duration{};
    if (collective.saved) collective.saved = std::min(*collective.saved, most);
  }
}

void AddHostWarning(const JobSpec& job, const HostPace& pace, StepReport* report) {
  std::vector<std::string>& warnings = report->context.warnings;
  const Duration host = report->account().host;
  if (job.host.synchronize) {
    if (ToSeconds(host) <= kNotableShare * report->step_time_s()) return;
    warnings.push_back(
        fmt::format("the device waits {} for launches: the host starts each step with "
                    "an empty queue; what helps: {}",
                    FormatTime(host), Remedies(job)));
  } else if (HostReadsExpertCounts(job)) {
    if (ToSeconds(host) <= kNotableShare * report->step_time_s()) return;
    warnings.push_back(
        fmt::format("the device waits {} for launches: the host waits in every layer for the "
                    "number of tokens of each expert; what helps: plan.expert.pad_to_capacity, {}",
                    FormatTime(host), Remedies(job)));
  } else if (pace.is_slower()) {
    warnings.push_back(fmt::format(
        "launch-bound: the host takes {} to launch {}, the device could run them in {}; what "
        "helps: "
        "{}",
        FormatTime(pace.time), Launches(pace.work), FormatTime(pace.device), Remedies(job)));
  }
}

}  // namespace stepsim
