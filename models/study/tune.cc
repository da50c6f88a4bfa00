#include "models/study/tune.h"

#include <algorithm>
#include <utility>

#include "models/study/tune_points.h"

namespace stepsim {
namespace {

// A change must bring that much to be made, and that much to be kept in the end.
constexpr double kLeastWorth = 0.001;
constexpr double kNeedless = 0.002;
constexpr int kMostRounds = 4;

class Search {
 public:
  Search(const JobVariants& variants, const TuneOptions& options)
      : base_(variants.base().job), options_(options), points_(variants, options, tuning_) {
    tuning_.memory = options.memory.value > 0 ? options.memory : base_.memory_limit();
    for (const Knob& knob : Knobs()) {
      if (options.knobs.empty()) knobs_.push_back(&knob);
    }
    if (knobs_.empty()) knobs_ = options.knobs;
  }

  Tuning Run() {
    points_.AddBase();
    TryEachAlone();
    TrySplits();
    const std::size_t best = Descend(Best());
    points_.IgnoreTime();
    tuning_.winner = WithoutTheNeedless(best);
    points_.LeaveOutTheNeedless(tuning_.points[tuning_.winner]);
    std::vector<TimeAndMemory> all;
    for (const TunePoint& point : tuning_.points) {
      all.push_back({point.seconds, static_cast<double>(point.memory.value)});
    }
    tuning_.pareto = FindPareto(all);
    return std::move(tuning_);
  }

 private:
  std::vector<KnobValue> ValuesOf(const Knob& knob, const JobSpec& job) const {
    if (!knob.applies(job)) return {};
    return knob.values(job, {.keeps_batch = options_.keeps_batch});
  }
  bool Uses(std::string_view name) const {
    return std::any_of(knobs_.begin(), knobs_.end(),
                       [&](const Knob* knob) { return knob->name == name; });
  }

  // All values of all knobs in one batch: there is work for every core.
  void TryEachAlone() {
    std::vector<TuneState> states;
    for (const Knob* knob : knobs_) {
      KnobCurve curve{knob, {}, {}};
      for (const KnobValue& value : ValuesOf(*knob, base_)) {
        states.push_back(TuneState{}.With(*knob, value));
        curve.values.push_back({value.label, {}, "", false});
      }
      if (!curve.values.empty()) tuning_.curves.push_back(std::move(curve));
    }
    const std::vector<Tried> tried = points_.Try(states);
    std::size_t next = 0;
    for (KnobCurve& curve : tuning_.curves) {
      for (TriedKnobValue& value : curve.values) {
        value.point = tried[next].point;
        value.problem = tried[next++].problem;
        value.is_base = value.point == std::size_t{0};
      }
      Finish(curve);
    }
  }

  void Finish(KnobCurve& curve) const {
    const auto is_base = [](const TriedKnobValue& value) { return value.is_base; };
    if (std::none_of(curve.values.begin(), curve.values.end(), is_base)) {
      curve.values.insert(curve.values.begin(), {"as it is", 0, "", true});
    }
    std::vector<std::optional<double>> times;
    for (const TriedKnobValue& value : curve.values) {
      const bool counts = value.point && tuning_.points[*value.point].fits;
      times.push_back(counts ? std::optional(tuning_.points[*value.point].seconds) : std::nullopt);
    }
    curve.plateau = FindPlateau(times);
  }

  // Every split of the GPUs with every micro-batch: the two depend on each other.
  void TrySplits() {
    const Knob& split = *FindKnob("split");
    const Knob& micro_batch = *FindKnob("micro_batch");
    if (!Uses(split.name) || !Uses(micro_batch.name)) return;
    std::vector<TuneState> states;
    for (const KnobValue& value : ValuesOf(split, base_)) {
      const TuneState state = TuneState{}.With(split, value);
      const std::optional<JobSpec> job = points_.JobOf(state);
      if (!job) continue;  // counted when it was tried alone
      for (const KnobValue& micro : ValuesOf(micro_batch, *job)) {
        states.push_back(state.With(micro_batch, micro));
      }
    }
    points_.Try(states);
  }

  std::size_t Best() const {
    std::size_t best = 0;
    for (std::size_t i = 1; i < tuning_.points.size(); ++i) {
      if (points_.IsBetter(i, best)) best = i;
    }
    return best;
  }

  std::size_t Descend(std::size_t current) {
    for (bool has_moved = true; has_moved && tuning_.rounds < kMostRounds; ++tuning_.rounds) {
      has_moved = false;
      for (const Knob* knob : knobs_) {
        if (tuning_.skipped > 0) return current;
        const std::size_t next = BestOf(*knob, current);
        has_moved = has_moved || next != current;
        current = next;
      }
    }
    return current;
  }

  std::size_t BestOf(const Knob& knob, std::size_t current) {
    const TuneState state = points_.StateOf(current);
    const std::optional<JobSpec> job = points_.JobOf(state);
    if (!job) return current;
    std::vector<TuneState> states;
    for (const KnobValue& value : ValuesOf(knob, *job)) states.push_back(state.With(knob, value));
    std::size_t best = current;
    for (const Tried& tried : points_.Try(states)) {
      if (tried.point && points_.IsBetter(*tried.point, best)) best = *tried.point;
    }
    return points_.IsBetter(best, current, kLeastWorth) ? best : current;
  }

  // Choices without which the step is as fast are taken back: short advice is good advice.
  std::size_t WithoutTheNeedless(std::size_t best) {
    std::size_t current = best;
    for (std::size_t i = 0; i < points_.StateOf(current).choices.size();) {
      const std::optional<std::size_t> fewer =
          points_.Try({points_.StateOf(current).Without(i)}).front().point;
      const bool is_as_good =
          fewer && !points_.IsBetter(best, *fewer, kNeedless) && !points_.IsBetter(0, *fewer);
      if (is_as_good &&
          points_.StateOf(*fewer).choices.size() < points_.StateOf(current).choices.size()) {
        current = *fewer;
        i = 0;
      } else {
        ++i;
      }
    }
    return current;
  }

  const JobSpec& base_;
  const TuneOptions& options_;
  std::vector<const Knob*> knobs_;
  Tuning tuning_;
  TunePoints points_;
};

}  // namespace

Tuning Tune(const JobVariants& variants, const TuneOptions& options) {
  return Search(variants, options).Run();
}

}  // namespace stepsim
