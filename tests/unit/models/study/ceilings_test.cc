// Ceilings are steps that were simulated without something.
#include "models/study/ceilings.h"

#include <gtest/gtest.h>

#include "models/run_step.h"
#include "models/simulate_job.h"
#include "tests/support/shipped.h"

namespace stepsim {
namespace {

Duration Find(const std::vector<Ceiling>& ceilings, const std::string& what) {
  for (const Ceiling& ceiling : ceilings) {
    if (ceiling.what == what) return ceiling.step;
  }
  ADD_FAILURE() << "no ceiling " << what;
  return {};
}

struct Case {
  StepReport report;
  std::vector<Ceiling> ceilings;
};
Case Simulated(const std::string& name, const std::vector<std::string>& sets = {}) {
  const ResolvedJob job = testing::LoadShipped(name, sets);
  const SimulatedStep step = SimulateJob(job.job, BuildWorkload(job.job));
  Case result{RunStep(job).report, {}};
  result.ceilings =
      FindCeilings(step.graph, step.priced.costs, step.contention.get(), result.report.account());
  return result;
}

// Without communication nothing is exposed and nothing slows the kernels: compute is left.
TEST(Ceilings, WithoutCommunicationIsCompute) {
  const Case c = Simulated("gpt2_ddp_32xa40_25gbe");
  const RankAccount& account = c.report.account();
  EXPECT_NEAR(ToSeconds(Find(c.ceilings, "communication")),
              ToSeconds(account.compute + account.host + account.idle),
              1e-4 * ToSeconds(account.compute));
  EXPECT_GE(Find(c.ceilings, "gradient_reduce"), Find(c.ceilings, "communication"));
}

TEST(Ceilings, WithoutContentionIsTheJobWithoutContention) {
  const Case c = Simulated("llama-3.2-3b_ddp_16xa100");
  const StepReport off =
      RunStep(testing::LoadShipped("llama-3.2-3b_ddp_16xa100", {"contention=off"})).report;
  EXPECT_EQ(Find(c.ceilings, "contention"), off.account().step);
}

// A stage that waits for nobody is done after its own work.
TEST(Ceilings, WithoutTheBubbleIsTheBusiestStage) {
  const Case c = Simulated("llama-3-405b_tp8_pp16_16384xh100",
                           {"plan.pipeline_parallel=4", "nodes=64", "model.transformer.layers=18",
                            "plan.pipeline.virtual_stages=1", "plan.pipeline.schedule=1f1b"});
  Duration busiest{};
  for (const RankAccount& account : c.report.ranks) {
    busiest = std::max(busiest, account.step - account.bubble - account.peer_wait);
  }
  const Duration step = Find(c.ceilings, "bubble");
  EXPECT_LT(step, c.report.account().step);
  EXPECT_NEAR(ToSeconds(step), ToSeconds(busiest), 0.03 * ToSeconds(busiest));
}

TEST(Ceilings, AreNeverLongerThanTheStep) {
  for (const char* job : {"gpt2_ddp_8xa100", "llama-2-7b_zero3_16xa100",
                          "mixtral-8x7b_megatron_ep8_64xh100", "gpt3-6.7b_megatron_32xh100"}) {
    const Case c = Simulated(job);
    for (const Ceiling& ceiling : c.ceilings) {
      EXPECT_LE(ceiling.step, c.report.account().step) << job << " " << ceiling.what;
      EXPECT_GT(ceiling.step, Duration::zero());
    }
  }
}

}  // namespace
}  // namespace stepsim
