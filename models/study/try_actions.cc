#include "models/study/try_actions.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "models/job_change.h"
#include "models/study/target.h"
#include "models/study/try_step.h"
#include "sim/base/diagnostics.h"

namespace stepsim {
namespace {

struct Candidate {
  std::string name;
  Against against = Against::kAnything;
  std::vector<Changes> candidates;
  std::string_view price;
};

Changes SplitSettings(std::string_view settings) {
  Changes changes;
  while (!settings.empty()) {
    const std::size_t end = std::min(settings.find(' '), settings.size());
    changes.emplace_back(settings.substr(0, end));
    settings.remove_prefix(std::min(end + 1, settings.size()));
  }
  return changes;
}

// A row of another table of advice. Recomputing more never makes a step faster.
void AddRows(const JobSpec& job, std::span<const JobChange> rows, Against against,
             std::vector<Candidate>* candidates) {
  constexpr std::string_view kRecompute = "recompute";
  for (const JobChange& row : rows) {
    if (row.settings.empty() || row.settings.substr(0, kRecompute.size()) == kRecompute) continue;
    if (!row.applies(job)) continue;
    candidates->push_back({std::string(row.settings), against, {SplitSettings(row.settings)}, ""});
  }
}

std::vector<Candidate> CandidatesOf(const JobSpec& job) {
  std::vector<Candidate> candidates;
  if (job.gpus() > 1 && job.plan.communicates()) {
    AddRows(job, CostlyChanges(), Against::kCommunication, &candidates);
  }
  for (const NextAction& action : NextActions()) {
    if (!action.applies(job)) continue;
    candidates.push_back(
        {std::string(action.name), action.against, action.candidates(job), action.price});
  }
  AddRows(job, MemoryChanges(), Against::kAnything, &candidates);
  return candidates;
}

class Trier {
 public:
  Trier(const JobVariants& variants, const StepReport& base) : variants_(variants), base_(base) {}

  // nullopt: not possible in this job, or nothing new.
  std::optional<TriedAction> Try(const Candidate& candidate, const Changes& changes) {
    TriedAction tried;
    try {
      const ResolvedJob job = variants_.With(changes, &tried.changes);
      if (job.resolved_json == variants_.base().resolved_json) return std::nullopt;
      if (!known_.insert(job.resolved_json).second) return std::nullopt;
      tried.report = TryStep(job);
    } catch (const ConfigError&) {
      return std::nullopt;
    } catch (const SimulationError&) {
      return std::nullopt;
    }
    const double now = GpuSecondsPerToken(base_);
    tried.name = candidate.name;
    tried.price = candidate.price;
    tried.gain = now > 0 ? 1 - GpuSecondsPerToken(tried.report) / now : 0;
    tried.fits = MemoryWarning(tried.report).empty();
    tried.is_per_token = tried.report.context.samples_per_step != base_.context.samples_per_step;
    return tried;
  }

 private:
  const JobVariants& variants_;
  const StepReport& base_;
  std::set<std::string> known_;  // jobs that were tried
};

bool IsBetter(const TriedAction& a, const TriedAction& b) {
  return a.fits != b.fits ? a.fits : a.gain > b.gain;
}

}  // namespace

double ActionRoom::Of(Against against) const {
  switch (against) {
    case Against::kCommunication:
      return communication;
    case Against::kBubble:
      return bubble;
    case Against::kHost:
      return host;
    case Against::kAnything:
      break;
  }
  return 1;
}

const TriedAction* TriedActions::best() const {
  for (const TriedAction& action : gains) {
    if (action.fits && action.price != kBuysHardware) return &action;
  }
  return nullptr;
}

TriedActions TryActions(const JobVariants& variants, const StepReport& base, const ActionRoom& room,
                        std::size_t most_tries) {
  TriedActions result;
  Trier trier(variants, base);
  std::size_t tries = 0;
  for (const Candidate& candidate : CandidatesOf(variants.base().job)) {
    if (room.Of(candidate.against) < kLeastGain) {
      ++result.pointless;
      continue;
    }
    if (tries >= most_tries) {
      result.skipped.push_back(candidate.name);
      continue;
    }
    std::optional<TriedAction> best;
    for (const Changes& changes : candidate.candidates) {
      if (tries >= most_tries) break;
      std::optional<TriedAction> tried = trier.Try(candidate, changes);
      if (!tried) continue;
      ++tries;
      if (!best || IsBetter(*tried, *best)) best = std::move(tried);
    }
    if (!best) continue;
    if (best->gain < kLeastGain) {
      ++result.useless;
    } else {
      result.gains.push_back(*std::move(best));
    }
  }
  std::stable_sort(result.gains.begin(), result.gains.end(), IsBetter);
  return result;
}

}  // namespace stepsim
