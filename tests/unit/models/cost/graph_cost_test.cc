#include "models/cost/graph_cost.h"

#include <gtest/gtest.h>

#include <utility>

#include "models/cost/kernel_cost.h"
#include "sim/base/check.h"
#include "sim/graph/task_graph_builder.h"

namespace stepsim {
namespace {

// 100 TFLOP/s in fp32 and 1000 in bf16, of which products reach 0.8 and attention 0.5; 1 TB/s of
// which 0.5 is reached; 3 us a kernel.
GpuSpec Gpu() {
  GpuSpec gpu;
  gpu.peak.fp32 = {100e12};
  gpu.peak.bf16 = {1000e12};
  gpu.hbm_bandwidth = {1e12};
  gpu.gemm_efficiency = 0.8;
  gpu.attention_efficiency = 0.5;
  gpu.memory_efficiency = 0.5;
  gpu.kernel_latency = Duration{3'000'000};
  return gpu;
}

ComputeWork Kernel(ComputeClass compute_class, double flops, std::int64_t bytes) {
  ComputeWork work;
  work.compute_class = compute_class;
  work.dtype = DType::kBf16;
  work.flops = {flops};
  work.bytes = {bytes};
  return work;
}

constexpr double kLaunch = 3e-6;

// 8 TFLOP / (1000 x 0.8 TFLOP/s) = 10 ms, 1 GB / (1 TB/s x 0.5) = 2 ms.
TEST(PriceKernel, BoundByFlops) {
  EXPECT_DOUBLE_EQ(PriceKernel(Kernel(ComputeClass::kGemm, 8e12, 1'000'000'000), Gpu()).seconds,
                   10e-3 + kLaunch);
}

TEST(PriceKernel, BoundByBytes) {
  EXPECT_DOUBLE_EQ(PriceKernel(Kernel(ComputeClass::kGemm, 8e11, 1'000'000'000), Gpu()).seconds,
                   2e-3 + kLaunch);
}

TEST(PriceKernel, AttentionHasItsOwnEfficiency) {
  EXPECT_DOUBLE_EQ(PriceKernel(Kernel(ComputeClass::kAttention, 8e12, 0), Gpu()).seconds,
                   16e-3 + kLaunch);
}

TEST(PriceKernel, EachTypeHasItsPeak) {
  ComputeWork work = Kernel(ComputeClass::kGemm, 8e12, 0);
  work.dtype = DType::kFp32;
  EXPECT_DOUBLE_EQ(PriceKernel(work, Gpu()).seconds, 100e-3 + kLaunch);
}

TEST(PriceKernel, PaysTheLatencyPerKernel) {
  ComputeWork work = Kernel(ComputeClass::kMemory, 0, 1'000'000'000);
  work.kernels = 4;
  EXPECT_DOUBLE_EQ(PriceKernel(work, Gpu()).seconds, 2e-3 + 4 * kLaunch);
  EXPECT_DOUBLE_EQ(PriceKernel(Kernel(ComputeClass::kMemory, 0, 0), Gpu()).seconds, kLaunch);
}

// Without the check such products would cost nothing.
TEST(PriceKernel, RefusesATypeWithoutUnits) {
  ComputeWork work = Kernel(ComputeClass::kGemm, 8e12, 0);
  work.dtype = DType::kFp8;
  EXPECT_THROW(PriceKernel(work, Gpu()), InternalError);
}

// One rank of a group of four on two nodes, with one task of the given work.
TaskGraph GraphOf(Work work) {
  TaskGraphBuilder builder;
  const RankId rank = builder.AddRank({0, 4});
  const GroupId group = builder.AddGroup({"dp", "data parallel", {0, 1, 2, 3}});
  if (auto* collective = std::get_if<CollectiveWork>(&work)) collective->group = group;
  builder.AddTask(builder.AddWork(work), builder.AddLabel({"task", Site::kGradientReduce}),
                  builder.AddStream(rank, "s"));
  return std::move(builder).Build();
}

JobSpec Job() {
  JobSpec job;
  job.hardware.gpu = Gpu();
  job.hardware.intra_node = {"nvlink", {100e9}, 1, Duration{}};
  job.hardware.network.link = {"infiniband", {10e9}, 1, Duration{}};
  job.nodes = 2;
  job.gpus_per_node = 2;
  job.collectives.model = CollectiveModel::kAlphaBeta;  // arithmetic by hand
  return job;
}

GraphCosts Priced(const Work& work, const JobSpec& job = Job()) {
  return PriceGraph(GraphOf(work), job);
}

constexpr CollectiveWork kGigabyte{CollectiveOp::kAllReduce, DType::kFp32, {1'000'000'000}, {}};

double Picoseconds(const GraphCosts& priced) {
  return static_cast<double>(priced.costs[WorkId{0}].isolated.count());
}

// 1 GB at 10 GB/s is 100 ms: ring 2 x 3/4; hierarchical 2 x 1/2 of it and 2 x 1/2 of 10 ms inside.
TEST(PriceGraph, AsksTheJobsAlgorithm) {
  const GraphCosts ring = Priced(kGigabyte);
  EXPECT_NEAR(Picoseconds(ring), 150e9, 1);
  EXPECT_EQ(ring.choices[WorkId{0}].algorithm, "ring");
  EXPECT_EQ(ring.choices[WorkId{0}].protocol, "simple");
  JobSpec job = Job();
  job.collectives.all_reduce = "hierarchical";
  const GraphCosts hierarchical = Priced(kGigabyte, job);
  EXPECT_NEAR(Picoseconds(hierarchical), 110e9, 1);
  EXPECT_EQ(hierarchical.choices[WorkId{0}].algorithm, "hierarchical");
}

// The sender of a transfer is a global rank, the link's user a simulated one: 2 is the second here.
TEST(PriceGraph, KnowsWhoSends) {
  TaskGraphBuilder builder;
  const GroupId group = builder.AddGroup({"pp", "neighbouring stages", {0, 2}});
  for (const std::int32_t sender : {2, 0, -1}) {
    CollectiveWork work{CollectiveOp::kSendRecv, DType::kBf16, {1'000'000}, group};
    work.sender = sender;
    builder.AddWork(work);
  }
  builder.AddRank({.global_rank = 0});
  builder.AddRank({.global_rank = 2});
  const GraphCosts priced = PriceGraph(std::move(builder).Build(), Job());
  EXPECT_EQ(priced.occupancy[WorkId{0}].sender, RankId{1});
  EXPECT_EQ(priced.occupancy[WorkId{1}].sender, RankId{0});
  EXPECT_EQ(priced.occupancy[WorkId{2}].sender, kNoId<RankId>);
  EXPECT_EQ(priced.costs[WorkId{0}].isolated, priced.costs[WorkId{2}].isolated);
}

// The job's choice is one of all_reduce: a broadcast goes around the ring, 100 ms once.
TEST(PriceGraph, OtherCollectivesUseTheRing) {
  JobSpec job = Job();
  job.collectives.all_reduce = "hierarchical";
  CollectiveWork broadcast = kGigabyte;
  broadcast.op = CollectiveOp::kBroadcast;
  const GraphCosts priced = Priced(broadcast, job);
  EXPECT_NEAR(Picoseconds(priced), 100e9, 1);
  EXPECT_EQ(priced.choices[WorkId{0}].algorithm, "ring");
}

TEST(PriceGraph, HostPaysPerLaunchCallEventAndNode) {
  JobSpec job = Job();
  job.host.launch = Duration{7'000'000};
  const GraphCosts priced = Priced(HostWork{.launches = 3, .graph_nodes = 100}, job);
  // 3 x 7 us and 100 x 0.3 us
  EXPECT_EQ(priced.costs[WorkId{0}].isolated, Duration{51'000'000});
  // 15 us a call, 2 us an event, 7 us a CUDA graph
  const HostWork work{.collective_calls = 1, .graph_launches = 10, .handovers = 3};
  EXPECT_EQ(Priced(work, job).costs[WorkId{0}].isolated,
            Duration{15'000'000 + 6'000'000 + 70'000'000});
  EXPECT_TRUE(priced.choices[WorkId{0}].algorithm.empty());
}

TEST(PriceGraph, RoundsUpToAPicosecond) {
  JobSpec job = Job();
  job.hardware.gpu.kernel_latency = {};
  job.hardware.gpu.hbm_bandwidth = {1.1e12};  // 1 B / 0.55 TB/s = 1.82 ps
  const GraphCosts priced = Priced(Kernel(ComputeClass::kMemory, 0, 1), job);
  EXPECT_EQ(priced.costs[WorkId{0}].isolated, Duration{2});
}

TEST(PriceGraph, RefusesWhatItCannotPrice) { EXPECT_THROW(Priced(OpaqueWork{}), InternalError); }

TEST(PriceKernel, TakesWhatWasMeasured) {
  ComputeWork work = Kernel(ComputeClass::kGemm, 8e12, 1'000'000'000);
  work.measured = 1'234'567'891'234'567;
  EXPECT_DOUBLE_EQ(PriceKernel(work, Gpu()).seconds, 1234.567891234567);
  TaskGraphBuilder builder;
  const RankId rank = builder.AddRank({});
  builder.AddTask(builder.AddWork(work), builder.AddLabel({.name = "layer"}),
                  builder.AddStream(rank, "compute"));
  JobSpec job;
  job.hardware.gpu = Gpu();
  const TaskGraph graph = std::move(builder).Build();
  EXPECT_EQ(PriceGraph(graph, job).costs[WorkId{0}].isolated, Duration{work.measured});
}

}  // namespace
}  // namespace stepsim
