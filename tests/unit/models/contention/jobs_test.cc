// What does a job's `contention` change? Whole runs of shipped jobs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "models/run_step.h"
#include "sim/base/diagnostics.h"
#include "tests/support/shipped.h"

namespace stepsim {
namespace {

StepReport RunJob(std::vector<std::string> sets) {
  StepReport report = RunStep(testing::LoadShipped("llama-3.2-3b_ddp_16xa100", sets)).report;
  testing::ExpectIdentity(report);
  return report;
}

TEST(ContentionOfJobs, OffIsTheCeilingAndFullTheRule) {
  const StepReport off = RunJob({"contention=off"}), sm = RunJob({"contention=sm"}),
                   full = RunJob({"contention=full"}), unsaid = RunJob({});
  EXPECT_EQ(off.account().contention, Duration::zero());
  EXPECT_GT(sm.account().contention, Duration::zero());
  EXPECT_GT(full.account().contention, sm.account().contention);
  EXPECT_LT(off.account().step, sm.account().step);
  EXPECT_LT(sm.account().step, full.account().step);
  EXPECT_EQ(unsaid.account(), full.account());
  // What a kernel would take alone is the same in all.
  EXPECT_EQ(off.account().compute, full.account().compute);
}

// A collective with priority gets its SMs earlier: what waits longer transfers longer.
TEST(ContentionOfJobs, PriorityShortensTransfers) {
  const StepReport late = RunJob({"host.stream_priority=default"}),
                   early = RunJob({"host.stream_priority=high"});
  EXPECT_LT(early.account().communication, late.account().communication);
}

// Nothing runs beside anything without communication.
TEST(ContentionOfJobs, NeedsTwo) {
  const StepReport alone = RunJob({"nodes=1", "gpus_per_node=1"});
  EXPECT_EQ(alone.account().contention, Duration::zero());
}

TEST(ContentionOfJobs, BetasAreFieldsOfTheGpu) {
  const StepReport none = RunJob({"hardware.gpu.contention.gemm=0"}),
                   high = RunJob({"hardware.gpu.contention.gemm=0.4"});
  EXPECT_LT(none.account().contention, high.account().contention);
  EXPECT_THROW(RunJob({"hardware.gpu.contention.gemm=-1"}), ConfigError);
  EXPECT_THROW(RunJob({"contention=some"}), ConfigError);
}

}  // namespace
}  // namespace stepsim
