#include "sim/base/large_array.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace stepsim {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

// From 4 MiB on memory comes from elsewhere: growing across that line must not lose an item.
TEST(LargeArrayTest, GrowsAcrossTheLineBetweenSmallAndLarge) {
  LargeArray<std::uint64_t> items;
  for (std::uint64_t i = 0; i < kMiB; ++i) items.push_back(i * i);  // 8 MiB in the end
  for (std::uint64_t i = 0; i < kMiB; ++i) ASSERT_EQ(items[i], i * i);
  items.resize(10);
  items.shrink_to_fit();  // and back
  EXPECT_EQ(items[9], 81u);
}

TEST(LargeArrayTest, LargeOnesStartOnALargePage) {
  const LargeArray<char> large(4 * kMiB), larger(5 * kMiB + 1);
  for (const char* begin : {large.data(), larger.data()}) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(begin) % (2 * kMiB), 0u);
  }
}

TEST(LargeArrayTest, CopiesAndMoves) {
  LargeArray<int> items(2 * kMiB, 7);
  const LargeArray<int> copy = items;
  const LargeArray<int> moved = std::move(items);
  EXPECT_EQ(copy, moved);
}

}  // namespace
}  // namespace stepsim
