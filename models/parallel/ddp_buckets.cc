#include "models/parallel/ddp_buckets.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "sim/base/check.h"

namespace stepsim {
namespace {

constexpr double kDefaultCapMiB = 25;
constexpr double kDefaultFirstCapMiB = 1;  // dist._DEFAULT_FIRST_BUCKET_BYTES

// PyTorch computes int(cap * 1024 * 1024).
Bytes FromMiB(double mib) {
  const double bytes = std::floor(mib * 1024 * 1024);
  return Bytes{bytes < 9e18 ? static_cast<std::int64_t>(bytes)
                            : std::numeric_limits<std::int64_t>::max()};
}

struct OpenBucket {
  Bucket bucket;
  std::size_t limit = 0;  // index of the limit that closes it
};

std::int32_t SmallestIndex(const Bucket& bucket) {
  return *std::min_element(bucket.parameters.begin(), bucket.parameters.end());
}

}  // namespace

std::vector<Bucket> AssignBuckets(std::span<const ParameterTensor> parameters,
                                  std::span<const std::int32_t> order,
                                  std::span<const Bytes> limits, bool sort_by_smallest_index) {
  SIM_CHECK(!limits.empty(), "a bucket needs a limit");
  std::vector<Bucket> closed;
  std::vector<std::pair<DType, OpenBucket>> open;  // in order of first use
  for (const std::int32_t index : order) {
    const ParameterTensor& parameter = parameters[static_cast<std::size_t>(index)];
    auto entry = std::find_if(open.begin(), open.end(),
                              [&](const auto& o) { return o.first == parameter.dtype; });
    if (entry == open.end()) {
      entry = open.insert(open.end(), {parameter.dtype, {}});
    }
    auto& [bucket, limit] = entry->second;
    bucket.dtype = parameter.dtype;
    bucket.parameters.push_back(index);
    bucket.bytes += parameter.bytes();
    if (bucket.bytes < limits[limit]) continue;
    closed.push_back(std::exchange(bucket, {}));
    limit = std::min(limit + 1, limits.size() - 1);
  }
  for (auto& [dtype, rest] : open) {
    if (!rest.bucket.parameters.empty()) closed.push_back(std::move(rest.bucket));
  }
  if (sort_by_smallest_index) {
    std::stable_sort(closed.begin(), closed.end(), [](const Bucket& a, const Bucket& b) {
      return SmallestIndex(a) < SmallestIndex(b);
    });
  }
  return closed;
}

std::vector<Bytes> BucketLimits(const DdpPlan& plan) {
  if (!plan.bucket_cap_mb_list.empty()) {
    std::vector<Bytes> limits;
    for (const double cap : plan.bucket_cap_mb_list) limits.push_back(FromMiB(cap));
    return limits;
  }
  const Bytes cap = FromMiB(plan.bucket_cap_mb.value_or(kDefaultCapMiB));
  // An explicit cap holds for the first bucket too (PyTorch since about 2.4).
  const double default_first =
      plan.bucket_cap_mb.has_value() ? *plan.bucket_cap_mb : kDefaultFirstCapMiB;
  return {FromMiB(plan.first_bucket_mb.value_or(default_first)), cap};
}

std::vector<Bucket> PlanBuckets(const DdpPlan& plan, const Workload& workload, bool of_experts) {
  std::vector<std::int32_t> registration(workload.parameters.size());
  std::iota(registration.begin(), registration.end(), 0);
  std::vector<std::int32_t> arrival = workload.ArrivalOrder();
  const auto is_other = [&](std::int32_t p) {
    return workload.parameters[static_cast<std::size_t>(p)].is_expert != of_experts;
  };
  for (std::vector<std::int32_t>* order : {&registration, &arrival}) {
    order->erase(std::remove_if(order->begin(), order->end(), is_other), order->end());
  }
  if (plan.find_unused_parameters && !plan.static_graph) {
    std::vector<Bucket> buckets = AssignBuckets(
        workload.parameters, registration, BucketLimits(plan), /*sort_by_smallest_index=*/true);
    std::reverse(buckets.begin(), buckets.end());
    return buckets;
  }
  if (plan.iteration == TrainingIteration::kFirst) {
    const Bytes unlimited{std::numeric_limits<std::int64_t>::max()};
    return AssignBuckets(workload.parameters, registration, std::span(&unlimited, 1),
                         /*sort_by_smallest_index=*/true);
  }
  return AssignBuckets(workload.parameters, arrival, BucketLimits(plan),
                       /*sort_by_smallest_index=*/false);
}

}  // namespace stepsim
