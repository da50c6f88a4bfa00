#include "sim/graph/task_graph_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/check.h"
#include "sim/graph/task_limit.h"

namespace stepsim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

std::vector<TaskId> Targets(const TaskGraph& graph, TaskId t) {
  std::vector<TaskId> targets;
  for (const Edge edge : graph.successors(t)) targets.push_back(edge.to());
  return targets;
}

class TaskGraphBuilderTest : public testing::Test {
 protected:
  TaskGraphBuilderTest() : rank_(b_.AddRank({.global_rank = 5, .stands_for = 8})) {}

  TaskId Kernel(StreamId stream) {
    return b_.AddTask(b_.AddWork(OpaqueWork{}), b_.AddLabel({.name = "kernel"}), stream);
  }
  TaskId Kernel(const std::vector<StreamId>& streams) {
    return b_.AddTask(b_.AddWork(OpaqueWork{}), b_.AddLabel({.name = "kernel"}), streams);
  }

  TaskGraphBuilder b_;
  RankId rank_;
};

TEST_F(TaskGraphBuilderTest, AnEmptyGraphHasNothing) {
  const TaskGraph graph = TaskGraphBuilder().Build();
  EXPECT_EQ(graph.task_count(), 0u);
  EXPECT_EQ(graph.edge_count(), 0u);
  EXPECT_EQ(graph.rendezvous_count(), 0u);
  EXPECT_EQ(graph.rank_count(), 0u);
}

TEST_F(TaskGraphBuilderTest, KeepsWhatItWasTold) {
  const StreamId compute = b_.AddStream(rank_, "compute");
  const StreamId dp = b_.AddStream(rank_, "dp", /*is_queue=*/true);
  const GroupId group = b_.AddGroup({.name = "dp", .description = "data", .ranks = {0, 5}});
  const Label label{.name = "bucket 3", .site = Site::kGradientReduce, .phase = Phase::kBackward};
  const Work work = CollectiveWork{.bytes = Bytes{100}, .group = group};
  const TaskId task = b_.AddTask(b_.AddWork(work), b_.AddLabel(label), compute);
  const TaskGraph graph = std::move(b_).Build();

  EXPECT_EQ(graph.work(task), work);
  EXPECT_EQ(graph.kind(task), TaskKind::kTransfer);
  EXPECT_EQ(graph.label(task), label);
  EXPECT_EQ(graph.rank(task), rank_);
  EXPECT_EQ(graph.rank_info(rank_).global_rank, 5);
  EXPECT_EQ(graph.rank_info(rank_).stands_for, 8);
  EXPECT_EQ(graph.stream(compute).name, "compute");
  EXPECT_FALSE(graph.stream(compute).is_queue);
  EXPECT_TRUE(graph.stream(dp).is_queue);
  EXPECT_EQ(graph.stream(dp).rank, rank_);
  EXPECT_EQ(graph.group(group).description, "data");
  EXPECT_THAT(graph.group(group).ranks, ElementsAre(0, 5));
  EXPECT_EQ(graph.rendezvous(task), kNoId<RendezvousId>);
}

TEST_F(TaskGraphBuilderTest, EqualWorksAndLabelsShareOneId) {
  EXPECT_EQ(b_.AddWork(ComputeWork{.flops = Flops{10}}),
            b_.AddWork(ComputeWork{.flops = Flops{10}}));
  EXPECT_NE(b_.AddWork(ComputeWork{.flops = Flops{10}}),
            b_.AddWork(ComputeWork{.flops = Flops{11}}));
  EXPECT_NE(b_.AddWork(OpaqueWork{TaskKind::kCompute, 1}),
            b_.AddWork(OpaqueWork{TaskKind::kHost, 1}));
  EXPECT_EQ(b_.AddLabel({.name = "a"}), b_.AddLabel({.name = "a"}));
  EXPECT_NE(b_.AddLabel({.name = "a"}), b_.AddLabel({.name = "a", .phase = Phase::kForward}));
}

// Programs go through micro-steps and steps, and the next rank begins anew.
TEST_F(TaskGraphBuilderTest, TasksKeepTheirPosition) {
  const StreamId s = b_.AddStream(rank_, "s");
  std::vector<std::pair<TaskId, Position>> expected = {{Kernel(s), {}}};
  for (int rank = 0; rank < 2; ++rank) {
    for (const Position position : {Position{0, 0}, {1, 0}, {0, 1}, {1, 1}}) {
      b_.SetPosition(position);
      expected.emplace_back(Kernel(s), position);
      expected.emplace_back(Kernel(s), position);
    }
  }
  const TaskGraph graph = std::move(b_).Build();
  for (const auto& [task, position] : expected) EXPECT_EQ(graph.position(task), position);
}

TEST_F(TaskGraphBuilderTest, AStreamOrdersItsTasks) {
  const StreamId s = b_.AddStream(rank_, "s"), other = b_.AddStream(rank_, "other");
  const TaskId a = Kernel(s), x = Kernel(other), b = Kernel(s), c = Kernel(s);
  const TaskGraph graph = std::move(b_).Build();
  EXPECT_THAT(Targets(graph, a), ElementsAre(b));
  EXPECT_THAT(Targets(graph, b), ElementsAre(c));
  EXPECT_THAT(Targets(graph, c), IsEmpty());
  EXPECT_THAT(Targets(graph, x), IsEmpty());
  EXPECT_TRUE(graph.successors(a)[0].is_stream_order());
}

TEST_F(TaskGraphBuilderTest, SuccessorsAreStreamOrderThenDependenciesAsAdded) {
  const StreamId s = b_.AddStream(rank_, "s"), q = b_.AddStream(rank_, "q");
  const TaskId a = Kernel(s), x = Kernel(q), y = Kernel(q);
  b_.AddDependency(a, y);
  b_.AddDependency(a, x);
  const TaskId b = Kernel(s);
  const TaskGraph graph = std::move(b_).Build();
  EXPECT_THAT(Targets(graph, a), ElementsAre(b, y, x));
  EXPECT_TRUE(graph.successors(a)[0].is_stream_order());
  EXPECT_FALSE(graph.successors(a)[1].is_stream_order());
  EXPECT_EQ(graph.edge_count(), 4u);  // a-b, a-y, a-x, x-y
}

TEST_F(TaskGraphBuilderTest, ADependencyMayNameALaterTaskFirst) {
  const StreamId s = b_.AddStream(rank_, "s"), q = b_.AddStream(rank_, "q");
  const TaskId a = Kernel(s), b = Kernel(q);
  b_.AddDependency(b, a);
  EXPECT_THAT(Targets(std::move(b_).Build(), b), ElementsAre(a));
}

TEST_F(TaskGraphBuilderTest, ATaskOccupiesSeveralStreams) {
  const StreamId s = b_.AddStream(rank_, "s"), t = b_.AddStream(rank_, "t"),
                 u = b_.AddStream(rank_, "u");
  const TaskId a = Kernel(s), b = Kernel(t);
  const TaskId both = Kernel({t, u, s});
  const TaskId alone = Kernel(std::vector<StreamId>{u});
  const TaskId again = Kernel({s, t});
  EXPECT_EQ(b_.last_on(u), alone);
  EXPECT_EQ(b_.last_on(t), again);
  const TaskGraph graph = std::move(b_).Build();
  EXPECT_THAT(graph.streams(both), ElementsAre(t, u, s));
  EXPECT_THAT(graph.streams(alone), ElementsAre(u));
  EXPECT_THAT(graph.streams(again), ElementsAre(s, t));
  EXPECT_THAT(graph.streams(a), ElementsAre(s));
  EXPECT_THAT(Targets(graph, a), ElementsAre(both));
  EXPECT_THAT(Targets(graph, b), ElementsAre(both));
  EXPECT_THAT(Targets(graph, both), ElementsAre(alone, again)) << "one edge for two streams";
  EXPECT_EQ(graph.rank(both), rank_);
}

TEST_F(TaskGraphBuilderTest, LastOnIsWhatAnEventWouldStandFor) {
  const StreamId s = b_.AddStream(rank_, "s");
  EXPECT_EQ(b_.last_on(s), kNoId<TaskId>);
  const TaskId a = Kernel(s);
  EXPECT_EQ(b_.last_on(s), a);
  const TaskId b = Kernel(s);
  EXPECT_EQ(b_.last_on(s), b);
}

TEST_F(TaskGraphBuilderTest, MembersOfARendezvous) {
  const RankId other = b_.AddRank({.global_rank = 6});
  const TaskId a = Kernel(b_.AddStream(rank_, "s")), b = Kernel(b_.AddStream(other, "s"));
  const TaskId outside = Kernel(b_.AddStream(other, "t"));
  const RendezvousId r = b_.AddRendezvous();
  b_.Join(r, b);
  b_.Join(r, a);
  const TaskGraph graph = std::move(b_).Build();
  EXPECT_EQ(graph.rendezvous_count(), 1u);
  EXPECT_THAT(graph.members(r), ElementsAre(b, a));
  EXPECT_EQ(graph.rendezvous(a), r);
  EXPECT_EQ(graph.rendezvous(outside), kNoId<RendezvousId>);
}

TEST_F(TaskGraphBuilderTest, MemoryByCategory) {
  const RankId other = b_.AddRank({.global_rank = 6});
  const TaskId a = Kernel(b_.AddStream(rank_, "s"));
  b_.AddMemoryEvent(a, /*at_end=*/false, "activations", Bytes{100});
  b_.AddMemoryEvent(a, /*at_end=*/true, "activations", Bytes{-100});
  b_.AddMemoryEvent(a, /*at_end=*/true, "nothing", Bytes{0});
  b_.AddResidentMemory(rank_, "parameters", Bytes{7});
  b_.AddResidentMemory(rank_, "parameters", Bytes{3});
  const TaskGraph graph = std::move(b_).Build();
  EXPECT_THAT(graph.memory_categories(), ElementsAre("activations", "parameters"));
  ASSERT_EQ(graph.memory_events().size(), 2u);
  EXPECT_EQ(graph.memory_events()[1].task, a);
  EXPECT_TRUE(graph.memory_events()[1].at_end);
  EXPECT_EQ(graph.memory_events()[1].delta, Bytes{-100});
  EXPECT_EQ(graph.memory_events()[1].category, 0);
  EXPECT_EQ(graph.resident_memory(rank_, 1), Bytes{10});
  EXPECT_EQ(graph.resident_memory(rank_, 0), Bytes{0});
  EXPECT_EQ(graph.resident_memory(other, 1), Bytes{0});
}

// Bugs of a model: each is an InternalError that says which rule was broken.
class BrokenGraphTest : public TaskGraphBuilderTest {
 protected:
  template <class Break>
  void ExpectBroken(Break break_it, const std::string& rule) {
    EXPECT_THAT(break_it, ThrowsMessage<InternalError>(HasSubstr(rule)));
  }
};

TEST_F(BrokenGraphTest, UnknownRankOrStream) {
  ExpectBroken([&] { b_.AddStream(RankId{1}, "s"); }, "unknown rank");
  ExpectBroken([&] { Kernel(StreamId{0}); }, "unknown stream");
}

TEST_F(BrokenGraphTest, ATransferNeedsASite) {
  const StreamId s = b_.AddStream(rank_, "s");
  const WorkId work = b_.AddWork(OpaqueWork{TaskKind::kTransfer, 0});
  ExpectBroken([&] { b_.AddTask(work, b_.AddLabel({.name = "x"}), s); }, "needs a site");
}

TEST_F(BrokenGraphTest, StreamsOfATask) {
  const StreamId s = b_.AddStream(rank_, "s");
  const StreamId far = b_.AddStream(b_.AddRank({.global_rank = 6}), "s");
  ExpectBroken([&] { Kernel(std::vector<StreamId>{}); }, "needs a stream");
  ExpectBroken([&] { Kernel({s, far}); }, "streams of one rank");
  ExpectBroken([&] { Kernel({s, s}); }, "a stream once");
}

TEST_F(BrokenGraphTest, UnknownDependency) {
  const TaskId a = Kernel(b_.AddStream(rank_, "s"));
  b_.AddDependency(kNoId<TaskId>, a);
  ExpectBroken([&] { std::move(b_).Build(); }, "names an unknown task");
}

TEST_F(BrokenGraphTest, EmptyRendezvous) {
  Kernel(b_.AddStream(rank_, "s"));
  b_.AddRendezvous();
  ExpectBroken([&] { std::move(b_).Build(); }, "without members");
}

TEST_F(BrokenGraphTest, ARendezvousOfOneRank) {
  const RendezvousId r = b_.AddRendezvous();
  b_.Join(r, Kernel(b_.AddStream(rank_, "s")));
  b_.Join(r, Kernel(b_.AddStream(rank_, "t")));
  ExpectBroken([&] { std::move(b_).Build(); }, "different ranks");
}

TEST_F(BrokenGraphTest, ARendezvousOfUnequalWorks) {
  const RendezvousId r = b_.AddRendezvous();
  b_.Join(r, Kernel(b_.AddStream(rank_, "s")));
  const StreamId far = b_.AddStream(b_.AddRank({.global_rank = 6}), "s");
  b_.Join(r, b_.AddTask(b_.AddWork(OpaqueWork{TaskKind::kCompute, 1}), b_.AddLabel({}), far));
  ExpectBroken([&] { std::move(b_).Build(); }, "the same work");
}

TEST_F(BrokenGraphTest, ATaskJoinsTwice) {
  const TaskId a = Kernel(b_.AddStream(rank_, "s"));
  b_.Join(b_.AddRendezvous(), a);
  b_.Join(b_.AddRendezvous(), a);
  ExpectBroken([&] { std::move(b_).Build(); }, "at most one rendezvous");
}

TEST_F(BrokenGraphTest, AnUnknownTaskJoins) {
  const RendezvousId r = b_.AddRendezvous();
  b_.Join(r, Kernel(b_.AddStream(rank_, "s")));
  b_.Join(r, TaskId{1});
  ExpectBroken([&] { std::move(b_).Build(); }, "unknown task");
}

// Ids share 32 bits with the kind of a constraint: the largest id must survive the packing.
TEST(EdgeTest, HoldsTheLargestId) {
  const TaskId last{static_cast<std::uint32_t>(kMaxTasks - 1)};
  EXPECT_EQ(Edge(last, true).to(), last);
  EXPECT_TRUE(Edge(last, true).is_stream_order());
  EXPECT_EQ(Edge(last, false).to(), last);
  EXPECT_FALSE(Edge(last, false).is_stream_order());
}

TEST(WorkTest, KindsAndNames) {
  EXPECT_EQ(KindOf(ComputeWork{}), TaskKind::kCompute);
  EXPECT_EQ(KindOf(CollectiveWork{}), TaskKind::kTransfer);
  EXPECT_EQ(KindOf(HostWork{}), TaskKind::kHost);
  EXPECT_EQ(KindOf(OpaqueWork{TaskKind::kTransfer, 0}), TaskKind::kTransfer);
  EXPECT_EQ(ToString(ComputeClass::kMemory), "memory");
  EXPECT_EQ(ToString(CollectiveOp::kAllReduce), "all_reduce");
  EXPECT_EQ(ToString(CollectiveOp::kSendRecv), "send_recv");
  EXPECT_EQ(ToString(Phase::kOther), "other");
}

// The result file's keys.
TEST(SiteTest, NamesAreTheReportsKeys) {
  EXPECT_EQ(ToString(Site::kGradientReduce), "gradient_reduce");
  EXPECT_EQ(ToString(Site::kParameterGather), "parameter_gather");
  EXPECT_EQ(ToString(Site::kTensorParallel), "tensor_parallel");
  EXPECT_EQ(ToString(Site::kPipelineTransfer), "pipeline_transfer");
  EXPECT_EQ(ToString(Site::kContextParallel), "context_parallel");
  EXPECT_EQ(ToString(Site::kExpertParallel), "expert_parallel");
  EXPECT_EQ(ToString(Site::kOptimizer), "optimizer");
}

}  // namespace
}  // namespace stepsim
