// Bucket rules of models/README.md, "Megatron data parallel", worked out by hand.
#include "models/parallel/megatron_buckets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace stepsim {
namespace {

using ::testing::ElementsAre;
using Sizes = std::vector<std::int64_t>;

Workload Of(const Sizes& sizes) {
  Workload workload;
  for (const std::int64_t size : sizes) workload.parameters.push_back({"p", size, DType::kFp32});
  return workload;
}

Sizes SizesOf(const MegatronPlan& plan, const Workload& workload, std::int64_t ranks = 8) {
  Sizes sizes;
  for (const MegatronBucket& bucket : PlanMegatronBuckets(plan, workload, ranks, ranks).buckets) {
    sizes.push_back(bucket.elements);
  }
  return sizes;
}

// The header's example: {c, b} begin at 0 and 64 and end at 124.
TEST(MegatronBuckets, ReverseOrderAlignedAndPadded) {
  const MegatronPlan plan{
      .use_distributed_optimizer = true, .overlap_grad_reduce = true, .ddp_bucket_size = 100};
  const MegatronBuckets planned = PlanMegatronBuckets(plan, Of({90, 60, 50}), 8, 8);
  ASSERT_EQ(planned.buckets.size(), 2u);
  EXPECT_THAT(planned.buckets[0].parameters, ElementsAre(2, 1));
  EXPECT_EQ(planned.buckets[0].elements, 128);
  EXPECT_THAT(planned.buckets[1].parameters, ElementsAre(0));
  EXPECT_EQ(planned.buckets[1].elements, 128);
  EXPECT_THAT(planned.of_parameter, ElementsAre(1u, 0u, 0u));
}

// Without the distributed optimizer nothing is padded; the crossing parameter is inside.
TEST(MegatronBuckets, WithoutPadding) {
  EXPECT_EQ(SizesOf({.overlap_grad_reduce = true, .ddp_bucket_size = 100}, Of({90, 60, 50})),
            (Sizes{110, 90}));
}

// max(40e6, 1e6 x ranks); unlimited if the reduction is not overlapped.
TEST(MegatronBuckets, DefaultLimit) {
  const Workload workload = Of({30'000'000, 30'000'000, 30'000'000});
  const MegatronPlan overlapped{.overlap_grad_reduce = true};
  EXPECT_EQ(SizesOf(overlapped, workload, 8).size(), 2u);
  EXPECT_EQ(SizesOf(overlapped, workload, 60).size(), 2u);
  EXPECT_EQ(SizesOf(overlapped, workload, 61).size(), 1u);
  EXPECT_EQ(SizesOf({}, workload, 8).size(), 1u);
}

// Each closes at its share of the parameters.
TEST(MegatronBuckets, NumberOfBuckets) {
  const Workload workload = Of({10, 10, 10, 10, 10, 10});
  for (const std::int64_t count : {1, 2, 3, 6}) {
    EXPECT_EQ(SizesOf({.overlap_grad_reduce = true, .ddp_num_buckets = count}, workload).size(),
              static_cast<std::size_t>(count));
  }
}

// To lcm(ranks, 128), and to 2^16 for NCCL's bus bandwidth.
TEST(MegatronBuckets, Padding) {
  MegatronPlan plan{.use_distributed_optimizer = true};
  EXPECT_EQ(SizesOf(plan, Of({1000}), 8), Sizes{1024});
  EXPECT_EQ(SizesOf(plan, Of({1000}), 48), Sizes{1152});  // lcm(48, 128) = 384
  plan.pad_buckets_for_high_nccl_busbw = true;
  EXPECT_EQ(SizesOf(plan, Of({1000}), 8), Sizes{65536});
  EXPECT_EQ(SizesOf(plan, Of({1000}), 48), Sizes{3 * 65536});
  EXPECT_EQ(SizesOf(plan, Of({65537}), 8), Sizes{2 * 65536});
}

// A tied embedding has a bucket of its own.
TEST(MegatronBuckets, ATiedTableIsAlone) {
  Workload workload = Of({128, 128, 128});
  Operator head;
  head.also_uses = {0};
  workload.units.push_back({"head", {head}});
  const MegatronPlan plan{.use_distributed_optimizer = true};
  EXPECT_EQ(SizesOf(plan, workload), (Sizes{256, 128}));
  workload.units.clear();
  EXPECT_EQ(SizesOf(plan, workload), Sizes{384});
}

// Every parameter is in one bucket; padding is less than 64 for each and one unit at the end.
TEST(MegatronBuckets, NothingIsLost) {
  const Workload workload = Of({7, 1, 300, 2, 2, 64, 5, 11, 1000, 129});
  for (const std::int64_t limit : {1, 10, 100, 500, 5000}) {
    const MegatronPlan plan{
        .use_distributed_optimizer = true, .overlap_grad_reduce = true, .ddp_bucket_size = limit};
    std::size_t parameters = 0;
    std::int64_t elements = 0;
    const MegatronBuckets planned = PlanMegatronBuckets(plan, workload, 8, 8);
    for (const MegatronBucket& bucket : planned.buckets) {
      EXPECT_EQ(bucket.elements % 128, 0);
      parameters += bucket.parameters.size();
      elements += bucket.elements;
    }
    EXPECT_EQ(parameters, workload.parameters.size());
    EXPECT_GE(elements, workload.parameter_count());
    EXPECT_LT(elements, workload.parameter_count() + 63 * 10 + 128 * 10);
  }
}

// Weights in fp8 have a buffer of their own; all else goes with its last bucket: 100 and 100 close
// one each, 3 and 7 begin at 128 and 192 behind the second.
TEST(MegatronBuckets, OtherParametersGoWithTheLastOfFp8) {
  Workload workload = Of({7, 100, 3, 100});
  workload.parameters[1].is_fp8 = workload.parameters[3].is_fp8 = true;
  const MegatronPlan plan{
      .use_distributed_optimizer = true, .overlap_grad_reduce = true, .ddp_bucket_size = 50};
  const MegatronBuckets planned = PlanMegatronBuckets(plan, workload, 8, 8);
  ASSERT_EQ(planned.buckets.size(), 2u);
  EXPECT_THAT(planned.buckets[0].parameters, ElementsAre(3));
  EXPECT_EQ(planned.buckets[0].elements, 128);
  EXPECT_EQ(planned.buckets[0].fp8, 128);
  EXPECT_THAT(planned.buckets[1].parameters, ElementsAre(1, 2, 0));
  EXPECT_EQ(planned.buckets[1].elements, 256);
  EXPECT_EQ(planned.buckets[1].fp8, 128);
  EXPECT_THAT(planned.of_parameter, ElementsAre(1u, 1u, 1u, 0u));
}

}  // namespace
}  // namespace stepsim
