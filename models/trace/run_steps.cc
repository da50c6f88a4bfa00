#include "models/trace/run_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace stepsim {
namespace {

struct Extent {
  SimTime first = SimTime::max(), last = SimTime::min();
  std::size_t lanes = 0;
};

// Of what a lane launched in each step. Operators of a run without a device end with the mark.
std::map<std::int64_t, Extent> ExtentsOf(const Lane& lane, Duration shift) {
  std::map<std::int64_t, Extent> extents;
  for (const LaneSpan& span : lane.spans) {
    if (span.step < 0) continue;
    const StepMark& mark = lane.marks[static_cast<std::size_t>(span.step)];
    Extent& extent = extents[mark.number];
    extent.first = std::min(extent.first, span.begin + shift);
    if (!span.is_communication()) extent.last = std::max(extent.last, span.end + shift);
    if (lane.is_host_only) {
      extent.first = std::min(extent.first, mark.begin + shift);
      extent.last = std::max(extent.last, mark.end + shift);
    }
    extent.lanes = 1;
  }
  return extents;
}

}  // namespace

std::vector<MeasuredStep> FindSteps(const std::vector<Lane>& lanes,
                                    const std::vector<Duration>& shifts, SimTime makespan,
                                    std::vector<std::string>* warnings) {
  std::map<std::int64_t, Extent> all;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    for (const auto& [number, extent] : ExtentsOf(lanes[i], shifts[i])) {
      Extent& sum = all[number];
      sum.first = std::min(sum.first, extent.first);
      sum.last = std::max(sum.last, extent.last);
      ++sum.lanes;
    }
  }
  std::vector<MeasuredStep> steps;
  std::size_t left_out = 0;
  SimTime begin = kStepBegin;
  for (const auto& [number, extent] : all) {
    const SimTime end = std::min(extent.last, makespan);
    const bool is_complete = extent.lanes == lanes.size();
    const SimTime from =
        steps.empty() && left_out == 0 ? std::max(kStepBegin, extent.first) : begin;
    if (end <= from) {
      ++left_out;
      continue;
    }
    if (is_complete) {
      steps.push_back({number, {from, end}});
    } else {
      ++left_out;
    }
    begin = end;
  }
  if (left_out > 0) {
    warnings->push_back(fmt::format(
        "{} of {} steps are left out: not every trace has kernels of them", left_out, all.size()));
  }
  if (steps.empty()) steps.push_back({0, {kStepBegin, makespan}});
  return steps;
}

}  // namespace stepsim
