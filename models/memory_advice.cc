#include "models/memory_advice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <map>
#include <string_view>
#include <utility>

#include "models/job_change.h"
#include "models/simulate_job.h"
#include "models/spec/check_job.h"
#include "models/spec/sharding.h"
#include "sim/base/diagnostics.h"
#include "sim/base/units.h"

namespace stepsim {
namespace {

bool IsTransformer(const JobSpec& job) { return TransformerOf(job) != nullptr; }
void UseFsdp2(JobSpec& job) {
  job.plan.strategy = "fsdp2";
  job.plan.fsdp2 = {};
}

using Change = JobChange;

// From those that cost nothing to those that cost time.
constexpr std::array kChanges = {
    Change{"plan.ddp.gradient_as_bucket_view=true",
           [](const JobSpec& j) { return Uses(j, "ddp") && !j.plan.ddp.gradient_as_bucket_view; },
           [](JobSpec& j) { j.plan.ddp.gradient_as_bucket_view = true; }},
    Change{"optimizer_impl=fused",
           [](const JobSpec& j) {
             return j.optimizer == OptimizerKind::kAdamW &&
                    j.optimizer_impl == OptimizerImpl::kForeach;
           },
           [](JobSpec& j) { j.optimizer_impl = OptimizerImpl::kFused; }},
    Change{
        "attention=flash",
        [](const JobSpec& j) { return IsTransformer(j) && j.attention == AttentionKind::kUnfused; },
        [](JobSpec& j) { j.attention = AttentionKind::kFlash; }},
    Change{"kernels=compiled",
           [](const JobSpec& j) { return IsTransformer(j) && j.kernels == KernelMode::kEager; },
           [](JobSpec& j) { j.kernels = KernelMode::kCompiled; }},
    Change{"plan.strategy=fsdp2",
           [](const JobSpec& j) { return (Uses(j, "ddp") || Uses(j, "none")) && j.gpus() > 1; },
           UseFsdp2},
    Change{"plan.megatron.use_distributed_optimizer=true",
           [](const JobSpec& j) {
             return Uses(j, "megatron") && !j.plan.megatron.use_distributed_optimizer;
           },
           [](JobSpec& j) { j.plan.megatron.use_distributed_optimizer = true; }},
    Change{"plan.zero.stage=3",
           [](const JobSpec& j) { return Uses(j, "zero") && j.plan.zero.stage < 3; },
           [](JobSpec& j) { j.plan.zero.stage = 3; }},
    Change{"plan.fsdp1.sharding_strategy=FULL_SHARD",
           [](const JobSpec& j) {
             return Uses(j, "fsdp1") &&
                    j.plan.fsdp1.sharding_strategy != ShardingStrategy::kFullShard;
           },
           [](JobSpec& j) {
             j.plan.fsdp1.sharding_strategy = ShardingStrategy::kFullShard;
             j.plan.fsdp1.shard_size = 0;
           }},
    Change{"plan.fsdp2.reshard_after_forward=true",
           [](const JobSpec& j) {
             return Uses(j, "fsdp2") && j.plan.fsdp2.reshard_after_forward == "false";
           },
           [](JobSpec& j) { j.plan.fsdp2.reshard_after_forward = "true"; }},
    Change{"plan.fsdp2.shard_size=0",
           [](const JobSpec& j) { return Uses(j, "fsdp2") && ShardingOf(j).replicas > 1; },
           [](JobSpec& j) { j.plan.fsdp2.shard_size = 0; }},
    Change{
        "plan.tensor.sequence_parallel=true",
        [](const JobSpec& j) { return j.plan.tensor_parallel > 1 && !j.plan.sequence_parallel(); },
        [](JobSpec& j) { j.plan.tensor.sequence_parallel = true; }},
    Change{"plan.pipeline.schedule=1f1b",
           [](const JobSpec& j) {
             return j.plan.pipeline_parallel > 1 && j.plan.pipeline.schedule == "gpipe";
           },
           [](JobSpec& j) { j.plan.pipeline.schedule = "1f1b"; }},
    Change{"plan.pipeline.schedule=interleaved_1f1b",
           [](const JobSpec& j) {
             return j.plan.pipeline_parallel > 1 && j.plan.pipeline.schedule == "looped_bfs";
           },
           [](JobSpec& j) { j.plan.pipeline.schedule = "interleaved_1f1b"; }},
    Change{"recompute.granularity=selective",
           [](const JobSpec& j) {
             return IsTransformer(j) && !j.recompute.IsOn() &&
                    j.attention == AttentionKind::kUnfused;
           },
           [](JobSpec& j) { j.recompute = {RecomputeGranularity::kSelective}; }},
    Change{"recompute.granularity=selective recompute.policy=op",
           [](const JobSpec& j) { return IsTransformer(j) && !j.recompute.IsOn(); },
           [](JobSpec& j) {
             j.recompute = {RecomputeGranularity::kSelective};
             j.recompute.policy = RecomputePolicy::kOp;
           }},
    Change{"recompute.granularity=full",
           [](const JobSpec& j) { return IsTransformer(j) && !j.recompute.IsFull(); },
           [](JobSpec& j) { j.recompute.granularity = RecomputeGranularity::kFull; }},
};

// The same samples in more and smaller micro-steps.
bool HalveMicroBatch(JobSpec* job) {
  constexpr std::int64_t kMostSteps = 4096;
  BatchSpec& batch = job->batch;
  if (batch.micro_batch_size % 2 != 0) return false;
  if (batch.gradient_accumulation_steps * 2 > kMostSteps) return false;
  batch.micro_batch_size /= 2;
  batch.gradient_accumulation_steps *= 2;
  return true;
}

std::string BatchSettings(const BatchSpec& batch) {
  return fmt::format("batch.micro_batch_size={} batch.gradient_accumulation_steps={}",
                     batch.micro_batch_size, batch.gradient_accumulation_steps);
}

class Adviser {
 public:
  explicit Adviser(const JobSpec& job) : job_(job), limit_(job.memory_limit()) {
    job_.simulate.all_ranks = false;  // ranks are alike
    job_.simulate.stragglers.clear();
    job_.simulate.jitter = 0;
  }

  MemoryAdvice Advise() {
    for (const Change& change : kChanges) {
      if (!change.applies(job_)) continue;
      JobSpec changed = job_;
      change.make(changed);
      if (IsPossible(changed)) Try(changed, std::string(change.settings));
    }
    JobSpec smaller = job_;
    while (HalveMicroBatch(&smaller)) {
      if (Try(smaller, BatchSettings(smaller.batch)).needed <= limit_) break;
    }
    if (advice_.fits.empty()) TryTogether();
    return std::move(advice_);
  }

 private:
  // Once: what was tried alone comes again as the first of several.
  TriedChange Measure(const JobSpec& changed, std::string settings) {
    for (const std::string& path : KeysToTakeOut(changed))
      settings += fmt::format(" {}=null", path);
    const auto [known, is_new] = tried_.try_emplace(settings);
    if (is_new) known->second = TryJob(changed);
    TriedChange change{std::move(settings), known->second.peak_memory, known->second.step};
    if (!is_any_ || change.needed < advice_.least.needed) advice_.least = change;
    is_any_ = true;
    return change;
  }

  // One change alone.
  TriedChange Try(const JobSpec& changed, std::string settings) {
    TriedChange change = Measure(changed, std::move(settings));
    if (change.needed <= limit_) advice_.fits.push_back(change);
    return change;
  }

  struct Step {
    std::string settings;
    std::function<void(JobSpec&)> make;
  };
  using Steps = std::vector<Step>;

  JobSpec Made(const Steps& steps) const {
    JobSpec job = job_;
    for (const Step& step : steps) step.make(job);
    return job;
  }
  TriedChange TryAll(const Steps& steps) {
    std::vector<std::string_view> settings;
    for (const Step& step : steps) settings.push_back(step.settings);
    return Measure(Made(steps), fmt::format("{}", fmt::join(settings, " ")));
  }

  // One on top of the other, each kept if it saves something, until it fits; then those are left
  // out again that are not needed.
  void TryTogether() {
    Steps steps;
    Bytes needed = TryJob(job_).peak_memory;  // folded, without slow ranks
    const auto add_if_it_helps = [&](Step step, std::string_view replaces) {
      Steps more = steps;
      std::erase_if(more, [&](const Step& s) {
        return !replaces.empty() && s.settings.substr(0, replaces.size()) == replaces;
      });
      more.push_back(std::move(step));
      if (!IsPossible(Made(more))) return false;
      const TriedChange tried = TryAll(more);
      if (tried.needed >= needed) return false;
      needed = tried.needed;
      steps = std::move(more);
      return true;
    };
    for (const Change& change : kChanges) {
      if (needed <= limit_ || !change.applies(Made(steps))) continue;
      const bool recomputes = change.settings.substr(0, kRecompute.size()) == kRecompute;
      add_if_it_helps({std::string(change.settings), change.make}, recomputes ? kRecompute : "");
    }
    JobSpec smaller = job_;
    while (needed > limit_ && HalveMicroBatch(&smaller)) {
      const auto make = [batch = smaller.batch](JobSpec& job) { job.batch = batch; };
      if (!add_if_it_helps({BatchSettings(smaller.batch), make}, kBatch)) break;
    }
    if (needed <= limit_) advice_.fits.push_back(WithoutTheNeedless(std::move(steps)));
  }

  TriedChange WithoutTheNeedless(Steps steps) {
    TriedChange best = TryAll(steps);
    for (std::size_t i = 0; i < steps.size() && steps.size() > 1;) {
      Steps fewer = steps;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i++));
      if (!IsPossible(Made(fewer))) continue;  // a change that the others stand on
      const TriedChange tried = TryAll(fewer);
      if (tried.needed > limit_) continue;
      best = tried;
      steps = std::move(fewer);
      --i;
    }
    return best;
  }

  static constexpr std::string_view kRecompute = "recompute";
  static constexpr std::string_view kBatch = "batch";

  JobSpec job_;
  Bytes limit_;
  std::map<std::string, TriedJob> tried_;  // by what was set
  MemoryAdvice advice_;
  bool is_any_ = false;
};

// "recompute.granularity=full (41.2 GiB, step +27.0%)"; `before` each setting.
std::string Describe(const TriedChange& change, Duration now, std::string_view before) {
  const double more = ToSeconds(change.step - now) / std::max(1e-12, ToSeconds(now)) * 100;
  std::string settings;
  for (const char c : change.settings) {
    settings += c;
    if (c == ' ') settings += before;
  }
  return fmt::format("{}{} ({}, step {}{:.1f}%)", before, settings, FormatMemory(change.needed),
                     more < 0 ? "" : "+", more);
}

// `before` each setting, `begin` before each way out.
std::string Remedy(const MemoryAdvice& advice, Duration now, std::string_view begin,
                   std::string_view between, std::string_view before) {
  if (advice.fits.empty()) {
    if (advice.least.settings.empty()) return "nothing is left to try";
    return fmt::format("nothing that was tried makes it fit; the least is with{}{}", begin,
                       Describe(advice.least, now, before));
  }
  std::vector<std::string> fits;
  for (const TriedChange& change : advice.fits) {
    fits.push_back(std::string(begin) + Describe(change, now, before));
  }
  return fmt::format("would fit with{}", fmt::join(fits, between));
}

std::string Categories(const MemoryReport& memory) {
  std::vector<std::pair<std::string, Bytes>> largest = memory.at_peak;
  std::erase_if(largest, [](const auto& category) { return category.second.value == 0; });
  std::stable_sort(largest.begin(), largest.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text;
  for (const auto& [category, bytes] : largest) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", category, FormatMemory(bytes));
  }
  std::replace(text.begin(), text.end(), '_', ' ');  // as the summary names them
  return text;
}

std::string Failure(const StepReport& report, const MemoryAdvice& advice) {
  const MemoryReport& memory = report.memory;
  std::string at = memory.task.empty() ? "the begin of the step" : memory.task;
  if (!memory.task.empty()) {
    at += fmt::format(" ({}, micro-step {}, at {} of {})", ToString(memory.phase),
                      memory.microstep + 1, FormatTime(memory.time),
                      FormatTime(report.account().step));
  }
  return fmt::format(
      "out of memory: {} needed, {} per GPU (memory.fail_on_oom)\n  at {}\n  {}\n  {}",
      FormatMemory(memory.total), FormatMemory(report.context.gpu_memory), at, Categories(memory),
      Remedy(advice, report.account().step, "\n    ", "", "--set "));
}

// As Megatron's arguments warn: the fused kernel makes the scores anew anyway.
bool RecomputesForNothing(const JobSpec& job) {
  return job.recompute.IsSelective(RecomputePolicy::kModules) && job.recompute.modules.core_attn &&
         job.attention == AttentionKind::kFlash;
}

}  // namespace

std::span<const JobChange> MemoryChanges() { return kChanges; }

MemoryAdvice AdviseMemory(const JobSpec& job) { return Adviser(job).Advise(); }

void CheckMemoryFits(const JobSpec& job, StepReport* report) {
  if (RecomputesForNothing(job)) {
    report->context.warnings.push_back(
        "recompute.modules.core_attn runs attention again for nothing: flash attention keeps no "
        "scores, its backward makes them anew anyway");
  }
  std::string warning = MemoryWarning(*report);
  if (warning.empty()) return;
  const MemoryAdvice advice = AdviseMemory(job);
  if (job.memory.fail_on_oom) throw SimulationError(Failure(*report, advice));
  report->context.warnings.push_back(std::move(warning));
  report->context.warnings.push_back(Remedy(advice, report->account().step, " ", ", or", ""));
}

}  // namespace stepsim
