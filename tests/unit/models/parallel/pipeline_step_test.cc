// Does the step builder carry out a pipeline's schedule as the frameworks do?
#include "tests/support/pipeline_step.h"

#include <gmock/gmock.h>

#include <string>
#include <tuple>
#include <vector>

#include "models/pipeline/replay.h"
#include "sim/metrics/accounting.h"

namespace stepsim {
namespace {

using testing_pipeline::PipelineJob;
using testing_pipeline::PipelineRun;
using testing_pipeline::RunPipeline;
using testing_pipeline::Times;

std::vector<std::int64_t> Expected(const VecExample& example, const std::string& stream) {
  std::vector<std::int64_t> starts;
  for (const VecLine& line : example.lines) {
    if (line.stream == stream) starts.push_back(example.expected.start.at(line.id));
  }
  return starts;
}

// Backward is 20 in the examples: the halves are one after the other.
void ExpectExample(const std::string& name, PipelineRuntime runtime) {
  const VecExample example = ReadVecExample(STEPSIM_SOURCE_DIR "/tests/data/schedules.vec", name);
  const JobSpec job = PipelineJob("1f1b", {.ranks = 2, .microbatches = 2}, runtime);
  const PipelineRun run = RunPipeline(job, {10, 10, 10, 2});
  EXPECT_EQ(run.makespan(), example.expected.makespan);
  for (const std::uint32_t rank : {0u, 1u}) {
    std::vector<std::int64_t> starts;  // of whole passes
    for (const TaskId t : AllIds<TaskId>(run.graph.task_count())) {
      const bool is_second_half = run.graph.label(t).name.ends_with("wgrad");
      if (run.graph.rank(t) != RankId{rank} || is_second_half) continue;
      if (run.graph.kind(t) == TaskKind::kCompute) starts.push_back(run.StartOf(t));
    }
    EXPECT_EQ(starts, Expected(example, std::to_string(rank) + ".C")) << rank;
    EXPECT_EQ(run.TransferStarts(rank), Expected(example, "x.01")) << rank;
  }
}

TEST(PipelineStep, Pytorch1f1bMovesFusedBatches) {
  ExpectExample("torch-1f1b-p2-m2", PipelineRuntime::kPytorch);
}
TEST(PipelineStep, Megatron1f1bWaitsForEveryExchange) {
  ExpectExample("megatron-1f1b-p2-m2", PipelineRuntime::kMegatron);
}

// ---- With free transfers a step is the schedule's replay ----

using Case = std::tuple<std::string, ScheduleShape>;

std::vector<Case> Cases() {
  return {{"gpipe", {4, 1, 8}},
          {"1f1b", {4, 1, 8}},
          {"1f1b", {3, 1, 4}},
          {"1f1b", {4, 1, 2}},
          {"interleaved_1f1b", {4, 2, 8}},
          {"interleaved_1f1b", {4, 3, 12}},
          {"looped_bfs", {4, 2, 8}},
          {"zb1p", {4, 1, 8}},
          {"zb1p", {4, 2, 8}},
          {"zbv", {4, 2, 12}},
          {"dualpipev", {4, 2, 10}},
          {"dualpipe", {4, 1, 8}},
          {"megatron_interleaved", {4, 2, 10, 6}},
          {"megatron_paired", {4, 2, 8}}};
}

class AgreesWithReplay : public ::testing::TestWithParam<Case> {};

// models/pipeline's replay is independent of the engine: other code, other data.
TEST_P(AgreesWithReplay, WithoutTransfers) {
  const auto& [name, shape] = GetParam();
  for (const Times& times : {Times{1, 1, 1}, Times{2, 3, 1}, Times{4, 6, 2}}) {
    for (const PipelineRuntime runtime : {PipelineRuntime::kPytorch, PipelineRuntime::kMegatron}) {
      const JobSpec job = PipelineJob(name, shape, runtime);
      const PipelineSchedule schedule = ScheduleOf(job);
      if (runtime == PipelineRuntime::kPytorch && schedule.splits_backward) continue;  // stage 0
      const ScheduleReplay replay = Replay(
          schedule,
          {double(times.forward), double(times.input_gradient), double(times.weight_gradient)});
      const PipelineRun run = RunPipeline(job, times);
      EXPECT_EQ(static_cast<double>(run.makespan()), replay.makespan)
          << name << (runtime == PipelineRuntime::kMegatron ? " megatron" : " pytorch");
    }
  }
}

// One communicator for all transfers of a rank: a receive that is posted early holds up the sends
// behind it, however little they take. The published gain of interleaving over 1F1B, 128 against
// 100 tokens/s (torchtitan, arXiv 2410.06511, table 5: eight stages), is that of a communicator for
// each pair of ranks: (m+p-1) / (m+(p-1)/v) = 1.30 for eight micro-batches.
TEST(PipelineStep, EarlyReceivesHoldUpASharedCommunicator) {
  JobSpec job = PipelineJob("interleaved_1f1b", {.ranks = 8, .chunks = 2, .microbatches = 8},
                            PipelineRuntime::kPytorch);
  const Times half{1, 1, 1}, whole{2, 2, 2};
  const JobSpec plain =
      PipelineJob("1f1b", {.ranks = 8, .microbatches = 8}, PipelineRuntime::kPytorch);
  const double one_f_one_b = static_cast<double>(RunPipeline(plain, whole).makespan());
  const double pairs = static_cast<double>(RunPipeline(job, half).makespan());
  EXPECT_DOUBLE_EQ(one_f_one_b / pairs, 15.0 / 11.5);
  EXPECT_NEAR(one_f_one_b / pairs, 1.28, 0.03);
  job.plan.pipeline.eager_communicators = true;
  EXPECT_GT(static_cast<double>(RunPipeline(job, half).makespan()), pairs);
}

// Whatever a transfer takes, no order of calls blocks another, and every picosecond is accounted
// for.
TEST_P(AgreesWithReplay, TransfersNeverBlock) {
  const auto& [name, shape] = GetParam();
  for (const int transfer : {1, 3, 50}) {
    for (const PipelineRuntime runtime : {PipelineRuntime::kPytorch, PipelineRuntime::kMegatron}) {
      const JobSpec job = PipelineJob(name, shape, runtime);
      const Times times{2, 3, 1, transfer};
      const PipelineRun run = RunPipeline(job, times);  // throws where ranks wait in a circle
      EXPECT_GE(run.makespan(), RunPipeline(job, {2, 3, 1, 0}).makespan());
    }
  }
}

// Joined passes at once: layers without exchanges hide nothing, but a pass's tensor leaves when it
// is made, not when both passes are over, as the replay has it. No order of calls blocks another.
TEST(PipelineStep, JoinedPassesNeverBlock) {
  const std::vector<Case> cases = {
      {"dualpipev", {4, 2, 10}}, {"dualpipe", {4, 1, 8}}, {"megatron_paired", {4, 2, 8}}};
  for (const auto& [name, shape] : cases) {
    for (const PipelineRuntime runtime : {PipelineRuntime::kPytorch, PipelineRuntime::kMegatron}) {
      for (const bool delays : {false, true}) {
        JobSpec job = PipelineJob(name, shape, runtime);
        job.plan.pipeline.overlap_forward_backward = true;
        job.plan.expert.delay_weight_gradients = delays;
        const auto makespan = [&](int transfer) {
          return static_cast<double>(RunPipeline(job, {2, 3, 1, transfer}).makespan());
        };
        if (runtime == PipelineRuntime::kMegatron) {  // PyTorch's first stage splits otherwise
          EXPECT_LE(makespan(0), Replay(ScheduleOf(job), {2, 3, 1}).makespan) << name;
        }
        for (const int transfer : {1, 3, 50}) EXPECT_GE(makespan(transfer), makespan(0)) << name;
      }
    }
  }
}

std::string NameOf(const ::testing::TestParamInfo<Case>& test) {
  const auto& [name, shape] = test.param;
  return name + "_p" + std::to_string(shape.ranks) + "_v" + std::to_string(shape.chunks) + "_m" +
         std::to_string(shape.microbatches);
}
INSTANTIATE_TEST_SUITE_P(Schedules, AgreesWithReplay, ::testing::ValuesIn(Cases()), NameOf);

// ---- The bubble of a step is the closed form ----

// Both ends of a transfer know who sends; of one in both directions, nobody alone.
TEST(PipelineStep, ATransferKnowsItsSender) {
  for (const PipelineRuntime runtime : {PipelineRuntime::kPytorch, PipelineRuntime::kMegatron}) {
    const JobSpec job = PipelineJob("1f1b", {.ranks = 4, .microbatches = 6}, runtime);
    const PipelineRun run = RunPipeline(job, {1, 1, 1, 1});
    int one_way = 0, both = 0;
    for (const TaskId t : AllIds<TaskId>(run.graph.task_count())) {
      const auto* work = std::get_if<CollectiveWork>(&run.graph.work(t));
      if (work == nullptr) continue;
      const std::string& name = run.graph.label(t).name;
      const std::int32_t own = run.graph.rank_info(run.graph.rank(t)).global_rank;
      if (name.find(" + ") != std::string::npos) {
        EXPECT_EQ(work->sender, -1) << name;
        ++both;
        continue;
      }
      EXPECT_EQ(work->sender == own, name.rfind("send ", 0) == 0) << name;
      EXPECT_GE(work->sender, 0) << name;
      ++one_way;
    }
    EXPECT_GT(one_way, 0);
    EXPECT_GT(both, 0);
  }
}

struct BubbleCase {
  std::string schedule;
  ScheduleShape shape;
  PipelineRuntime runtime;
};

// Fill and drain take (p-1)(tF+tB) of a chunk on every rank, which has m passes in each of its v
// chunks: (p-1) / (m v) of what it computes (GPipe and Megatron-LM papers). Whichever runtime
// sends, and wherever a rank waits in the end: for the end of the step, or in the norm of all
// gradients.
TEST(PipelineStep, BubbleIsTheClosedFormOnEveryRank) {
  constexpr PipelineRuntime kPytorch = PipelineRuntime::kPytorch;
  constexpr PipelineRuntime kMegatron = PipelineRuntime::kMegatron;
  const std::vector<BubbleCase> cases = {{"1f1b", {4, 1, 8}, kPytorch},
                                         {"1f1b", {4, 1, 8}, kMegatron},
                                         {"gpipe", {4, 1, 8}, kPytorch},
                                         {"gpipe", {3, 1, 5}, kPytorch},
                                         {"interleaved_1f1b", {4, 2, 8}, kPytorch},
                                         {"megatron_interleaved", {4, 2, 8, 4}, kMegatron}};
  for (const auto& [schedule, shape, runtime] : cases) {
    for (const bool clips : {false, true}) {
      JobSpec job = PipelineJob(schedule, shape, runtime);
      job.plan.clip_gradients = clips;
      const PipelineRun run = RunPipeline(job, {1, 1, 1, 0});
      TaskCosts costs(run.graph.work_count());
      for (const TaskId t : AllIds<TaskId>(run.graph.task_count())) {
        costs[run.graph.work_id(t)].isolated =
            run.timeline.end[t] - TransferStart(run.graph, run.timeline, t);
      }
      for (const RankId rank : AllIds<RankId>(run.graph.rank_count())) {
        EXPECT_EQ(run.graph.rank_info(rank).name, "pp " + std::to_string(Index(rank)));
        const RankAccount account =
            AccountRank(run.graph, costs, run.timeline, rank, {kStepBegin, run.timeline.makespan});
        EXPECT_EQ(account.compute, kVecUnit * (shape.microbatches * shape.chunks * 3)) << schedule;
        EXPECT_EQ(account.bubble * (shape.microbatches * shape.chunks),
                  account.compute * (shape.ranks - 1))
            << schedule << Index(rank) << clips;
        EXPECT_EQ(account.step, account.compute + account.bubble) << schedule << Index(rank);
      }
    }
  }
}

}  // namespace
}  // namespace stepsim
