#include "models/study/diagnosis.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "sim/base/time.h"

namespace stepsim {
namespace {

struct StallRow {
  std::string_view what;  // of a ceiling
  std::string_view words;
  bool is_plural = false;
};
constexpr std::array kStalls = {
    StallRow{"gradient_reduce", "the gradient reduce"},
    StallRow{"parameter_gather", "the parameter gather"},
    StallRow{"tensor_parallel", "the tensor-parallel collectives", true},
    StallRow{"pipeline_transfer", "the pipeline transfers", true},
    StallRow{"context_parallel", "the context-parallel exchange of keys and values"},
    StallRow{"expert_parallel", "the exchange of tokens with the experts"},
    StallRow{"optimizer", "the optimizer's communication"},
    StallRow{"communication", "the communication of several sites together"},
    StallRow{"bubble", "the pipeline bubble"},
    StallRow{"host", "the host"},
    StallRow{"contention", "contention of what runs at once"},
    StallRow{"slow ranks", "the ranks that are slower than others", true},
};

const StallRow* FindStall(std::string_view what) {
  const auto row = std::find_if(kStalls.begin(), kStalls.end(),
                                [what](const StallRow& r) { return r.what == what; });
  return row == kStalls.end() ? nullptr : &*row;
}

std::string Percent(double share) { return fmt::format("{:.1f}%", share * 100); }

// The cause of most of what is exposed at a site.
const ExposureCauseRow* MainCause(const std::vector<CollectiveGroup>& groups,
                                  std::string_view site) {
  std::vector<Duration> by_cause(ExposureCauses().size());
  for (const CollectiveGroup& group : groups) {
    if (ToString(group.first().site) != site) continue;
    by_cause[static_cast<std::size_t>(group.largest->cause_kind)] += group.exposed;
  }
  const auto most = std::max_element(by_cause.begin(), by_cause.end());
  if (*most == Duration::zero()) return nullptr;
  return &DescribeCause(static_cast<ExposureCause>(most - by_cause.begin()));
}

// "exposed for 12.3% of it, " of a site.
std::string ExposedText(const StepReport& report, std::string_view stall) {
  const RankAccount& account = report.account();
  for (std::size_t s = 0; s < kSiteCount; ++s) {
    if (ToString(static_cast<Site>(s)) != stall) continue;
    const double exposed = ToSeconds(account.exposed[s]) / ToSeconds(account.step);
    return fmt::format("exposed for {} of it, ", Percent(exposed));
  }
  return "";
}

std::string NothingText(const StepReport& report, double most) {
  const RankAccount& account = report.account();
  const double compute = ToSeconds(account.compute + account.contention) / ToSeconds(account.step);
  return fmt::format(
      "nothing: compute-bound. Compute is {} of the step; without any communication, bubble or "
      "wait "
      "for the host it would be at most {} shorter",
      Percent(compute), Percent(most));
}

}  // namespace

std::string StallInWords(const std::string& what) {
  const StallRow* row = FindStall(what);
  return row == nullptr ? what : std::string(row->words);
}

double GainOf(const std::vector<Ceiling>& ceilings, std::string_view what, Duration step) {
  for (const Ceiling& ceiling : ceilings) {
    if (ceiling.what == what) return 1 - ToSeconds(ceiling.step) / ToSeconds(step);
  }
  return 0;
}

Diagnosis Diagnose(const StepReport& report, const std::vector<CollectiveGroup>& groups,
                   const std::vector<Ceiling>& ceilings) {
  const Duration step = report.account().step;
  std::vector<Diagnosis> stalls;
  double together = 0;
  for (const Ceiling& ceiling : ceilings) {
    const double gain = GainOf(ceilings, ceiling.what, step);
    if (ceiling.what == "communication") {
      together = gain;
    } else {
      stalls.push_back({ceiling.what, "", gain});
    }
  }
  std::stable_sort(stalls.begin(), stalls.end(),
                   [](const Diagnosis& a, const Diagnosis& b) { return a.gain > b.gain; });
  const double largest = stalls.empty() ? 0 : stalls.front().gain;
  if (largest < kLeastStall && together < kLeastStall) {
    return {"nothing", NothingText(report, std::max(largest, together)), 0};
  }
  if (largest < kLeastStall) stalls = {{"communication", "", together}};
  Diagnosis diagnosis = stalls.front();
  const StallRow* row = FindStall(diagnosis.stall);
  diagnosis.text =
      fmt::format("{} {} the step: {}{} shorter without", StallInWords(diagnosis.stall),
                  row != nullptr && row->is_plural ? "stall" : "stalls",
                  ExposedText(report, diagnosis.stall), Percent(diagnosis.gain));
  if (const ExposureCauseRow* cause = MainCause(groups, diagnosis.stall); cause != nullptr) {
    diagnosis.text += fmt::format("; mostly {}", cause->meaning);
  }
  for (std::size_t i = 1; i < stalls.size() && stalls[i].gain >= kLeastStall; ++i) {
    diagnosis.text += fmt::format("{} {} ({})", i == 1 ? ". Then" : ",",
                                  StallInWords(stalls[i].stall), Percent(stalls[i].gain));
  }
  return diagnosis;
}

}  // namespace stepsim
