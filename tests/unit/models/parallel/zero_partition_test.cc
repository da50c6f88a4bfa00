#include "models/parallel/zero_partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace stepsim {
namespace {

using ::testing::ElementsAre;

Workload Of(const std::vector<std::int64_t>& sizes) {
  Workload workload;
  for (const std::int64_t size : sizes) workload.parameters.push_back({"p", size, DType::kFp32});
  return workload;
}

std::vector<std::int64_t> OwnersOf(const ZeroPartition& partition,
                                   const std::vector<std::int32_t>& parameters) {
  return partition.ElementsByOwner(parameters);
}

// The header's example.
TEST(ZeroPartition, TensorsAreLaidEndToEnd) {
  const Workload workload = Of({6, 10});
  const ZeroPartition partition(workload, 4, /*round_robin=*/false);
  EXPECT_EQ(partition.elements_per_rank(), 4);
  EXPECT_EQ(partition.padded_elements(), 16);
  EXPECT_THAT(OwnersOf(partition, {0}), ElementsAre(4, 2));
  EXPECT_THAT(OwnersOf(partition, {1}), ElementsAre(2, 4, 4));
  EXPECT_THAT(OwnersOf(partition, {1, 0}), ElementsAre(4, 4, 4, 4));
}

// Each part begins at a multiple of two elements.
TEST(ZeroPartition, IsPadded) {
  const Workload workload = Of({1001});
  EXPECT_EQ(ZeroPartition(workload, 8, false).padded_elements(), 1008);
  EXPECT_EQ(ZeroPartition(workload, 8, false).elements_per_rank(), 126);
}

// Two ranks, six tensors of 2: in order 0 1 2 | 3 4 5; dealt out 0 2 4 | 1 3 5.
TEST(ZeroPartition, RoundRobinDealsTensorsOut) {
  const Workload workload = Of({2, 2, 2, 2, 2, 2});
  const ZeroPartition in_order(workload, 2, false);
  const ZeroPartition dealt(workload, 2, true);
  EXPECT_THAT(OwnersOf(in_order, {0, 1, 2}), ElementsAre(6));
  EXPECT_THAT(OwnersOf(dealt, {0, 1, 2}), ElementsAre(4, 2));
  EXPECT_THAT(OwnersOf(dealt, {0, 2, 4}), ElementsAre(6));
  EXPECT_THAT(OwnersOf(dealt, {1, 3, 5}), ElementsAre(6));
}

// Whatever is asked for is owned, each element once, by no more than a partition each.
TEST(ZeroPartition, EveryElementHasOneOwner) {
  const Workload workload = Of({7, 1, 30, 2, 2, 64, 5, 11});
  for (const std::int64_t ranks : {1, 2, 3, 5, 8, 16, 100}) {
    for (const bool round_robin : {false, true}) {
      const ZeroPartition partition(workload, ranks, round_robin);
      const std::vector<std::int64_t> all = OwnersOf(partition, {7, 6, 5, 4, 3, 2, 1, 0});
      EXPECT_EQ(std::accumulate(all.begin(), all.end(), std::int64_t{0}), 122);
      EXPECT_LE(static_cast<std::int64_t>(all.size()), ranks);
      for (const std::int64_t elements : all) EXPECT_LE(elements, partition.elements_per_rank());
    }
  }
}

}  // namespace
}  // namespace stepsim
