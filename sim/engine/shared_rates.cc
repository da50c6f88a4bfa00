#include "sim/engine/shared_rates.h"

#include <algorithm>
#include <cmath>

#include "sim/base/check.h"
#include "sim/base/diagnostics.h"

namespace stepsim {

SharedRates::SharedRates(const TaskGraph& graph, const TaskCosts& costs,
                         Interference& interference)
    : graph_(graph),
      costs_(costs),
      interference_(interference),
      running_(graph.rank_count()),
      progress_(graph.task_count()),
      member_rate_(graph.task_count(), 1.0f) {
  // A rank cannot run more tasks at a time than it has streams: no allocation in the loop.
  std::vector<std::size_t> streams(graph.rank_count(), 0);
  for (const StreamId s : AllIds<StreamId>(graph.stream_count())) {
    ++streams[Index(graph.stream(s).rank)];
  }
  for (std::size_t r = 0; r < running_.size(); ++r) running_[r].reserve(streams[r]);
  if (!streams.empty()) rates_.resize(*std::max_element(streams.begin(), streams.end()));
}

std::size_t SharedRates::Representative(TaskId task) const {
  const RendezvousId r = graph_.rendezvous(task);
  return Index(r == kNoId<RendezvousId> ? task : graph_.members(r).front());
}

std::span<const SharedRates::Moved> SharedRates::Arrive(TaskId member, SimTime now) {
  moved_.clear();
  running_[Index(graph_.rank(member))].push_back({member, /*is_transferring=*/false});
  Rerate(graph_.rank(member), now);
  return moved_;
}

std::span<const SharedRates::Moved> SharedRates::StartTransfer(std::span<const TaskId> members,
                                                               SimTime now) {
  moved_.clear();
  const TaskId representative = members.front();
  const Duration work = costs_[graph_.work_id(representative)].isolated;
  progress_[representative] = {static_cast<double>(work.count()), 1.0, now};
  for (const TaskId member : members) {
    auto& running = running_[Index(graph_.rank(member))];
    const auto waiting = std::find_if(running.begin(), running.end(),
                                      [&](const RunningTask& r) { return r.task == member; });
    if (waiting == running.end()) {
      running.push_back({member, /*is_transferring=*/true});
    } else {
      waiting->is_transferring = true;
    }
    Rerate(graph_.rank(member), now);
  }
  Settle(representative, now);
  return moved_;
}

std::span<const SharedRates::Moved> SharedRates::Finish(std::span<const TaskId> members,
                                                        SimTime now) {
  moved_.clear();
  for (const TaskId member : members) {
    auto& running = running_[Index(graph_.rank(member))];
    running.erase(std::find_if(running.begin(), running.end(),
                               [&](const RunningTask& r) { return r.task == member; }));
    Rerate(graph_.rank(member), now);
  }
  return moved_;
}

// Asks for the rates of one rank and reschedules whatever changed.
void SharedRates::Rerate(RankId rank, SimTime now) {
  const auto& running = running_[Index(rank)];
  const std::span<double> rates(rates_.data(), running.size());
  std::fill(rates.begin(), rates.end(), 1.0);
  if (running.size() > 1) interference_.Rates(rank, running, rates);
  for (std::size_t i = 0; i < running.size(); ++i) {
    SIM_CHECK(rates[i] > 0 && rates[i] <= 1, "interference must give rates in (0, 1]");
    const auto rate = static_cast<float>(rates[i]);
    const bool is_unchanged = member_rate_[running[i].task] == rate;
    member_rate_[running[i].task] = rate;
    if (running[i].is_transferring && !is_unchanged) {
      Settle(TaskId{static_cast<std::uint32_t>(Representative(running[i].task))}, now);
    }
  }
}

// Carries the work done so far over to `now` and predicts the completion at the new rate.
void SharedRates::Settle(TaskId task, SimTime now) {
  Progress& progress = progress_[task];
  const double elapsed = static_cast<double>((now - progress.since).count());
  progress.remaining_ps = std::max(0.0, progress.remaining_ps - elapsed * progress.rate);
  progress.since = now;
  progress.rate = member_rate_[task];
  if (const RendezvousId r = graph_.rendezvous(task); r != kNoId<RendezvousId>) {
    for (const TaskId member : graph_.members(r)) {
      progress.rate = std::min(progress.rate, static_cast<double>(member_rate_[member]));
    }
  }
  const double left = std::ceil(progress.remaining_ps / progress.rate);
  if (left > 9e18 - static_cast<double>(now.time_since_epoch().count())) {
    throw SimulationError("the step would take longer than 100 days: check sizes and rates");
  }
  moved_.push_back({task, now + Duration(static_cast<std::int64_t>(left))});
}

}  // namespace stepsim
