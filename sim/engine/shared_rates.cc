#include "sim/engine/shared_rates.h"

#include <algorithm>
#include <cmath>

#include "sim/base/check.h"
#include "sim/base/diagnostics.h"
#include "sim/engine/wait_cycle.h"

namespace stepsim {

void ThrowTooLong() {
  throw SimulationError("the step would take longer than 100 days: check sizes and rates");
}

SharedRates::SharedRates(const TaskGraph& graph, const IdVector<WorkId, Duration>& durations,
                         Interference& interference)
    : graph_(graph),
      durations_(durations),
      interference_(interference),
      running_(graph.rank_count()),
      progress_(graph.stream_count()),
      is_changed_(graph.rank_count(), 0) {}

TaskId SharedRates::Representative(TaskId task) const {
  const RendezvousId r = graph_.rendezvous(task);
  return r == kNoId<RendezvousId> ? task : graph_.members(r).front();
}

std::span<const TaskId> SharedRates::MembersOf(const TaskId& task) const {
  const RendezvousId r = graph_.rendezvous(task);
  return r == kNoId<RendezvousId> ? std::span<const TaskId>(&task, 1) : graph_.members(r);
}

void SharedRates::Arrive(TaskId member) { Add(member, /*is_transferring=*/false); }

void SharedRates::Start(std::span<const TaskId> members) {
  for (const TaskId member : members) {
    if (ProgressOf(member).task != member) {  // it did not have to wait
      Add(member, /*is_transferring=*/true);
    } else if (graph_.kind(member) != TaskKind::kHost) {
      RunningOf(member).is_transferring = true;
      MarkChanged(graph_.rank(member));
    }
  }
  started_.push_back(members.front());
}

void SharedRates::Finish(std::span<const TaskId> members) {
  for (const TaskId member : members) {
    ProgressOf(member).task = kNoId<TaskId>;
    if (graph_.kind(member) == TaskKind::kHost) continue;
    auto& running = running_[graph_.rank(member)];
    running.erase(std::find_if(running.begin(), running.end(),
                               [&](const RunningTask& r) { return r.task == member; }));
    MarkChanged(graph_.rank(member));
  }
}

void SharedRates::Add(TaskId task, bool is_transferring) {
  ProgressOf(task) = Progress{.task = task};
  // The launching thread does not run on the device.
  const TaskKind kind = graph_.kind(task);
  if (kind == TaskKind::kHost) return;
  std::vector<RunningTask>& running = running_[graph_.rank(task)];
  if (kind == TaskKind::kTransfer && !running.empty()) arrived_.push_back(task);
  running.push_back({task, is_transferring});
  MarkChanged(graph_.rank(task));
}

RunningTask& SharedRates::RunningOf(TaskId task) {
  std::vector<RunningTask>& running = running_[graph_.rank(task)];
  return *std::find_if(running.begin(), running.end(),
                       [&](const RunningTask& r) { return r.task == task; });
}

void SharedRates::MarkChanged(RankId rank) {
  if (is_changed_[rank] != 0) return;
  is_changed_[rank] = 1;
  changed_ranks_.push_back(rank);
}

std::span<const SharedRates::Completion> SharedRates::Update(SimTime now) {
  completions_.clear();
  for (const TaskId transfer : arrived_) AskForDelay(transfer, now);
  arrived_.clear();
  std::erase_if(started_, [&](TaskId task) { return Queue(task, now); });
  for (const RankId rank : changed_ranks_) {
    is_changed_[rank] = 0;
    AskForRates(rank);
  }
  changed_ranks_.clear();
  for (const TaskId task : started_) {
    Progress& progress = ProgressOf(task);
    progress.remaining_ps = static_cast<double>(durations_[graph_.work_id(task)].count());
    progress.since = now;
  }
  for (const TaskId task : repaced_) Settle(task, now);
  for (const TaskId task : started_) Settle(task, now);
  repaced_.clear();
  started_.clear();
  return completions_;
}

// The isolated work of a task that is left.
double SharedRates::RemainingOf(TaskId task, SimTime now) const {
  const Progress& progress = ProgressOf(Representative(task));
  if (progress.rate == 0) return static_cast<double>(durations_[graph_.work_id(task)].count());
  const double elapsed = static_cast<double>((now - progress.since).count());
  return std::max(0.0, progress.remaining_ps - elapsed * progress.rate);
}

// Only kernels that were there before the transfer are in its way.
void SharedRates::AskForDelay(TaskId transfer, SimTime now) {
  if (durations_[graph_.work_id(transfer)] == Duration::zero()) return;  // needs no place
  kernels_.clear();
  for (const RunningTask& running : running_[graph_.rank(transfer)]) {
    if (running.task == transfer) break;
    if (graph_.kind(running.task) != TaskKind::kCompute) continue;
    kernels_.push_back({running.task, durations_[graph_.work_id(running.task)],
                        Duration(static_cast<Duration::rep>(RemainingOf(running.task, now)))});
  }
  if (kernels_.empty()) return;
  const Duration delay = interference_.StartDelay(graph_.rank(transfer), transfer, kernels_);
  SIM_CHECK(delay >= Duration::zero(), "a start cannot be earlier than asked for");
  if (delay >= kNever - now) ThrowTooLong();
  ProgressOf(transfer).placed = now + delay;
}

// A transfer whose members do not all have their place waits for the last one.
bool SharedRates::Queue(TaskId representative, SimTime now) {
  SimTime begin = now;
  for (const TaskId member : MembersOf(representative)) {
    begin = std::max(begin, ProgressOf(member).placed);
  }
  if (begin == now) return false;
  for (const TaskId member : MembersOf(representative)) {
    RunningTask& running = RunningOf(member);
    running.is_transferring = false;
    running.is_placed = ProgressOf(member).placed <= now;
  }
  Progress& progress = ProgressOf(representative);
  progress.is_queued = true;
  progress.completes = begin;
  completions_.push_back({representative, begin});
  return true;
}

bool SharedRates::BeginQueued(TaskId task) {
  if (!ProgressOf(task).is_queued) return false;
  ProgressOf(task).is_queued = false;
  for (const TaskId member : MembersOf(task)) {
    ProgressOf(member).placed = {};
    RunningTask& running = RunningOf(member);
    running.is_transferring = true;
    running.is_placed = true;
    MarkChanged(graph_.rank(member));
  }
  started_.push_back(task);
  return true;
}

void SharedRates::AskForRates(RankId rank) {
  const std::vector<RunningTask>& running = running_[rank];
  rates_.assign(running.size(), 1.0);
  if (running.size() > 1) interference_.Rates(rank, running, rates_);
  for (std::size_t i = 0; i < running.size(); ++i) {
    SIM_CHECK(rates_[i] > 0 && rates_[i] <= 1, "interference must give rates in (0, 1]");
    Progress& progress = ProgressOf(running[i].task);
    if (progress.own_rate == rates_[i]) continue;
    progress.own_rate = rates_[i];
    if (running[i].is_transferring) repaced_.push_back(Representative(running[i].task));
  }
}

// Carries the work done so far over to `now` and predicts the completion at the new rate.
void SharedRates::Settle(TaskId representative, SimTime now) {
  Progress& progress = ProgressOf(representative);
  double rate = 1;
  for (const TaskId member : MembersOf(representative)) {
    rate = std::min(rate, ProgressOf(member).own_rate);
  }
  if (rate == progress.rate) return;
  const bool is_new = progress.rate == 0;
  const double elapsed = static_cast<double>((now - progress.since).count());
  progress.remaining_ps = std::max(0.0, progress.remaining_ps - elapsed * progress.rate);
  progress.since = now;
  progress.rate = rate;
  const double left = std::ceil(progress.remaining_ps / rate);
  const Duration range = kNever - now;
  if (left >= static_cast<double>(range.count())) ThrowTooLong();
  // At full speed from the start the isolated duration holds exactly, whatever its size.
  const Duration rest = is_new && rate == 1 ? durations_[graph_.work_id(representative)]
                                            : Duration(static_cast<Duration::rep>(left));
  if (rest >= range) ThrowTooLong();
  progress.completes = now + rest;
  completions_.push_back({representative, progress.completes});
}

}  // namespace stepsim
