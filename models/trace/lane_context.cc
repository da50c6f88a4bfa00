#include "models/trace/lane_context.h"

#include <algorithm>
#include <utility>

#include "models/trace/kernel_rules.h"

namespace stepsim {
namespace {

// Annotations that name a part of the step, by frameworks and users.
constexpr std::string_view kOptimizerWords =
    "optimizer.step|optimizer_step|## optimizer|^optimizer";
constexpr std::string_view kBackwardWords = "backward";
constexpr std::string_view kForwardWords = "forward";
// How many annotations before a launch may stand between it and the one around it.
constexpr int kDeepest = 256;

bool Covers(const std::vector<Interval>& intervals, SimTime time) {
  const auto after =
      std::upper_bound(intervals.begin(), intervals.end(), time,
                       [](SimTime t, const Interval& interval) { return t < interval.begin; });
  return after != intervals.begin() && time < std::prev(after)->end;
}

}  // namespace

LaneContext::LaneContext(const TraceData& data, TraceMoment base, std::uint32_t process,
                         const std::set<std::uint32_t>& device_processes)
    : data_(data), base_(base) {
  for (const LaunchCall& launch : data.launches) launches_.push_back(&launch);
  std::sort(launches_.begin(), launches_.end(), [](const LaunchCall* a, const LaunchCall* b) {
    return a->correlation != b->correlation ? a->correlation < b->correlation : a->begin < b->begin;
  });
  AddBackward();
  AddAnnotations(process, device_processes);
}

SimTime LaneContext::OnClock(TraceMoment moment) const {
  constexpr Duration kFar{Duration::max() / 4};
  return kStepBegin + std::clamp(Difference(moment, base_), -kFar, kFar);
}

void LaneContext::AddBackward() {
  std::vector<Interval> all;
  for (const ThreadSpan& span : data_.backward) {
    const SimTime begin = OnClock(span.begin);
    backward_[span.thread].push_back({begin, begin + std::min(span.length, Duration::max() / 4)});
  }
  for (auto& [thread, intervals] : backward_) {
    intervals = Union(std::move(intervals));
    all.insert(all.end(), intervals.begin(), intervals.end());
    autograd_threads_.insert(thread);
  }
  any_backward_ = Union(std::move(all));
}

void LaneContext::AddAnnotations(std::uint32_t process,
                                 const std::set<std::uint32_t>& device_processes) {
  std::vector<Interval> backward = any_backward_;
  for (const Annotation& annotation : data_.annotations) {
    const std::uint32_t owner = data_.threads[annotation.thread].process;
    if (owner != process && device_processes.count(owner) != 0) continue;
    const SimTime begin = OnClock(annotation.begin);
    const Interval time{begin, begin + std::min(annotation.length, Duration::max() / 4)};
    around_[annotation.thread].push_back({time, &annotation});
    if (annotation.message != kNoIndex) continue;
    const std::string& name = data_.names[annotation.name];
    if (FitsWords(name, kOptimizerWords)) {
      optimizer_.push_back(time);
    } else if (FitsWords(name, kBackwardWords)) {
      backward.push_back(time);
    } else if (FitsWords(name, kForwardWords)) {
      forward_.push_back(time);
    }
    // A thread on which the user's code runs does more than evaluate gradients.
    autograd_threads_.erase(annotation.thread);
  }
  any_backward_ = Union(std::move(backward));
  optimizer_ = Union(std::move(optimizer_));
  forward_ = Union(std::move(forward_));
  for (auto& [thread, list] : around_) {
    std::stable_sort(list.begin(), list.end(), [](const Named& a, const Named& b) {
      return a.time.begin != b.time.begin ? a.time.begin < b.time.begin : a.time.end > b.time.end;
    });
  }
}

const LaunchCall* LaneContext::LaunchOf(const DeviceSpan& span) const {
  if (span.correlation < 0) return nullptr;
  auto [first, last] = std::equal_range(
      launches_.begin(), launches_.end(), nullptr, [&](const LaunchCall* a, const LaunchCall* b) {
        const std::int64_t left = a == nullptr ? span.correlation : a->correlation;
        const std::int64_t right = b == nullptr ? span.correlation : b->correlation;
        return left < right;
      });
  const LaunchCall* found = nullptr;
  for (; first != last; ++first) {
    if (found == nullptr || !(span.begin < (*first)->begin)) found = *first;
  }
  return found;
}

LaneContext::Surroundings LaneContext::Around(const LaunchCall* launch) const {
  Surroundings around;
  if (launch == nullptr) return around;
  const auto list = around_.find(launch->thread);
  if (list == around_.end()) return around;
  const SimTime time = OnClock(launch->begin);
  auto named = std::upper_bound(list->second.begin(), list->second.end(), time,
                                [](SimTime t, const Named& n) { return t < n.time.begin; });
  for (int i = 0; i < kDeepest && named != list->second.begin(); ++i) {
    --named;
    if (named->time.end <= time) continue;
    const Annotation& annotation = *named->annotation;
    if (annotation.message != kNoIndex) {
      const MessageFacts& message = data_.messages[annotation.message];
      if (around.message == nullptr) around.message = &message;
    } else if (around.annotation.empty()) {
      around.annotation = data_.names[annotation.name];
    }
  }
  return around;
}

Phase LaneContext::PhaseOf(const DeviceSpan& span, const LaunchCall* launch,
                           bool is_communication) const {
  if (launch == nullptr && !data_.is_host_only) return Phase::kOther;
  const SimTime time = OnClock(launch == nullptr ? span.begin : launch->begin);
  if (Covers(optimizer_, time)) return Phase::kOptimizer;
  if (launch != nullptr && autograd_threads_.count(launch->thread) != 0) return Phase::kBackward;
  if (Covers(any_backward_, time)) return Phase::kBackward;
  // A thread of communication runs behind what called it.
  if (data_.is_host_only && is_communication) return Phase::kOther;
  if (Covers(forward_, time) || !any_backward_.empty()) return Phase::kForward;
  return Phase::kOther;
}

}  // namespace stepsim
