// What DeepSpeed's coordinator decides, against the rules of models/README.md, "ZeRO",
// worked out by hand on equal modules of 10 elements.
#include "models/parallel/zero3_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace stepsim {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::int64_t kModule = 10;

using Lists = std::vector<std::vector<std::int32_t>>;

// One operator with one parameter each; `tied`: the last one reads the first one's instead.
Workload ModulesOf(int count, bool tied = false) {
  Workload workload;
  for (std::int32_t p = 0; p < count; ++p) {
    Operator op;
    op.name = "op";
    if (tied && p + 1 == count) {
      op.also_uses = {0};
    } else {
      op.parameters_ready = {p};
      workload.parameters.push_back({"p", kModule, DType::kFp32});
    }
    workload.units.push_back({"layers." + std::to_string(p), {op}});
  }
  return workload;
}

ZeroPlan PlanOf(std::int64_t window, std::int64_t reuse) {
  return {.stage = 3,
          .stage3_prefetch_bucket_size = window,
          .stage3_max_reuse_distance = reuse,
          .stage3_param_persistence_threshold = 0};
}

std::vector<ZeroUse> UsesOf(const ZeroPlan& plan, const Workload& workload) {
  return PlanUses(plan, workload, ZeroModules(workload, plan));
}

Lists Each(const std::vector<ZeroUse>& uses, std::vector<std::int32_t> ZeroUse::*list) {
  Lists lists;
  for (const ZeroUse& use : uses) lists.push_back(use.*list);
  return lists;
}

// The header's example, which is the specification's steady state.
TEST(ZeroSchedule, SteadyState) {
  const auto uses = UsesOf(PlanOf(kModule, kModule), ModulesOf(3));
  EXPECT_EQ(Each(uses, &ZeroUse::fetched), (Lists{{0}, {}, {}, {}, {}, {}}));
  EXPECT_EQ(Each(uses, &ZeroUse::awaited), (Lists{{0}, {1}, {2}, {}, {1}, {0}}));
  // Use 2 skips module 2's backward, which is there, and gathers for module 1's; use 3 for 0's.
  EXPECT_EQ(Each(uses, &ZeroUse::prefetched), (Lists{{1}, {2}, {1}, {0}, {}, {}}));
  EXPECT_EQ(Each(uses, &ZeroUse::released), (Lists{{0}, {1}, {}, {2}, {1}, {0}}));
}

// "Pop entries until the newly fetched elements reach the window; the crossing one is included."
TEST(ZeroSchedule, TheCrossingParameterIsIncluded) {
  EXPECT_THAT(UsesOf(PlanOf(1, 0), ModulesOf(5))[0].prefetched, ElementsAre(1));
  EXPECT_THAT(UsesOf(PlanOf(kModule, 0), ModulesOf(5))[0].prefetched, ElementsAre(1));
  EXPECT_THAT(UsesOf(PlanOf(kModule + 1, 0), ModulesOf(5))[0].prefetched, ElementsAre(1, 2));
}

TEST(ZeroSchedule, NoWindowNothingAhead) {
  for (const ZeroUse& use : UsesOf(PlanOf(0, 0), ModulesOf(4))) {
    EXPECT_EQ(use.fetched.size(), 1u);
    EXPECT_THAT(use.prefetched, IsEmpty());
    EXPECT_EQ(use.released, use.fetched);
  }
}

// max_live_parameters "bounds prefetch only; it never forces a release".
TEST(ZeroSchedule, LiveParametersBoundTheWindow) {
  ZeroPlan plan = PlanOf(100 * kModule, 0);
  plan.stage3_max_live_parameters = 3 * kModule;
  const auto uses = UsesOf(plan, ModulesOf(6));
  EXPECT_THAT(uses[0].prefetched, ElementsAre(1, 2));  // beside module 0
  plan.stage3_max_live_parameters = 0;
  plan.stage3_max_reuse_distance = 1000 * kModule;
  std::int64_t live = 0;
  for (const ZeroUse& use : UsesOf(plan, ModulesOf(6))) {
    EXPECT_THAT(use.prefetched, IsEmpty());
    live += static_cast<std::int64_t>(use.fetched.size());
  }
  EXPECT_EQ(live, 6);  // kept all the same
}

// "A parameter with fewer than half the distance of model after it is kept from forward to backward
// (the way there and back counts twice)": 4 modules, 2k modules between the two uses of the k-th
// from the end.
TEST(ZeroSchedule, ReuseDistanceCountsBothWays) {
  const auto gathers = [](std::int64_t reuse) {
    std::size_t count = 0;
    for (const ZeroUse& use : UsesOf(PlanOf(0, reuse), ModulesOf(4))) count += use.fetched.size();
    return count;
  };
  EXPECT_EQ(gathers(0), 8u);
  EXPECT_EQ(gathers(1), 7u);                // the last module
  EXPECT_EQ(gathers(2 * kModule), 7u);      // 2 modules in between are not within 2
  EXPECT_EQ(gathers(2 * kModule + 1), 6u);  // the last two
  EXPECT_EQ(gathers(4 * kModule + 1), 5u);
  EXPECT_EQ(gathers(6 * kModule + 1), 4u);  // gathered once
}

// Until the trace is complete nothing is gathered ahead, every parameter is released after use, and
// none is persistent.
TEST(ZeroSchedule, FirstIteration) {
  ZeroPlan plan = PlanOf(100 * kModule, 1000 * kModule);
  plan.stage3_param_persistence_threshold = 2 * kModule;
  EXPECT_EQ(Each(UsesOf(plan, ModulesOf(3)), &ZeroUse::fetched), Lists(6));
  plan.iteration = TrainingIteration::kFirst;
  const auto uses = UsesOf(plan, ModulesOf(3));
  const Lists each{{0}, {1}, {2}, {2}, {1}, {0}};
  EXPECT_EQ(Each(uses, &ZeroUse::fetched), each);
  EXPECT_EQ(Each(uses, &ZeroUse::awaited), each);
  EXPECT_EQ(Each(uses, &ZeroUse::prefetched), Lists(6));
  EXPECT_EQ(Each(uses, &ZeroUse::released), each);
}

// A tied table is used by the embedding and by the head, forward and backward.
TEST(ZeroSchedule, ATiedTableIsFetchedForTheHead) {
  const auto uses = UsesOf(PlanOf(0, 0), ModulesOf(4, /*tied=*/true));
  EXPECT_EQ(Each(uses, &ZeroUse::fetched), (Lists{{0}, {1}, {2}, {0}, {0}, {2}, {1}, {0}}));
  // The head's backward follows its forward at once.
  EXPECT_EQ(Each(UsesOf(PlanOf(0, 1), ModulesOf(4, true)), &ZeroUse::fetched),
            (Lists{{0}, {1}, {2}, {0}, {}, {2}, {1}, {0}}));
}

// A layer of three modules of 10 elements is one module with three in it: 30 / 4 = 7 each.
Workload LayersOfThree() {
  Workload workload;
  for (std::int32_t u = 0; u < 2; ++u) {
    ModelUnit unit{"layers." + std::to_string(u), {}};
    for (std::int32_t i = 0; i < 3; ++i) {
      Operator op;
      op.parameters_ready = {3 * u + i};
      unit.operators.push_back(op);
      workload.parameters.push_back({"p", kModule, DType::kFp32});
    }
    workload.units.push_back(unit);
  }
  return workload;
}

TEST(ZeroModules, SmallModulesAreFetchedAsOne) {
  ZeroPlan plan = PlanOf(0, 0);
  const auto use_count = [&] { return ZeroModules(LayersOfThree(), plan).use_count(); };
  EXPECT_EQ(use_count(), 12u);
  plan.stage3_module_granularity_threshold = 6;
  EXPECT_EQ(use_count(), 12u);
  plan.stage3_module_granularity_threshold = 7;
  EXPECT_EQ(use_count(), 4u);
  plan.stage3_module_granularity_threshold = 0;
  plan.stage3_leaf_modules = LeafModules::kLayers;
  const auto uses = UsesOf(plan, LayersOfThree());
  EXPECT_EQ(Each(uses, &ZeroUse::fetched), (Lists{{0, 1, 2}, {3, 4, 5}, {3, 4, 5}, {0, 1, 2}}));
}

// Everything is fetched before it is awaited and released as often as it was gathered.
TEST(ZeroSchedule, WhatComesGoes) {
  for (const std::int64_t window : {0, 5, 10, 25, 1000}) {
    for (const std::int64_t reuse : {0, 15, 45, 1000}) {
      for (const bool tied : {false, true}) {
        std::vector<int> held(6);
        std::vector<int> awaited(6);
        for (const ZeroUse& use : UsesOf(PlanOf(window, reuse), ModulesOf(6, tied))) {
          const auto index = [](std::int32_t p) { return static_cast<std::size_t>(p); };
          for (const std::int32_t p : use.fetched) ++held[index(p)], ++awaited[index(p)];
          for (const std::int32_t p : use.awaited) EXPECT_EQ(--awaited[index(p)], 0);
          for (const std::int32_t p : use.prefetched) ++held[index(p)], ++awaited[index(p)];
          for (const int count : held) EXPECT_LE(count, 1);
          for (const std::int32_t p : use.released) EXPECT_EQ(--held[index(p)], 0);
        }
        EXPECT_THAT(held, ::testing::Each(0));
        EXPECT_THAT(awaited, ::testing::Each(0));
      }
    }
  }
}

}  // namespace
}  // namespace stepsim
