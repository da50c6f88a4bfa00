// What holds for kernels that run together, whatever the job and the GPU? Random jobs whose
// collectives occupy random parts of it.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "models/contention/contention.h"
#include "models/cost/graph_cost.h"
#include "models/parallel/build_step.h"
#include "models/workload/workload.h"
#include "sim/metrics/accounting.h"
#include "sim/metrics/build_report.h"
#include "sim/metrics/intervals.h"
#include "tests/support/random_job.h"
#include "tests/support/shipped.h"
#include "tests/support/workloads.h"

namespace stepsim {
namespace {

constexpr std::uint64_t kJobs = 100;

double Real(Random& random, double low, double high) {
  return low + (high - low) * static_cast<double>(random.Between(0, 1000)) / 1000;
}

// A job on a random GPU, priced, with random occupancies.
struct Crowd {
  explicit Crowd(std::uint64_t seed) : random(seed), job(testing::RandomJob(seed).job) {
    GpuSpec& gpu = job.hardware.gpu;
    gpu.sms = random.Between(1, 150);
    gpu.contention = {.gemm = Real(random, 0, 1),
                      .attention = Real(random, 0, 1),
                      .memory = Real(random, 0, 2),
                      .communication = Real(random, 0, 1),
                      .hbm_ceiling = Real(random, 0.1, 1),
                      .partial_wave = Real(random, 0, 1)};
    if (random.Between(0, 1) == 1) {
      gpu.contention.power_cap = Real(random, 100, 700);
      gpu.contention.power_compute = Real(random, 100, 900);
      gpu.contention.power_communication = Real(random, 0, 100);
    }
    job.simulate.all_ranks = job.gpus() <= 4;
    settings.mode = random.Between(0, 3) == 0 ? ContentionMode::kSm : ContentionMode::kFull;
    settings.priority =
        random.Between(0, 1) == 0 ? StreamPriority::kDefault : StreamPriority::kHigh;
    graph = BuildStep(job, BuildWorkload(job)).graph;
    GraphCosts priced = PriceGraph(graph, job);
    costs = std::move(priced.costs);
    occupancy = std::move(priced.occupancy);
    for (Occupancy& work : occupancy) Occupy(work);
  }

  void Occupy(Occupancy& work) {
    if (work.kind == TaskKind::kTransfer) {
      work.sms = static_cast<double>(random.Between(0, 200));
      work.hbm = Real(random, 0, 1.2) * job.hardware.gpu.hbm_bandwidth.value;
      work.intra = Real(random, 0, 1);
      work.network = Real(random, 0, 1);
    } else if (work.compute_class == ComputeClass::kGemm) {
      work.tiles = static_cast<double>(random.Between(0, 3000));
    }
  }

  Timeline Run() {
    Contention contention(occupancy, job.hardware, settings);
    return Simulate(graph, costs, &contention);
  }

  Random random;
  JobSpec job;
  ContentionSettings settings;
  TaskGraph graph;
  TaskCosts costs;
  IdVector<WorkId, Occupancy> occupancy;
};

template <class Check>
void ForEachCrowd(Check check) {
  for (std::uint64_t seed = 0; seed < kJobs; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ASSERT_NO_THROW({
      Crowd crowd(seed);
      check(crowd);
    });
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(ContentionProperties, EveryPicosecondIsAccountedFor) {
  ForEachCrowd([](Crowd& crowd) {
    const Timeline timeline = crowd.Run();
    const StepReport report = BuildReport(crowd.graph, crowd.costs, {}, timeline, {});
    testing::ExpectIdentity(report);
    // compute + contention is the time in which kernels run, to the picosecond.
    const std::vector<RankActivity> activities = ObserveRanks(crowd.graph, timeline);
    for (std::size_t rank = 0; rank < report.ranks.size(); ++rank) {
      const RankAccount& account = report.ranks[rank];
      EXPECT_EQ(account.compute + account.contention, Measure(activities[rank].computing));
      EXPECT_GE(account.contention, Duration::zero());
    }
  });
}

TEST(ContentionProperties, NothingIsFasterThanAlone) {
  ForEachCrowd([](Crowd& crowd) {
    const Timeline timeline = crowd.Run();
    for (const TaskId t : AllIds<TaskId>(crowd.graph.task_count())) {
      EXPECT_GE(timeline.end[t] - TransferStart(crowd.graph, timeline, t),
                crowd.costs[crowd.graph.work_id(t)].isolated);
    }
  });
}

TEST(ContentionProperties, TwoRunsAreIdentical) {
  ForEachCrowd([](Crowd& crowd) {
    const Timeline a = crowd.Run(), b = crowd.Run();
    for (const TaskId t : AllIds<TaskId>(crowd.graph.task_count())) {
      EXPECT_EQ(a.start[t], b.start[t]);
      EXPECT_EQ(a.end[t], b.end[t]);
    }
  });
}

// Kernels that ask for nothing run as if they were alone.
TEST(ContentionProperties, WhoAsksForNothingCostsNothing) {
  ForEachCrowd([](Crowd& crowd) {
    for (Occupancy& work : crowd.occupancy) {
      work = {.kind = work.kind, .tiles = work.kind == TaskKind::kCompute ? 0.5 : 0};
    }
    crowd.job.hardware.gpu.sms = 1000;  // room for everybody
    EXPECT_EQ(crowd.Run().makespan, Simulate(crowd.graph, crowd.costs).makespan);
  });
}

// One kernel beside one collective: whatever the collective takes more of slows the kernel more, as
// long as the collective itself has all of its SMs.
TEST(ContentionProperties, MoreOfACollectiveIsNeverLessSlowDown) {
  ForEachCrowd([](Crowd& crowd) {
    crowd.settings.mode = ContentionMode::kFull;
    const GpuSpec& gpu = crowd.job.hardware.gpu;
    for (Occupancy& work : crowd.occupancy) {
      if (work.kind != TaskKind::kCompute) continue;
      double before = 1;
      for (int step = 0; step <= 10; ++step) {
        IdVector<WorkId, Occupancy> two;
        two.push_back(work);
        two.push_back({.kind = TaskKind::kTransfer,
                       .sms = 0.1 * step * static_cast<double>(gpu.sms - 1),
                       .hbm = 0.1 * step * gpu.contention.hbm_ceiling * gpu.hbm_bandwidth.value,
                       .intra = 0.05 * step});
        Contention contention(two, crowd.job.hardware, crowd.settings);
        const std::vector<RunningTask> running = {{TaskId{0}, WorkId{0}}, {TaskId{1}, WorkId{1}}};
        std::vector<double> rates(2, 1.0);
        contention.Rates(RankId{0}, running, rates);
        EXPECT_GT(rates[0], 0);
        EXPECT_LE(rates[0], before + 1e-12);
        before = rates[0];
      }
    }
  });
}

}  // namespace
}  // namespace stepsim
