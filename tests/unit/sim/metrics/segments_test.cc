// Every state of a rank on a hand-made step. Segments are compared as text, one per line:
//   "begin-end state[:site] task", in microseconds.
#include "sim/metrics/segments.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "sim/engine/simulate.h"
#include "sim/metrics/accounting.h"
#include "tests/support/sketch.h"

namespace stepsim {
namespace {

using std::chrono_literals::operator""us;

std::string_view NameOf(RankState state) {
  switch (state) {
    case RankState::kCompute:
      return "compute";
    case RankState::kExposed:
      return "exposed";
    case RankState::kPeerWait:
      return "peer_wait";
    case RankState::kBubble:
      return "bubble";
    case RankState::kHost:
      return "host";
    case RankState::kIdle:
      return "idle";
  }
  return "?";
}

std::string ToText(const TaskGraph& graph, const std::vector<Segment>& segments) {
  std::string text;
  for (const Segment& s : segments) {
    text += fmt::format("{:.0f}-{:.0f} {}", ToMicroseconds(s.begin), ToMicroseconds(s.end),
                        NameOf(s.state));
    if (s.site != Site::kNone) text += fmt::format(":{}", ToString(s.site));
    if (s.task != kNoId<TaskId>) text += ' ' + graph.label(s.task).name;
    text += '\n';
  }
  return text;
}

class SegmentsTest : public testing::Test {
 protected:
  std::string SegmentsOf(std::uint32_t rank) {
    if (built_.graph.task_count() == 0) {
      built_ = sketch_.Build();
      timeline_ = Simulate(built_.graph, built_.costs);
    }
    // Each rank's identity is checked on the way.
    for (const RankId r : AllIds<RankId>(built_.graph.rank_count())) {
      AccountRank(built_.graph, built_.costs, timeline_, r, {kStepBegin, timeline_.makespan});
    }
    const RankTasks tasks = TasksByRank(built_.graph)[rank];
    return ToText(built_.graph, SplitRank(built_.graph, timeline_, tasks));
  }

  GraphSketch sketch_;
  Sketched built_;
  Timeline timeline_;
};

TEST_F(SegmentsTest, ComputeWithoutGaps) {
  const StreamId x = sketch_.Stream(0, "x");
  sketch_.Compute(x, 3us, "a");
  sketch_.Compute(x, 4us, "b");
  EXPECT_EQ(SegmentsOf(0), "0-3 compute a\n3-7 compute b\n");
}

// Two compute streams: what overlaps belongs to the kernel that was there first.
TEST_F(SegmentsTest, OverlappingComputeCountsOnce) {
  const StreamId x = sketch_.Stream(0, "x"), y = sketch_.Stream(0, "y");
  const TaskId a = sketch_.Compute(y, 2us, "a");
  sketch_.Compute(x, 6us, "b");
  sketch_.Compute(y, 8us, "c", {a});
  sketch_.Compute(sketch_.Stream(0, "z"), 1us, "inside");
  EXPECT_EQ(SegmentsOf(0), "0-2 compute a\n2-6 compute b\n6-10 compute c\n");
}

TEST_F(SegmentsTest, ARankWithoutTasksWaitsForTheOthers) {
  sketch_.Compute(sketch_.Stream(1, "x"), 3us, "a");
  EXPECT_EQ(SegmentsOf(0), "0-3 bubble a\n");  // it waits for rank 1 to end the step
  EXPECT_EQ(SegmentsOf(1), "0-3 compute a\n");
}

// The next kernel waits for the gather; the reduction that runs at the same time is not the cause.
//   nccl fsdp |   reduce 1-9              |
//   nccl      |   gather 1-6        |
//   compute   |a|                    | b 6-8 |
TEST_F(SegmentsTest, TheSiteIsThatOfTheTransferThatTheNextKernelWaitsFor) {
  const StreamId x = sketch_.Stream(0, "x");
  const TaskId a = sketch_.Compute(x, 1us, "a");
  sketch_.Transfer(sketch_.Stream(0, "n1"), 8us, Site::kGradientReduce, "reduce", {a});
  const TaskId gather =
      sketch_.Transfer(sketch_.Stream(0, "n2"), 5us, Site::kParameterGather, "gather", {a});
  sketch_.Compute(x, 2us, "b", {gather});
  EXPECT_EQ(SegmentsOf(0),
            "0-1 compute a\n"
            "1-6 exposed:parameter_gather gather\n"
            "6-8 compute b\n"
            "8-9 exposed:gradient_reduce reduce\n");  // the tail: it ends the step
}

// One queue: b waits for the gather, which waited for the reduction. Each has its share.
TEST_F(SegmentsTest, AGapIsCutAlongTheChainOfCauses) {
  const StreamId x = sketch_.Stream(0, "x"), nccl = sketch_.Stream(0, "nccl");
  const TaskId a = sketch_.Compute(x, 1us, "a");
  sketch_.Transfer(nccl, 4us, Site::kGradientReduce, "reduce", {a});
  const TaskId gather = sketch_.Transfer(nccl, 5us, Site::kParameterGather, "gather");
  sketch_.Compute(x, 2us, "b", {gather});
  EXPECT_EQ(SegmentsOf(0),
            "0-1 compute a\n"
            "1-5 exposed:gradient_reduce reduce\n"
            "5-10 exposed:parameter_gather gather\n"
            "10-12 compute b\n");
}

// The cause of the gap is the host, but a transfer runs meanwhile: exposed, by the running
// transfer.
TEST_F(SegmentsTest, ARunningTransferCountsBeforeTheHost) {
  const StreamId x = sketch_.Stream(0, "x");
  const TaskId a = sketch_.Compute(x, 1us, "a");
  sketch_.Transfer(sketch_.Stream(0, "nccl"), 3us, Site::kTensorParallel, "tp", {a});
  const TaskId launch = sketch_.Host(sketch_.Stream(0, "host"), 6us, "launch");
  sketch_.Compute(x, 2us, "b", {launch});
  EXPECT_EQ(SegmentsOf(0),
            "0-1 compute a\n"
            "1-4 exposed:tensor_parallel tp\n"
            "4-6 host launch\n"
            "6-8 compute b\n");
}

//   rank 0  compute | a 2 |  waits  | transfer 9-14 |
//   rank 1  compute | c 9           | transfer 9-14 |
TEST_F(SegmentsTest, WaitingForAPeerIsNotTransferring) {
  const StreamId x = sketch_.Stream(0, "x"), y = sketch_.Stream(1, "x");
  const TaskId a = sketch_.Compute(x, 2us, "a");
  const TaskId r0 = sketch_.Transfer(sketch_.Stream(0, "n"), 5us, Site::kGradientReduce, "r", {a});
  const TaskId c = sketch_.Compute(y, 9us, "c");
  const TaskId r1 = sketch_.Transfer(sketch_.Stream(1, "n"), 5us, Site::kGradientReduce, "r", {c});
  sketch_.Meet({r0, r1});
  EXPECT_EQ(SegmentsOf(0), "0-2 compute a\n2-9 peer_wait r\n9-14 exposed:gradient_reduce r\n");
  EXPECT_EQ(SegmentsOf(1), "0-9 compute c\n9-14 exposed:gradient_reduce r\n");
}

// Beside the waiting collective another one transfers: that is exposed time, not peer wait.
TEST_F(SegmentsTest, ATransferCountsBeforeAWaitingCollective) {
  const StreamId x = sketch_.Stream(0, "x");
  const TaskId a = sketch_.Compute(x, 2us, "a");
  const TaskId r0 = sketch_.Transfer(sketch_.Stream(0, "n"), 5us, Site::kGradientReduce, "r", {a});
  sketch_.Transfer(sketch_.Stream(0, "tp"), 3us, Site::kTensorParallel, "t", {a});
  const TaskId r1 = sketch_.Transfer(sketch_.Stream(1, "n"), 5us, Site::kGradientReduce, "r",
                                     {sketch_.Compute(sketch_.Stream(1, "x"), 9us, "c")});
  sketch_.Meet({r0, r1});
  EXPECT_EQ(SegmentsOf(0),
            "0-2 compute a\n"
            "2-5 exposed:tensor_parallel t\n"
            "5-9 peer_wait r\n"
            "9-14 exposed:gradient_reduce r\n");
}

// Two stages without rendezvous: the second has nothing to do until the first one's activation
// arrives, and the first nothing after its own work.
TEST_F(SegmentsTest, WaitingForAPipelineNeighbourIsABubble) {
  const StreamId first = sketch_.Stream(0, "x"), second = sketch_.Stream(1, "x");
  const TaskId f0 = sketch_.Compute(first, 10us, "f0");
  const TaskId send =
      sketch_.Transfer(sketch_.Stream(0, "pp"), 2us, Site::kPipelineTransfer, "send", {f0});
  sketch_.Compute(second, 10us, "f1", {send});
  EXPECT_EQ(SegmentsOf(0),
            "0-10 compute f0\n"
            "10-12 exposed:pipeline_transfer send\n"
            "12-22 bubble f1\n");
  EXPECT_EQ(SegmentsOf(1), "0-10 bubble f0\n10-12 bubble send\n12-22 compute f1\n");
}

// The same with a receiving kernel that spins: it waits for the neighbour, which is the bubble, and
// the transfer itself is exposed.
TEST_F(SegmentsTest, AWaitingPipelineTransferIsABubble) {
  const StreamId first = sketch_.Stream(0, "x"), second = sketch_.Stream(1, "x");
  const TaskId f0 = sketch_.Compute(first, 10us, "f0");
  const TaskId send =
      sketch_.Transfer(sketch_.Stream(0, "pp"), 2us, Site::kPipelineTransfer, "p2p", {f0});
  const TaskId receive =
      sketch_.Transfer(sketch_.Stream(1, "pp"), 2us, Site::kPipelineTransfer, "p2p");
  sketch_.Compute(second, 10us, "f1", {receive});
  sketch_.Meet({send, receive});
  EXPECT_EQ(SegmentsOf(1),
            "0-10 bubble p2p\n"
            "10-12 exposed:pipeline_transfer p2p\n"
            "12-22 compute f1\n");
}

// The drain: a stage that has done its part waits in a collective of all stages, for another stage
// (bubble) and then for the other copy of the model (peer wait).
//
//   copy 0  stage 0  | a 9         | norm .... |      stage 1  | b 4 | norm .......... |
//   copy 1  stage 0  | c 12           | norm . |      stage 1  | d 4 | norm .......... |
TEST_F(SegmentsTest, WaitingForAnotherStageIsABubbleForAnotherCopyIsNot) {
  std::vector<TaskId> norms;
  const std::vector<Duration> times = {9us, 4us, 12us, 4us};
  for (std::uint32_t copy : {0u, 1u}) {
    std::vector<TaskId> sends;
    for (std::uint32_t stage : {0u, 1u}) {
      const std::uint32_t rank = 2 * copy + stage;
      const StreamId x = sketch_.Stream(rank, "x");
      sends.push_back(sketch_.Transfer(sketch_.Stream(rank, "pp"), 0us, Site::kPipelineTransfer));
      const TaskId last = sketch_.Compute(x, times[rank], "k");
      norms.push_back(
          sketch_.Transfer(sketch_.Stream(rank, "norm"), 1us, Site::kOptimizer, "norm", {last}));
    }
    sketch_.Meet(sends);
  }
  sketch_.Meet(norms);
  EXPECT_EQ(SegmentsOf(0), "0-9 compute k\n9-12 peer_wait norm\n12-13 exposed:optimizer norm\n");
  EXPECT_EQ(SegmentsOf(1),
            "0-4 compute k\n"
            "4-9 bubble norm\n"
            "9-12 peer_wait norm\n"
            "12-13 exposed:optimizer norm\n");
  EXPECT_EQ(SegmentsOf(2), "0-12 compute k\n12-13 exposed:optimizer norm\n");
  EXPECT_EQ(SegmentsOf(3), "0-4 compute k\n4-12 bubble norm\n12-13 exposed:optimizer norm\n");
}

// Transfers over an edge each make one pipeline of their ranks.
TEST_F(SegmentsTest, PipelineTransfersConnectItsStages) {
  for (const std::uint32_t rank : {0u, 1u, 2u, 3u, 4u})
    sketch_.Compute(sketch_.Stream(rank, "x"), 1us);
  const auto connect = [&](std::uint32_t a, std::uint32_t b) {
    sketch_.Meet({sketch_.Transfer(sketch_.Stream(a, "pp"), 1us, Site::kPipelineTransfer),
                  sketch_.Transfer(sketch_.Stream(b, "pp"), 1us, Site::kPipelineTransfer)});
  };
  connect(2, 4);
  connect(4, 0);
  connect(4, 0);
  const std::vector<RankTasks> ranks = TasksByRank(sketch_.Build().graph);
  for (const std::size_t rank : {0u, 2u, 4u}) {
    EXPECT_EQ(ranks[rank].pipeline, (std::vector<RankId>{RankId{0}, RankId{2}, RankId{4}})) << rank;
  }
  EXPECT_TRUE(ranks[1].pipeline.empty());
}

// The neighbour's host is the neighbour: to this rank it is a bubble.
TEST_F(SegmentsTest, TheHostOfANeighbourIsABubble) {
  const TaskId launch = sketch_.Host(sketch_.Stream(0, "host"), 4us, "launch");
  sketch_.Compute(sketch_.Stream(1, "x"), 1us, "f", {launch});
  EXPECT_EQ(SegmentsOf(1), "0-4 bubble launch\n4-5 compute f\n");
  EXPECT_EQ(SegmentsOf(0), "0-4 host launch\n4-5 bubble f\n");
}

// A rank that only communicates knows its neighbours too.
TEST_F(SegmentsTest, ARankWithoutCompute) {
  const TaskId f = sketch_.Compute(sketch_.Stream(1, "x"), 4us, "f");
  sketch_.Transfer(sketch_.Stream(0, "n"), 2us, Site::kParameterGather, "g", {f});
  EXPECT_EQ(SegmentsOf(0), "0-4 bubble f\n4-6 exposed:parameter_gather g\n");
}

// A kernel that meets its peers (a barrier) computes from its own start: the gap before it ends
// there, whatever its peers do.
TEST_F(SegmentsTest, AKernelThatMeetsItsPeers) {
  const StreamId x = sketch_.Stream(0, "x");
  const TaskId launch = sketch_.Host(sketch_.Stream(0, "host"), 3us, "launch");
  const TaskId k0 = sketch_.Compute(x, 1us, "barrier", {launch});
  const TaskId k1 = sketch_.Compute(sketch_.Stream(1, "x"), 1us, "barrier",
                                    {sketch_.Compute(sketch_.Stream(1, "x"), 9us, "c")});
  sketch_.Meet({k0, k1});
  EXPECT_EQ(SegmentsOf(0), "0-3 host launch\n3-10 compute barrier\n");
}

// Nothing that the engine produces is idle: every gap has a cause. A step read from a trace may
// have gaps without one.
TEST_F(SegmentsTest, AGapWithoutACauseIsIdle) {
  const StreamId x = sketch_.Stream(0, "x");
  sketch_.Compute(x, 2us, "a");
  const TaskId b = sketch_.Compute(x, 3us, "b");
  built_ = sketch_.Build();
  timeline_ = Simulate(built_.graph, built_.costs);
  timeline_.start[b] += 4us;
  timeline_.end[b] += 4us;
  timeline_.makespan += 4us;
  timeline_.bound_by[b] = BoundBy();
  EXPECT_EQ(SegmentsOf(0), "0-2 compute a\n2-6 idle\n6-9 compute b\n");
}

TEST(TasksByRankTest, SortsByKind) {
  GraphSketch s;
  const TaskId a = s.Compute(s.Stream(1, "x"), 1us), b = s.Compute(s.Stream(1, "x"), 1us);
  const TaskId t = s.Transfer(s.Stream(1, "n"), 1us, Site::kOptimizer);
  s.Host(s.Stream(1, "h"), 1us);
  const auto ranks = TasksByRank(s.Build().graph);
  ASSERT_EQ(ranks.size(), 2u);
  EXPECT_EQ(ranks[1].rank, RankId{1});
  EXPECT_EQ(ranks[1].compute, (std::vector<TaskId>{a, b}));
  EXPECT_EQ(ranks[1].transfers, std::vector<TaskId>{t});
  EXPECT_TRUE(ranks[0].compute.empty());
}

}  // namespace
}  // namespace stepsim
