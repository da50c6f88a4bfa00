// Modules that a job may name stand in models/spec, the units themselves are made by
// models/workload. The two must be one list, in one order.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "models/spec/wrap_modules.h"
#include "models/workload/workload.h"
#include "tests/support/random_job.h"

namespace stepsim {
namespace {

TEST(UnitNames, AreThoseOfTheWorkload) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const JobSpec job = testing::RandomJob(seed).job;
    std::vector<std::string> names;
    for (const ModelUnit& unit : BuildWorkload(job).units) names.push_back(unit.name);
    EXPECT_EQ(UnitNames(job), names) << "seed " << seed;
  }
}

}  // namespace
}  // namespace stepsim
