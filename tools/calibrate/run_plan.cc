#include "tools/calibrate/run_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace stepsim::measure {
namespace {

constexpr double kShortestSample = 200e-6;  // below it, time stamps and launches are in the way
constexpr int kMostInner = 256;
constexpr int kFewestRepeats = 5;
constexpr int kFewestOfSlow = 3;  // where a single sample takes longer than a task should
constexpr int kMostRepeats = 200;
constexpr int kGrowth = 8;
constexpr double kTick = 1e-9;
constexpr double kUsualItem = 0.3;  // seconds of repeating one task
constexpr double kLongestItem = 0.5, kShortestItem = 0.02;
constexpr double kPatience = 2;     // times of a task that is slower than it seemed
constexpr double kRepeating = 0.6;  // of a budget; the rest goes into preparing and warming up

class Runner {
 public:
  Runner(const std::vector<PlannedTask>& plan, Backend& backend, Peers& peers,
         const RunOptions& options, RunListener& listener)
      : plan_(plan),
        backend_(backend),
        peers_(peers),
        options_(options),
        listener_(listener),
        begin_(options.seconds()) {
    item_s_ = kUsualItem;
    if (std::isfinite(options.budget_s) && !plan.empty()) {
      const double share = kRepeating * options.budget_s / static_cast<double>(plan.size());
      item_s_ = std::clamp(share, kShortestItem, kLongestItem);
    }
  }

  RunOutcome Run() {
    RunOutcome outcome;
    for (; outcome.next < plan_.size(); ++outcome.next) {
      const MeasureTask& task = plan_[outcome.next].task;
      outcome.end = WhyStop(task);
      if (outcome.end != RunEnd::kComplete) return outcome;
      listener_.OnStart(outcome.next, task);
      const double begin = options_.seconds();
      if (Measure(task)) {
        ++outcome.measured;
      } else {
        ++outcome.refused;
      }
      Seen& seen = seen_[task.index()];
      seen.seconds += options_.seconds() - begin;
      ++seen.count;
    }
    return outcome;
  }

 private:
  struct Seen {
    double seconds = 0;
    int count = 0;
  };

  // The same on all ranks: the first of them that wants to stop stops all.
  RunEnd WhyStop(const MeasureTask& task) {
    RunEnd end = RunEnd::kComplete;
    const Seen& seen = seen_[task.index()];
    const double expected = seen.count > 0 ? seen.seconds / seen.count : 0;
    if (options_.seconds() - begin_ + expected >= options_.budget_s) end = RunEnd::kBudget;
    if (options_.is_interrupted()) end = RunEnd::kInterrupted;
    return static_cast<RunEnd>(static_cast<int>(peers_.Max(static_cast<double>(end))));
  }

  bool Measure(const MeasureTask& task) {
    std::string reason;
    std::unique_ptr<Prepared> ready;
    try {
      ready = backend_.Prepare(task);
    } catch (const CannotMeasure& error) {
      reason = error.what();
    }
    if (peers_.Max(reason.empty() ? 0 : 1) > 0) {
      listener_.OnRefused(task, reason.empty() ? "another rank cannot measure it" : reason);
      return false;
    }
    backend_.Disturbance();  // what was before does not count
    const int inner = WarmUp(*ready);
    const int repeats = RepeatsFor(*ready, inner);
    Measured measured{task, {}, 0, peers_.ranks(), peers_.nodes(), {}, ""};
    measured.columns = Repeat(*ready, inner, repeats, &measured);
    measured.facts = ready->Facts();
    if (const std::string late = backend_.Disturbance(); !late.empty()) measured.note = late;
    listener_.OnMeasured(measured);
    return true;
  }

  // How often the work is repeated within a sample: more and more often, until that takes long
  // enough. In small steps, because the first ones may have been lucky.
  int WarmUp(Prepared& ready) {
    ready.Take(1);  // connections, lazy loading
    for (int inner = 1;;) {
      const double seconds = peers_.Max(ready.Take(inner).front() * inner);
      listener_.OnSample();
      if (seconds >= kShortestSample || inner == kMostInner) return inner;
      const double wanted = std::ceil(inner * kShortestSample / std::max(seconds, kTick));
      inner = static_cast<int>(
          std::clamp<double>(wanted, inner + 1, std::min(kMostInner, kGrowth * inner)));
    }
  }

  int RepeatsFor(Prepared& ready, int inner) {
    const double begin = options_.seconds();
    ready.Take(inner);
    const double seconds = peers_.Max(options_.seconds() - begin);
    if (seconds * kMostRepeats <= item_s_) return kMostRepeats;
    const int fewest = seconds > item_s_ ? kFewestOfSlow : kFewestRepeats;
    return std::clamp(static_cast<int>(item_s_ / seconds), fewest, kMostRepeats);
  }

  std::vector<Spread> Repeat(Prepared& ready, int inner, int repeats, Measured* measured) {
    const bool is_collective = IsCollective(measured->task);
    std::vector<std::vector<double>> values;
    const double begin = options_.seconds();
    for (int i = 0; i < repeats; ++i) {
      const Sample sample = ready.Take(inner);
      listener_.OnSample();
      if (i == repeats / 2) measured->note = backend_.Disturbance();
      values.resize(sample.size());
      for (std::size_t column = 0; column < sample.size(); ++column) {
        const double value = is_collective ? peers_.Max(sample[column]) : sample[column];
        values[column].push_back(value);
      }
      const double elapsed = peers_.Max(options_.seconds() - begin);
      if (i + 1 >= kFewestOfSlow && elapsed > kPatience * item_s_) break;
    }
    measured->repeats = static_cast<int>(values.front().size());
    std::vector<Spread> columns;
    for (auto& column : values) columns.push_back(Summarize(std::move(column)));
    return columns;
  }

  const std::vector<PlannedTask>& plan_;
  Backend& backend_;
  Peers& peers_;
  const RunOptions& options_;
  RunListener& listener_;
  double begin_;
  double item_s_ = 0;
  std::array<Seen, std::variant_size_v<MeasureTask>> seen_;
};

}  // namespace

RunOutcome RunPlan(const std::vector<PlannedTask>& plan, Backend& backend, Peers& peers,
                   const RunOptions& options, RunListener& listener) {
  return Runner(plan, backend, peers, options, listener).Run();
}

std::string LeftOutText(const std::vector<PlannedTask>& plan, const RunOutcome& outcome) {
  if (outcome.next >= plan.size()) return "";
  constexpr std::size_t kMostExamples = 3;
  std::string text =
      fmt::format("{}: {} of {} measurements were left out",
                  outcome.end == RunEnd::kBudget ? "The budget is spent" : "Interrupted",
                  plan.size() - outcome.next, plan.size());
  std::array<std::size_t, std::variant_size_v<MeasureTask>> left{};
  for (std::size_t i = outcome.next; i < plan.size(); ++i) ++left[plan[i].task.index()];
  const char* separator = " (";
  for (std::size_t kind = 0; kind < left.size(); ++kind) {
    if (left[kind] == 0) continue;
    text += fmt::format("{}{} {}", separator, left[kind], TaskKinds()[kind]);
    separator = ", ";
  }
  text += "). Next would have been: ";
  const std::size_t end = std::min(plan.size(), outcome.next + kMostExamples);
  for (std::size_t i = outcome.next; i < end; ++i) {
    text += fmt::format("{}{}", i == outcome.next ? "" : "; ", Describe(plan[i].task));
  }
  return text + ".";
}

}  // namespace stepsim::measure
