#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "models/spec/job_rules.h"
#include "models/spec/sharding.h"
#include "models/spec/wrap_modules.h"
#include "sim/base/units.h"

namespace stepsim {
namespace {

bool UsesFsdp1(const JobSpec& job) { return Uses(job, "fsdp1"); }
bool UsesFsdp2(const JobSpec& job) { return Uses(job, "fsdp2"); }
bool HasOneMicrostep(const JobSpec& job) { return job.batch.gradient_accumulation_steps == 1; }
bool IsIdeal(const JobSpec& job) { return job.plan.ideal; }

bool GathersNothing(const JobSpec& job) {
  return job.plan.fsdp1.sharding_strategy == ShardingStrategy::kNoShard;
}
// Parameters stay from forward to backward: there is nothing to gather ahead of backward.
bool KeepsUnits(const JobSpec& job) {
  return !ReshardsAfterForward(job.plan.fsdp1.sharding_strategy);
}
bool KeepsGroups(const JobSpec& job) { return !ReshardingOf(job).groups; }
bool HasOneCopy(const JobSpec& job) { return ShardingOf(job).replicas == 1; }
bool ReducesInFullRange(const JobSpec& job) { return ShardingOf(job).reduce != DType::kFp16; }
bool ReducesOnce(const JobSpec& job) { return !job.plan.fsdp2.requires_gradient_sync; }

constexpr const char* kOneMicrostep = "batch.gradient_accumulation_steps: 1";
constexpr const char* kIdeal = "plan.ideal: true";
constexpr const char* kLayersAreNamed =
    "plan.fsdp2.layer_prefetch: true (the default with experts on ranks of their own)";
constexpr const char* kNoShard = "plan.fsdp1.sharding_strategy: NO_SHARD, which gathers nothing";

constexpr std::array kFsdp1Rows = {
    IneffectiveKey{"plan.fsdp1", "plan.strategy: {strategy}",
                   [](const JobSpec& j) { return !UsesFsdp1(j); }},
    IneffectiveKey{
        "plan.fsdp1.wrap_min_parameters", "a plan.fsdp1.wrap that is not min_parameters",
        [](const JobSpec& j) { return j.plan.fsdp1.wrap != WrapPolicy::kMinParameters; }},
    IneffectiveKey{"plan.fsdp1.wrap_modules", "a plan.fsdp1.wrap that is not custom",
                   [](const JobSpec& j) { return j.plan.fsdp1.wrap != WrapPolicy::kCustom; }},
    IneffectiveKey{"plan.fsdp1.backward_prefetch", kNoShard, GathersNothing},
    IneffectiveKey{"plan.fsdp1.forward_prefetch", kNoShard, GathersNothing},
    IneffectiveKey{"plan.fsdp1.limit_all_gathers", kNoShard, GathersNothing},
    IneffectiveKey{"plan.fsdp1.separate_reduce_group", kNoShard, GathersNothing},
    IneffectiveKey{"plan.fsdp1.backward_prefetch",
                   "a sharding_strategy that keeps parameters from forward to backward",
                   KeepsUnits},
    IneffectiveKey{"plan.fsdp1.backward_prefetch", kIdeal, IsIdeal},
    IneffectiveKey{"plan.fsdp1.forward_prefetch", kIdeal, IsIdeal},
    IneffectiveKey{
        "plan.fsdp1.forward_prefetch", "plan.fsdp1.iteration: first, which does not know the order",
        [](const JobSpec& j) {
          return j.plan.fsdp1.iteration == TrainingIteration::kFirst && HasOneMicrostep(j);
        }},
    IneffectiveKey{"plan.fsdp1.limit_all_gathers", kIdeal, IsIdeal},
    IneffectiveKey{"plan.fsdp1.separate_reduce_group", kIdeal, IsIdeal},
    IneffectiveKey{"plan.fsdp1.no_sync", kOneMicrostep, HasOneMicrostep},
    IneffectiveKey{"plan.fsdp1.shard_size", "a sharding_strategy that is not hybrid",
                   [](const JobSpec& j) { return !IsHybrid(j.plan.fsdp1.sharding_strategy); }},
};

constexpr std::array kFsdp2Rows = {
    IneffectiveKey{"plan.fsdp2", "plan.strategy: {strategy}",
                   [](const JobSpec& j) { return !UsesFsdp2(j); }},
    IneffectiveKey{
        "plan.fsdp2.wrap_min_parameters", "a plan.fsdp2.wrap that is not min_parameters",
        [](const JobSpec& j) { return j.plan.fsdp2.wrap != WrapPolicy::kMinParameters; }},
    IneffectiveKey{"plan.fsdp2.wrap_modules", "a plan.fsdp2.wrap that is not custom",
                   [](const JobSpec& j) { return j.plan.fsdp2.wrap != WrapPolicy::kCustom; }},
    IneffectiveKey{"plan.fsdp2.backward_prefetch",
                   "a reshard_after_forward that keeps parameters until backward", KeepsGroups},
    IneffectiveKey{"plan.fsdp2.keep_after_forward",
                   "a reshard_after_forward that keeps parameters until backward", KeepsGroups},
    IneffectiveKey{"plan.fsdp2.backward_prefetch", kIdeal, IsIdeal},
    IneffectiveKey{"plan.fsdp2.forward_prefetch", kIdeal, IsIdeal},
    IneffectiveKey{"plan.fsdp2.layer_prefetch", kIdeal, IsIdeal},
    IneffectiveKey{"plan.fsdp2.forward_prefetch", kLayersAreNamed, NamesLayers},
    IneffectiveKey{"plan.fsdp2.backward_prefetch", kLayersAreNamed, NamesLayers},
    IneffectiveKey{"plan.fsdp2.unshard_async_op", kIdeal, IsIdeal},
    IneffectiveKey{"plan.fsdp2.separate_reduce_group", kIdeal, IsIdeal},
    IneffectiveKey{"plan.fsdp2.requires_gradient_sync", kOneMicrostep, HasOneMicrostep},
    IneffectiveKey{"plan.fsdp2.requires_all_reduce", kOneMicrostep, HasOneMicrostep},
    IneffectiveKey{"plan.fsdp2.requires_all_reduce", "one copy of the parameters (no HSDP)",
                   HasOneCopy},
    IneffectiveKey{"plan.fsdp2.requires_all_reduce",
                   "plan.fsdp2.requires_gradient_sync: false, which reduces once", ReducesOnce},
    IneffectiveKey{"plan.fsdp2.reshard_after_backward", kOneMicrostep, HasOneMicrostep},
    IneffectiveKey{"plan.fsdp2.is_last_backward", kOneMicrostep, HasOneMicrostep},
    IneffectiveKey{"plan.fsdp2.is_last_backward",
                   "plan.fsdp2.requires_gradient_sync: false, which reduces once", ReducesOnce},
    IneffectiveKey{"plan.fsdp2.gradient_divide_factor",
                   "a reduce_dtype other than fp16, whose sums divide on the way",
                   ReducesInFullRange},
};

constexpr std::array kCommonRows = {
    IneffectiveKey{"contention", "plan.ideal: true, in which overlap costs nothing", IsIdeal},
    IneffectiveKey{
        "plan.ideal", "plan.strategy: {strategy}",
        [](const JobSpec& j) { return j.plan.strategy == "ddp" || j.plan.strategy == "none"; }},
    IneffectiveKey{"plan.ideal", kNoShard,
                   [](const JobSpec& j) { return UsesFsdp1(j) && GathersNothing(j); }},
};

// Divisors of `ranks` that shard something: all but 1.
std::vector<std::int64_t> NearestShardSizes(std::int64_t ranks, std::int64_t wanted) {
  std::vector<std::int64_t> sizes = NearestDivisors(ranks, std::max<std::int64_t>(wanted, 2));
  sizes.erase(std::remove(sizes.begin(), sizes.end(), 1), sizes.end());
  return sizes;
}

// What the wrapping, HSDP and resharding of a job violate.
class FsdpChecker {
 public:
  explicit FsdpChecker(const JobProblems& problems)
      : problems_(problems), job_(problems.job), units_(UnitNames(problems.job)) {}

  void CheckFsdp1() {
    const Fsdp1Plan& plan = job_.plan.fsdp1;
    CheckWrap("plan.fsdp1", plan.wrap, plan.wrap_modules);
    CheckOffload("plan.fsdp1.cpu_offload", plan.cpu_offload);
    if (plan.iteration == TrainingIteration::kFirst && job_.simulate.steps > 1) {
      problems_.Report("simulate.steps",
                       fmt::format("found {} with plan.fsdp1.iteration: first, which comes once, "
                                   "allowed: 1",
                                   job_.simulate.steps));
    }
    if (!IsHybrid(plan.sharding_strategy) || AnyInvalidSize("plan.fsdp1.shard_size")) return;
    const std::int64_t size = plan.shard_size > 0 ? plan.shard_size : job_.gpus_per_node;
    const bool is_given = plan.shard_size > 0;
    if (is_given && !IsValidSize("plan.fsdp1.shard_size", size)) return;
    if (size < job_.gradient_ranks() && size > 1) return;
    const std::string_view wrong = size > 1 ? "one copy" : "nothing sharded";
    problems_.Report(
        is_given ? "plan.fsdp1.shard_size" : "plan.fsdp1.sharding_strategy",
        fmt::format("found {} ranks of {} for each copy, which leaves {}: HYBRID_SHARD shards over "
                    "one dimension of a mesh and replicates over the other; nearest valid: {}",
                    size, job_.gradient_ranks(), wrong, HybridRemedy()));
  }

  void CheckFsdp2() {
    const Fsdp2Plan& plan = job_.plan.fsdp2;
    CheckWrap("plan.fsdp2", plan.wrap, plan.wrap_modules);
    CheckOffload("plan.fsdp2.cpu_offload", plan.cpu_offload);
    for (const std::string& entry : plan.keep_after_forward) {
      const bool fits = std::any_of(units_.begin(), units_.end(), [&](const std::string& unit) {
        return FitsPattern(unit, entry);
      });
      if (!fits) problems_.Report("plan.fsdp2.keep_after_forward", NoSuchModule(entry, units_));
    }
    CheckUnshardInBackward(plan);
    if (AnyInvalidSize("plan.fsdp2.shard_size")) return;
    if (plan.shard_size != 0 && !IsValidSize("plan.fsdp2.shard_size", plan.shard_size)) return;
    if (plan.shard_size == 1 && job_.gradient_ranks() > 1) {
      problems_.Report(
          "plan.fsdp2.shard_size",
          fmt::format(
              "found 1, with which nothing is sharded: HSDP takes a mesh of two dimensions, "
              "copies x ranks of a copy; nearest valid: {}, or plan.strategy: ddp",
              fmt::join(NearestShardSizes(job_.gradient_ranks(), 2), ", ")));
      return;
    }
    CheckReshard(plan);
  }

 private:
  bool AnyInvalidSize(std::string_view path) const {
    return problems_.AnyInvalid({path, "nodes", "gpus_per_node"});
  }

  bool IsValidSize(std::string_view path, std::int64_t size) const {
    const std::int64_t gpus = job_.gradient_ranks();
    if (size <= gpus && gpus % size == 0) return true;
    problems_.Report(path, fmt::format("shard_size ({}) must divide the {} GPUs; nearest valid: {}",
                                       size, gpus, fmt::join(NearestDivisors(gpus, size), ", ")));
    return false;
  }

  // The largest copy of which there are two, or none of the kind.
  std::string HybridRemedy() const {
    for (std::int64_t size = job_.gradient_ranks() / 2; size > 1; --size) {
      if (job_.gradient_ranks() % size == 0)
        return fmt::format("shard_size: {}, or FULL_SHARD", size);
    }
    return "FULL_SHARD";
  }

  void CheckOffload(std::string_view path, bool offloads) const {
    if (!offloads) return;
    problems_.Report(path, "found 'true', allowed: false: shards on the CPU are not modelled");
  }

  void CheckWrap(const std::string& plan, WrapPolicy wrap,
                 const std::vector<std::string>& modules) const {
    if (wrap != WrapPolicy::kCustom || problems_.AnyInvalid({"model"})) return;
    const std::string path = plan + ".wrap_modules";
    if (problems_.AnyInvalid({path})) return;
    if (modules.empty()) {
      problems_.Report(path, "missing, allowed: a list of modules for wrap: custom");
    }
    for (const std::string& problem : ResolveWrap(modules, units_).problems) {
      problems_.Report(path, problem);
    }
    CheckTiedTable(path, modules);
  }

  // A shared parameter belongs to one group, in which all its users have to be: the root's.
  void CheckTiedTable(const std::string& path, const std::vector<std::string>& modules) const {
    const auto* spec = TransformerOf(job_);
    if (spec == nullptr || !spec->tied_embeddings) return;
    for (const UnitRange& group : ResolveWrap(modules, units_).groups) {
      for (std::int32_t u = group.first; u <= group.last; ++u) {
        const std::string& unit = units_[static_cast<std::size_t>(u)];
        if (unit != "embedding" && unit != "head") continue;
        problems_.Report(
            path,
            fmt::format("found '{}' with model.transformer.tied_embeddings: true, "
                        "allowed: modules that share no parameter with others; FSDP "
                        "keeps a shared table in the root's group; plan.fsdp2.wrap: layer does so",
                        unit));
        return;
      }
    }
  }

  // Safe only where backward reads no parameters: of a table of rows.
  void CheckUnshardInBackward(const Fsdp2Plan& plan) const {
    if (plan.unshard_in_backward) return;
    const auto* spec = TransformerOf(job_);
    const bool has_group = plan.wrap == WrapPolicy::kCustom && spec != nullptr &&
                           !spec->embedding_norm && WrapsFirstUnitAlone(plan.wrap_modules);
    if (has_group) return;
    problems_.Report("plan.fsdp2.unshard_in_backward",
                     "found 'false', allowed: false only where backward reads no parameters of the "
                     "first group: an embedding without norm that wrap: custom wraps alone");
  }

  bool WrapsFirstUnitAlone(const std::vector<std::string>& modules) const {
    const std::vector<UnitRange> groups = ResolveWrap(modules, units_).groups;
    return !groups.empty() && groups.front().first == 0 && groups.front().last == 0;
  }

  void CheckReshard(const Fsdp2Plan& plan) const {
    constexpr std::string_view kPath = "plan.fsdp2.reshard_after_forward";
    const std::string& text = plan.reshard_after_forward;
    if (problems_.AnyInvalid({kPath}) || text == "auto" || text == "true" || text == "false") {
      return;
    }
    const std::int64_t shards = ShardingOf(job_).shards;
    const std::optional<std::int64_t> size = ParseInteger(text);
    if (!size) {
      problems_.Report(kPath, fmt::format("found '{}', allowed: auto, true, false, or a divisor of "
                                          "the {} ranks of a copy",
                                          text, shards));
      return;
    }
    if (*size >= 1 && *size <= shards && shards % *size == 0) return;
    problems_.Report(
        kPath,
        fmt::format("as a number ({}) it must be a factor of the {} ranks over which a copy "
                    "is sharded; nearest valid: {}",
                    *size, shards,
                    fmt::join(NearestDivisors(shards, std::max<std::int64_t>(*size, 1)), ", ")));
  }

  const JobProblems& problems_;
  const JobSpec& job_;
  std::vector<std::string> units_;
};

constexpr auto kRows = [] {
  std::array<IneffectiveKey, kFsdp1Rows.size() + kFsdp2Rows.size() + kCommonRows.size()> rows{};
  auto* end = std::copy(kFsdp1Rows.begin(), kFsdp1Rows.end(), rows.begin());
  end = std::copy(kFsdp2Rows.begin(), kFsdp2Rows.end(), end);
  std::copy(kCommonRows.begin(), kCommonRows.end(), end);
  return rows;
}();

}  // namespace

std::span<const IneffectiveKey> IneffectiveFsdpKeys() { return kRows; }

void CheckFsdp(const JobProblems& problems) {
  if (UsesFsdp1(problems.job)) FsdpChecker(problems).CheckFsdp1();
  if (UsesFsdp2(problems.job)) FsdpChecker(problems).CheckFsdp2();
}

}  // namespace stepsim
