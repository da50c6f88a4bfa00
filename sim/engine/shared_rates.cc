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
      progress_(graph.stream_count()) {
  for (const RankId r : AllIds<RankId>(running_.size())) running_[r].rank = r;
  rank_of_.reserve(graph.stream_count());
  for (const StreamId s : AllIds<StreamId>(graph.stream_count())) {
    rank_of_.push_back(graph.stream(s).rank);
  }
}

TaskId SharedRates::Representative(TaskId task) const {
  const RendezvousId r = graph_.rendezvous(task);
  return r == kNoId<RendezvousId> ? task : graph_.members(r).front();
}

std::span<const TaskId> SharedRates::MembersOf(const TaskId& task) const {
  const RendezvousId r = graph_.rendezvous(task);
  return r == kNoId<RendezvousId> ? std::span<const TaskId>(&task, 1) : graph_.members(r);
}

RunningTask& SharedRates::RunningOf(TaskId task) {
  std::vector<RunningTask>& tasks = SetOf(task).tasks;
  return *std::find_if(tasks.begin(), tasks.end(),
                       [&](const RunningTask& r) { return r.task == task; });
}

// ---- What happens at one moment ----

void SharedRates::Start(TaskId task) { started_.push_back(&Add(task, /*is_transferring=*/true)); }

void SharedRates::Arrive(TaskId member) { Add(member, /*is_transferring=*/false); }

void SharedRates::Meet(std::span<const TaskId> members) {
  for (const TaskId member : members) {
    if (graph_.kind(member) == TaskKind::kHost) continue;
    RunningOf(member).is_transferring = true;
    MarkChanged(SetOf(member));
  }
  started_.push_back(&ProgressOf(members.front()));
}

void SharedRates::Finish(std::span<const TaskId> members) {
  for (const TaskId member : members) {
    const StreamId slot = graph_.streams(member).front();
    progress_[slot].task = kNoId<TaskId>;
    if (graph_.kind(member) == TaskKind::kHost) continue;
    RunningSet& set = running_[rank_of_[slot]];
    Remove(member, set);
    MarkChanged(set);
  }
}

// Keeps the order of arrival. Sets are small: the copies cost less than a call.
void SharedRates::Remove(TaskId task, RunningSet& set) {
  std::size_t at = 0;
  while (set.tasks[at].task != task) ++at;
  for (; at + 1 < set.tasks.size(); ++at) {
    set.tasks[at] = set.tasks[at + 1];
    set.progress[at] = set.progress[at + 1];
  }
  set.tasks.pop_back();
  set.progress.pop_back();
}

SharedRates::Progress& SharedRates::Add(TaskId task, bool is_transferring) {
  const StreamId slot = graph_.streams(task).front();
  Progress& progress = progress_[slot];
  progress = Progress{.task = task};
  // The launching thread does not run on the device.
  const TaskKind kind = graph_.kind(task);
  if (kind == TaskKind::kHost) return progress;
  RunningSet& set = running_[rank_of_[slot]];
  if (kind == TaskKind::kTransfer && !set.tasks.empty()) arrived_.push_back(task);
  set.tasks.push_back({task, graph_.work_id(task), is_transferring});
  set.progress.push_back(&progress);
  MarkChanged(set);
  return progress;
}

bool SharedRates::Begin(TaskId task) {
  Progress& progress = ProgressOf(task);
  progress.is_queued = false;
  --queued_;
  for (const TaskId member : MembersOf(task)) {
    ProgressOf(member).placed = {};
    RunningTask& running = RunningOf(member);
    running.is_transferring = true;
    running.is_placed = true;
    MarkChanged(SetOf(member));
  }
  started_.push_back(&progress);
  return true;
}

// ---- What follows from it ----

std::span<const SharedRates::Completion> SharedRates::Update(SimTime now) {
  completions_.clear();
  for (const TaskId transfer : arrived_) AskForDelay(transfer, now);
  arrived_.clear();
  if (now < last_place_) {
    std::erase_if(started_, [&](Progress* progress) { return Queue(*progress, now); });
  }
  for (RunningSet* set : changed_) {
    set->is_changed = false;
    AskForRates(*set);
  }
  changed_.clear();
  for (Progress* progress : repaced_) {
    progress->is_repaced = false;
    if (progress->rate > 0) Settle(now, *progress);
  }
  repaced_.clear();
  for (Progress* progress : started_) StartAt(now, *progress);
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
  const RankId rank = graph_.rank(transfer);
  const RunningTask* own = nullptr;
  kernels_.clear();
  for (const RunningTask& running : running_[rank].tasks) {
    own = &running;
    if (running.task == transfer) break;
    if (graph_.kind(running.task) != TaskKind::kCompute) continue;
    kernels_.push_back({running.task, running.work, durations_[running.work],
                        Duration(static_cast<Duration::rep>(RemainingOf(running.task, now)))});
  }
  if (kernels_.empty()) return;
  const Duration delay = interference_.StartDelay(rank, *own, kernels_);
  SIM_CHECK(delay >= Duration::zero(), "a start cannot be earlier than asked for");
  if (delay >= kNever - now) ThrowTooLong();
  ProgressOf(transfer).placed = now + delay;
  last_place_ = std::max(last_place_, now + delay);
}

// A transfer whose members do not all have their place waits for the last one.
bool SharedRates::Queue(Progress& progress, SimTime now) {
  SimTime begin = now;
  for (const TaskId member : MembersOf(progress.task)) {
    begin = std::max(begin, ProgressOf(member).placed);
  }
  if (begin == now) return false;
  for (const TaskId member : MembersOf(progress.task)) {
    RunningTask& running = RunningOf(member);
    running.is_transferring = false;
    running.is_placed = ProgressOf(member).placed <= now;
  }
  progress.is_queued = true;
  ++queued_;
  progress.completes = begin;
  completions_.push_back({progress.task, begin});
  return true;
}

void SharedRates::AskForRates(RunningSet& set) {
  const std::size_t size = set.tasks.size();
  if (size == 0) return;
  if (size == 1) return SetOwnRate(set.tasks.front(), 1, *set.progress.front());
  if (rates_.size() < size) rates_.resize(size);
  const std::span<double> rates(rates_.data(), size);
  for (double& rate : rates) rate = 1;
  interference_.Rates(set.rank, set.tasks, rates);
  for (std::size_t i = 0; i < size; ++i) {
    SIM_CHECK(rates[i] > 0 && rates[i] <= 1, "interference must give rates in (0, 1]");
    SetOwnRate(set.tasks[i], rates[i], *set.progress[i]);
  }
}

void SharedRates::Repace(TaskId task, Progress& progress) {
  const RendezvousId r = graph_.rendezvous(task);
  Progress& all = r == kNoId<RendezvousId> ? progress : ProgressOf(graph_.members(r).front());
  if (all.is_repaced) return;
  all.is_repaced = true;
  repaced_.push_back(&all);
}

double SharedRates::RateOf(const Progress& progress) const {
  const RendezvousId r = graph_.rendezvous(progress.task);
  if (r == kNoId<RendezvousId>) return progress.own_rate;
  double rate = 1;
  for (const TaskId member : graph_.members(r)) {
    rate = std::min(rate, ProgressOf(member).own_rate);
  }
  return rate;
}

void SharedRates::StartAt(SimTime now, Progress& progress) {
  const Duration work = durations_[graph_.work_id(progress.task)];
  progress.since = now;
  progress.rate = RateOf(progress);
  progress.remaining_ps = static_cast<double>(work.count());
  if (progress.rate != 1) return Predict(now, progress);
  // At full speed from the start the isolated duration holds exactly, whatever its size.
  if (work >= kNever - now) ThrowTooLong();
  progress.completes = now + work;
  completions_.push_back({progress.task, progress.completes});
}

// Carries the work done so far over to `now` and predicts the completion at the new rate.
void SharedRates::Settle(SimTime now, Progress& progress) {
  const double rate = RateOf(progress);
  if (rate == progress.rate) return;
  const double elapsed = static_cast<double>((now - progress.since).count());
  progress.remaining_ps = std::max(0.0, progress.remaining_ps - elapsed * progress.rate);
  progress.since = now;
  progress.rate = rate;
  Predict(now, progress);
}

void SharedRates::Predict(SimTime now, Progress& progress) {
  const double left = std::ceil(progress.remaining_ps / progress.rate);
  if (left >= static_cast<double>((kNever - now).count())) ThrowTooLong();
  progress.completes = now + Duration(static_cast<Duration::rep>(left));
  completions_.push_back({progress.task, progress.completes});
}

}  // namespace stepsim
