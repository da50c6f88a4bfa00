// The points of a search: each job simulated once, many at a time, in an order that does not depend
// on threads.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "models/study/tune.h"
#include "sim/base/diagnostics.h"

namespace stepsim {

// What was set, knob by knob: the latest last.
struct TuneState {
  struct Choice {
    const Knob* knob = nullptr;
    KnobValue value;
  };
  std::vector<Choice> choices;

  TuneState With(const Knob& knob, const KnobValue& value) const;  // instead of the knob's old one
  TuneState Without(std::size_t choice) const;
  std::string Label() const;
};

struct Tried {
  std::optional<std::size_t> point;
  std::string problem;
};

class TunePoints {
 public:
  TunePoints(const JobVariants& variants, const TuneOptions& options, Tuning& tuning);

  // The base job, as point 0. Throws what the job throws.
  void AddBase();
  // As many answers as states, in their order.
  std::vector<Tried> Try(const std::vector<TuneState>& states);
  // A job with these settings, for knobs to look at; nullopt: refused.
  std::optional<JobSpec> JobOf(const TuneState& state) const;

  // Is `a` to be preferred? One that fits to one that does not, then the faster one by more than
  // `margin`; where neither fits, the leaner one.
  bool IsBetter(std::size_t a, std::size_t b, double margin = 0) const;

  const TuneState& StateOf(std::size_t point) const { return states_[point]; }
  // From here on there is time for everything.
  void IgnoreTime() { ignores_time_ = true; }
  // Takes out of the point's changes what the job has anyway.
  void LeaveOutTheNeedless(TunePoint& point) const;

 private:
  struct Loaded;

  static bool DropIdle(const ConfigError& error, const Changes& last, Changes* changes);
  Loaded Load(const TuneState& state) const;
  std::vector<std::size_t> FindFresh(const std::vector<Loaded>& loaded);
  void Simulate(Loaded& loaded) const;
  void Add(const TuneState& state, Loaded& loaded);
  bool IsOver() const;

  const JobVariants& variants_;
  const TuneOptions& options_;
  Tuning& tuning_;
  bool ignores_time_ = false;
  std::vector<TuneState> states_;        // of each point
  std::map<std::string, Tried> by_job_;  // by the resolved job
  std::set<Changes> refused_;            // by the rules of the job, each counted once
};

}  // namespace stepsim
