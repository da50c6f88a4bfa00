#include "models/parallel/megatron_buckets.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

namespace stepsim {
namespace {

std::int64_t RoundUp(std::int64_t n, std::int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

std::int64_t Limit(const MegatronPlan& plan, const Workload& workload, std::int64_t ranks) {
  constexpr std::int64_t kLeast = 40'000'000, kPerRank = 1'000'000;
  if (!plan.overlap_grad_reduce) return std::numeric_limits<std::int64_t>::max();
  if (plan.ddp_num_buckets.has_value()) {
    return std::max<std::int64_t>(1, workload.parameter_count() / *plan.ddp_num_buckets);
  }
  return plan.ddp_bucket_size.value_or(std::max(kLeast, kPerRank * ranks));
}

// Used by two modules: the first and the last pipeline stage would share it.
std::set<std::int32_t> TiedParameters(const Workload& workload) {
  std::set<std::int32_t> tied;
  for (const ModelUnit& unit : workload.units) {
    for (const Operator& op : unit.operators) tied.insert(op.also_uses.begin(), op.also_uses.end());
  }
  return tied;
}

}  // namespace

// The crossing parameter is inside. With the distributed optimizer parameters begin at multiples of
// 64 elements, buckets end at multiples of lcm(shards, 128), and a tied table is alone in its own.
MegatronBuckets PlanMegatronBuckets(const MegatronPlan& plan, const Workload& workload,
                                    std::int64_t ranks, std::int64_t shards,
                                    std::int64_t expert_shards) {
  constexpr std::int64_t kParameterAlignment = 64, kBucketAlignment = 128, kBusyBus = 1 << 16;
  const bool is_padded = plan.use_distributed_optimizer;
  const auto alignment_of = [&](const MegatronBucket& bucket) {
    const std::int64_t cut = std::lcm(bucket.is_expert ? expert_shards : shards, kBucketAlignment);
    return plan.pad_buckets_for_high_nccl_busbw ? std::lcm(cut, kBusyBus) : cut;
  };
  const std::int64_t limit = Limit(plan, workload, ranks);
  const std::set<std::int32_t> tied =
      is_padded ? TiedParameters(workload) : std::set<std::int32_t>{};

  MegatronBuckets result;
  result.of_parameter.resize(workload.parameters.size());
  MegatronBucket open;
  const auto close = [&] {
    if (open.parameters.empty()) return;
    if (is_padded) open.elements = RoundUp(open.elements, alignment_of(open));
    result.buckets.push_back(std::exchange(open, {}));
  };
  // Of one buffer. `joins_last`: not buckets of their own, but more of the last one.
  const auto add = [&](bool of_experts, bool of_fp8, bool joins_last) {
    if (joins_last) {
      open = std::move(result.buckets.back());
      result.buckets.pop_back();
    }
    for (std::size_t i = workload.parameters.size(); i-- > 0;) {
      const ParameterTensor& tensor = workload.parameters[i];
      if (tensor.is_expert != of_experts || tensor.is_fp8 != of_fp8) continue;
      const auto p = static_cast<std::int32_t>(i);
      const bool is_alone = tied.count(p) > 0 && !joins_last;
      if (is_alone) close();
      open.is_expert = of_experts;
      if (is_padded) open.elements = RoundUp(open.elements, kParameterAlignment);
      open.parameters.push_back(p);
      open.elements += tensor.elements;
      result.of_parameter[i] = result.buckets.size();
      if (is_alone || (open.elements >= limit && !joins_last)) close();
    }
    close();
  };
  for (const bool of_experts : {false, true}) {
    const std::size_t before = result.buckets.size();
    add(of_experts, /*of_fp8=*/true, /*joins_last=*/false);
    for (std::size_t i = before; i < result.buckets.size(); ++i) {
      result.buckets[i].fp8 = result.buckets[i].elements;
    }
    add(of_experts, /*of_fp8=*/false, /*joins_last=*/result.buckets.size() > before);
  }
  return result;
}

}  // namespace stepsim
