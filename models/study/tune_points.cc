#include "models/study/tune_points.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "models/spec/check_job.h"
#include "models/study/target.h"
#include "models/study/try_step.h"

namespace stepsim {
namespace {

std::string PathOf(const std::string& change) { return change.substr(0, change.find('=')); }

// A later value of the same key holds.
void Lay(const Changes& over, Changes* changes) {
  for (const std::string& change : over) {
    const std::string path = PathOf(change);
    std::erase_if(*changes, [&](const std::string& old) { return PathOf(old) == path; });
    changes->push_back(change);
  }
}

bool IsNull(const std::string& change) { return change.substr(change.find('=')) == "=null"; }

TunePoint PointOf(const StepReport& report, const JobSpec& job) {
  TunePoint point;
  point.step = report.account().step;
  point.samples = report.context.samples_per_step;
  point.exposed = ValueOf(TargetKind::kExposed, report);
  point.mfu = Mfu(report, job.mfu_convention);
  point.memory = report.memory.total;
  return point;
}

}  // namespace

void ForEachInOrder(std::size_t count, const std::function<void(std::size_t)>& body) {
  for (std::size_t i = 0; i < count; ++i) body(i);
}

TuneState TuneState::With(const Knob& knob, const KnobValue& value) const {
  TuneState state = *this;
  std::erase_if(state.choices, [&](const Choice& choice) { return choice.knob == &knob; });
  state.choices.push_back({&knob, value});
  return state;
}

TuneState TuneState::Without(std::size_t choice) const {
  TuneState state = *this;
  state.choices.erase(state.choices.begin() + static_cast<std::ptrdiff_t>(choice));
  return state;
}

std::string TuneState::Label() const {
  std::string label;
  for (const Choice& choice : choices) {
    label +=
        fmt::format("{}{} {}", label.empty() ? "" : ", ", choice.knob->name, choice.value.label);
  }
  return label.empty() ? "as it is" : label;
}

struct TunePoints::Loaded {
  std::optional<ResolvedJob> job;
  Changes changes;
  std::string problem;
  bool is_skipped = false;
  bool is_refused = false;  // by what prices the step
  std::optional<TunePoint> point;
};

TunePoints::TunePoints(const JobVariants& variants, const TuneOptions& options, Tuning& tuning)
    : variants_(variants), options_(options), tuning_(tuning) {}

void TunePoints::AddBase() {
  const ResolvedJob& base = variants_.base();
  TunePoint point = PointOf(TryStep(base), base.job);
  point.label = TuneState{}.Label();
  point.seconds = ToSeconds(point.step);
  point.fits = point.memory <= tuning_.memory;
  tuning_.points.push_back(std::move(point));
  states_.emplace_back();
  by_job_[base.resolved_json] = {0, ""};
}

// What earlier choices set and a later one leaves without effect is dropped; what the base job
// gives and has no effect any more is taken out, and said.
TunePoints::Loaded TunePoints::Load(const TuneState& state) const {
  Loaded loaded;
  Changes last;
  for (const TuneState::Choice& choice : state.choices) {
    Lay(choice.value.changes, &loaded.changes);
    last = choice.value.changes;
  }
  const std::vector<std::string>& given = variants_.base().job.given;
  std::erase_if(loaded.changes, [&](const std::string& change) {
    return IsNull(change) && std::count(given.begin(), given.end(), PathOf(change)) == 0;
  });
  while (true) {
    try {
      loaded.job = variants_.With(loaded.changes);
      break;
    } catch (const ConfigError& error) {
      if (!DropIdle(error, last, &loaded.changes)) {
        loaded.problem = error.diagnostics().front().message;
        return loaded;
      }
    }
  }
  JobSpec job = loaded.job->job;
  job.given = given;
  for (const std::string& path : KeysToTakeOut(job)) {
    const bool is_set =
        std::any_of(loaded.changes.begin(), loaded.changes.end(),
                    [&](const std::string& change) { return IsAtOrBelow(PathOf(change), path); });
    if (!is_set) loaded.changes.push_back(path + "=null");
  }
  return loaded;
}

bool TunePoints::DropIdle(const ConfigError& error, const Changes& last, Changes* changes) {
  const std::size_t before = changes->size();
  for (const Diagnostic& problem : error.diagnostics()) {
    if (problem.idle_key.empty()) return false;
    const auto is_idle = [&](const std::string& change) {
      return IsAtOrBelow(PathOf(change), problem.idle_key);
    };
    if (std::any_of(last.begin(), last.end(), is_idle)) return false;
    std::erase_if(*changes, is_idle);
  }
  return changes->size() < before;
}

std::optional<JobSpec> TunePoints::JobOf(const TuneState& state) const {
  Loaded loaded = Load(state);
  if (!loaded.job) return std::nullopt;
  return std::move(loaded.job->job);
}

bool TunePoints::IsOver() const { return !ignores_time_ && options_.is_over && options_.is_over(); }

void TunePoints::Simulate(Loaded& loaded) const {
  loaded.is_skipped = IsOver();
  if (loaded.is_skipped) return;
  try {
    loaded.point = PointOf(TryStep(*loaded.job), loaded.job->job);
  } catch (const ConfigError& error) {  // NCCL has no such algorithm for one of the collectives
    loaded.problem = error.diagnostics().front().message;
    loaded.is_refused = true;
  } catch (const SimulationError& error) {
    loaded.problem = error.what();
  }
}

std::vector<Tried> TunePoints::Try(const std::vector<TuneState>& states) {
  std::vector<Loaded> loaded(states.size());
  options_.for_each(states.size(), [&](std::size_t i) {
    if (!IsOver()) loaded[i] = Load(states[i]);
  });
  const std::vector<std::size_t> fresh = FindFresh(loaded);
  options_.for_each(fresh.size(), [&](std::size_t i) { Simulate(loaded[fresh[i]]); });
  for (const std::size_t i : fresh) Add(states[i], loaded[i]);
  std::vector<Tried> tried;
  for (const Loaded& each : loaded) {
    if (!each.job) {
      tried.push_back(
          {std::nullopt, each.problem.empty() ? std::string(kOutOfTime) : each.problem});
      tuning_.skipped += each.problem.empty() ? 1 : 0;
      continue;
    }
    const auto found = by_job_.find(each.job->resolved_json);
    tried.push_back(found != by_job_.end() ? found->second
                                           : Tried{std::nullopt, std::string(kOutOfTime)});
  }
  return tried;
}

// The first of each job that was not simulated before, as many as are still allowed.
std::vector<std::size_t> TunePoints::FindFresh(const std::vector<Loaded>& loaded) {
  std::vector<std::size_t> fresh;
  std::set<std::string_view> seen;
  for (std::size_t i = 0; i < loaded.size(); ++i) {
    if (!loaded[i].job) {
      const bool is_new = !loaded[i].problem.empty() && refused_.insert(loaded[i].changes).second;
      if (is_new) ++tuning_.refused;
      continue;
    }
    const std::string& key = loaded[i].job->resolved_json;
    if (by_job_.count(key) > 0 || !seen.insert(key).second) continue;
    const bool is_full =
        options_.most_points > 0 && tuning_.points.size() + fresh.size() >= options_.most_points;
    if (is_full) {
      ++tuning_.skipped;
    } else {
      fresh.push_back(i);
    }
  }
  return fresh;
}

void TunePoints::Add(const TuneState& state, Loaded& loaded) {
  if (loaded.is_skipped) {
    ++tuning_.skipped;
    return;
  }
  Tried& tried = by_job_[loaded.job->resolved_json];
  if (!loaded.point) {
    ++(loaded.is_refused ? tuning_.refused : tuning_.failed);
    tried.problem = loaded.problem;
    return;
  }
  TunePoint& point = *loaded.point;
  const TunePoint& base = tuning_.points.front();
  if (options_.keeps_batch && point.samples != base.samples) {
    ++tuning_.refused;
    tried.problem = fmt::format("{} samples in a step, not {}", point.samples, base.samples);
    return;
  }
  point.label = state.Label();
  point.changes = loaded.changes;
  point.seconds = ToSeconds(point.step) * base.samples / point.samples;
  point.fits = point.memory <= tuning_.memory;
  tried.point = tuning_.points.size();
  tuning_.points.push_back(std::move(point));
  states_.push_back(state);
}

bool TunePoints::IsBetter(std::size_t a, std::size_t b, double margin) const {
  const TunePoint& x = tuning_.points[a];
  const TunePoint& y = tuning_.points[b];
  if (x.fits != y.fits) return x.fits;
  if (!x.fits && x.memory != y.memory) return x.memory < y.memory;
  return x.seconds < y.seconds * (1 - margin);
}

void TunePoints::LeaveOutTheNeedless(TunePoint& point) const {
  const std::string wanted = variants_.With(point.changes).resolved_json;
  for (std::size_t i = 0; i < point.changes.size();) {
    Changes fewer = point.changes;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    bool is_same = false;
    try {
      is_same = variants_.With(fewer).resolved_json == wanted;
    } catch (const ConfigError&) {
    }
    // What With takes out by itself has to be said to `stepsim run`.
    if (is_same && !IsNull(point.changes[i])) {
      point.changes = std::move(fewer);
    } else {
      ++i;
    }
  }
}

}  // namespace stepsim
