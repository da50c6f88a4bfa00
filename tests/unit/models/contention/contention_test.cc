// The parts of the model one by one, with numbers that can be checked by hand.
#include "models/contention/contention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "models/cost/gemm_cost.h"
#include "tests/unit/models/contention/overlap.h"

namespace stepsim {
namespace {

using testing::Kernel;
using testing::Overlap;

// 100 SMs, 1 TB/s of HBM, links of 100 GB/s; nothing interferes until a test says so.
HardwareSpec Round() {
  HardwareSpec hardware;
  hardware.gpu.sms = 100;
  hardware.gpu.hbm_bandwidth = {1e12};
  hardware.gpu.contention = {.gemm = 0,
                             .attention = 0,
                             .memory = 0,
                             .communication = 0,
                             .hbm_ceiling = 1,
                             .partial_wave = 1};
  hardware.gpus_per_node = 4;
  hardware.intra_node = {.type = "nvlink", .bandwidth = {100e9}};
  hardware.network.nics_per_node = 4;
  hardware.network.link = {.type = "infiniband", .bandwidth = {25e9}};
  return hardware;
}

Occupancy Transfer(double sms, double hbm = 0, double intra = 0, double network = 0) {
  return {.kind = TaskKind::kTransfer, .sms = sms, .hbm = hbm, .intra = intra, .network = network};
}

// What a kernel of 1 ms takes, in ms, beside a collective that lasts long enough.
double Beside(const HardwareSpec& hardware, const Occupancy& collective, const Occupancy& kernel,
              ContentionMode mode = ContentionMode::kFull) {
  Overlap o(hardware);
  o.Add("nccl", 1, collective);
  const TaskId task = o.Add("compute", 1e-3, kernel);
  o.Run({.mode = mode});
  return o.Took(task) * 1e3;
}

// What a collective of 1 ms takes beside a kernel that lasts long enough.
double BesideKernel(const HardwareSpec& hardware, const Occupancy& collective,
                    const Occupancy& kernel) {
  Overlap o(hardware);
  const TaskId task = o.Add("nccl", 1e-3, collective);
  o.Add("compute", 1, kernel);
  o.Run();
  return o.Took(task) * 1e3;
}

// ---- (1) SMs ----

TEST(SmShare, SmoothKernelsGetWhatIsLeft) {
  const Occupancy attention = Kernel(ComputeClass::kAttention);
  EXPECT_NEAR(Beside(Round(), Transfer(20), attention), 100.0 / 80, 1e-9);
  EXPECT_NEAR(Beside(Round(), Transfer(0), attention), 1, 1e-9);
}

TEST(SmShare, AFewWavesAreCounted) {
  // One wave of 100 becomes two; 160 tiles are two waves either way; 80 fit beside 20.
  EXPECT_NEAR(Beside(Round(), Transfer(20), Kernel(ComputeClass::kGemm, 100)), 2, 1e-9);
  EXPECT_NEAR(Beside(Round(), Transfer(20), Kernel(ComputeClass::kGemm, 160)), 1, 1e-9);
  EXPECT_NEAR(Beside(Round(), Transfer(20), Kernel(ComputeClass::kGemm, 80)), 1, 1e-9);
  EXPECT_NEAR(Beside(Round(), Transfer(20), Kernel(ComputeClass::kGemm, 400)), 5.0 / 4, 1e-9);
}

TEST(SmShare, ManyWavesAreSmooth) {
  EXPECT_NEAR(Beside(Round(), Transfer(20), Kernel(ComputeClass::kGemm, 800)), 1.25, 1e-9);
  EXPECT_NEAR(Beside(Round(), Transfer(20), Kernel(ComputeClass::kGemm, 810)), 1.25, 1e-9);
}

// A last wave of 20 tiles on 80 places lasts 0.5 + 0.5 x 20/80 of a full one.
TEST(SmShare, APartialWaveIsShorter) {
  HardwareSpec hardware = Round();
  hardware.gpu.contention.partial_wave = 0.5;
  EXPECT_NEAR(Beside(hardware, Transfer(20), Kernel(ComputeClass::kGemm, 100)), 1.625, 1e-9);
  Occupancy smooth = Kernel(ComputeClass::kGemm, 100);  // a kernel knows better than its GPU
  smooth.partial_wave = 0;
  EXPECT_NEAR(Beside(hardware, Transfer(20), smooth), 1.25, 1e-9);
  EXPECT_DOUBLE_EQ(Waves(250 / 100.0, 0.5), 2 + 0.5 + 0.5 * 0.5);
  EXPECT_DOUBLE_EQ(Waves(200 / 100.0, 0.5), 2);
  EXPECT_DOUBLE_EQ(Waves(50 / 100.0, 0.5), 1);
}

TEST(SmShare, AWaitingCollectiveHoldsItsSms) {
  // The peer comes at 10 ms: until then nothing is transferred, but the kernel is slowed.
  TaskGraphBuilder b;
  const RankId near = b.AddRank({}), far = b.AddRank({.global_rank = 1});
  const StreamId nccl = b.AddStream(near, "nccl"), compute = b.AddStream(near, "compute");
  const StreamId other = b.AddStream(far, "nccl");
  const WorkId transfer = b.AddWork(OpaqueWork{TaskKind::kTransfer, 0});
  const WorkId kernel = b.AddWork(OpaqueWork{TaskKind::kCompute, 0});
  const WorkId late = b.AddWork(OpaqueWork{TaskKind::kCompute, 1});
  const LabelId label = b.AddLabel({.name = "r", .site = Site::kGradientReduce});
  const TaskId first = b.AddTask(transfer, label, nccl);
  const TaskId task = b.AddTask(kernel, b.AddLabel({.name = "k"}), compute);
  b.AddTask(late, b.AddLabel({.name = "late"}), other);
  const RendezvousId r = b.AddRendezvous();
  b.Join(r, first);
  b.Join(r, b.AddTask(transfer, label, other));
  const TaskGraph graph = std::move(b).Build();
  TaskCosts costs;
  IdVector<WorkId, Occupancy> occupancy;
  for (const double seconds : {1e-3, 1e-3, 10e-3}) {
    costs.push_back({DurationFromSeconds(seconds)});
  }
  occupancy.push_back(Transfer(20, 0, 1));
  occupancy.push_back(Kernel(ComputeClass::kGemm));
  occupancy.push_back(Kernel(ComputeClass::kGemm));
  HardwareSpec hardware = Round();
  hardware.gpu.contention.gemm = 10;  // does not count: nothing is transferred
  Contention contention(occupancy, hardware, {});
  const Timeline timeline = Simulate(graph, costs, &contention);
  EXPECT_NEAR(ToSeconds(timeline.end[task]), 1.25e-3, 1e-9);
}

TEST(SmShare, KernelsShareMaxMin) {
  Overlap o(Round());
  const TaskId small = o.Add("a", 1e-3, Kernel(ComputeClass::kGemm, 20));
  const TaskId large = o.Add("b", 1e-3, Kernel(ComputeClass::kAttention));
  o.Run();
  EXPECT_NEAR(o.Took(small), 1e-3, 1e-9);           // 20 SMs are less than half
  EXPECT_NEAR(o.Took(large), 1e-3 + 0.2e-3, 1e-9);  // 0.8 done beside it
}

// ---- (2) more blocks than SMs ----

TEST(SmShare, CollectivesBeyondAllSmsShareThem) {
  Overlap o(Round());
  const TaskId a = o.Add("a", 1e-3, Transfer(100)), b = o.Add("b", 1e-3, Transfer(100));
  o.Run();
  EXPECT_NEAR(o.Took(a), 2e-3, 1e-9);
  EXPECT_NEAR(o.Took(b), 2e-3, 1e-9);
}

TEST(SmShare, ComputeKeepsAnSm) {
  EXPECT_NEAR(Beside(Round(), Transfer(100), Kernel(ComputeClass::kAttention)), 100, 1e-6);
}

// ---- (3) HBM and links ----

// 0.8 and 0.6 TB/s of 1: the collective wants more than half, both get half.
TEST(HbmShare, IsMaxMin) {
  const Occupancy memory = Kernel(ComputeClass::kMemory, 0, 0.8e12);
  EXPECT_NEAR(Beside(Round(), Transfer(0, 0.6e12), memory), 0.8 / 0.5, 1e-9);
  EXPECT_NEAR(BesideKernel(Round(), Transfer(0, 0.6e12), memory), 0.6 / 0.5, 1e-9);
  // 0.3 is less than half: the kernel gets the other 0.7.
  EXPECT_NEAR(Beside(Round(), Transfer(0, 0.3e12), memory), 0.8 / 0.7, 1e-9);
  EXPECT_NEAR(BesideKernel(Round(), Transfer(0, 0.3e12), memory), 1, 1e-9);
  EXPECT_NEAR(Beside(Round(), Transfer(0, 0.2e12), memory), 1, 1e-9);
}

// A kernel that has fewer SMs asks for less: 0.8 x 0.6 + 0.3 fits.
TEST(HbmShare, CountsWhatIsLeftToAskFor) {
  const Occupancy memory = Kernel(ComputeClass::kMemory, 0, 0.8e12);
  EXPECT_NEAR(Beside(Round(), Transfer(40, 0.3e12), memory), 1 / 0.6, 1e-9);
}

TEST(LinkShare, ConcurrentCollectivesShareTheirLinks) {
  for (const bool inside : {true, false}) {
    Overlap o(Round());
    const auto transfer = [&](double share) {
      return inside ? Transfer(0, 0, share) : Transfer(0, 0, 0, share);
    };
    const TaskId a = o.Add("a", 1e-3, transfer(1)), b = o.Add("b", 1e-3, transfer(1));
    o.Run();
    EXPECT_NEAR(o.Took(a), 2e-3, 1e-9);
    EXPECT_NEAR(o.Took(b), 2e-3, 1e-9);
  }
}

TEST(LinkShare, DifferentLinksAreApart) {
  Overlap o(Round());
  const TaskId a = o.Add("a", 1e-3, Transfer(0, 0, 1)), b = o.Add("b", 1e-3, Transfer(0, 0, 0, 1));
  o.Run();
  EXPECT_NEAR(o.Took(a), 1e-3, 1e-9);
  EXPECT_NEAR(o.Took(b), 1e-3, 1e-9);
}

// NVLink, PCIe, InfiniBand and Ethernet are full-duplex: a direction each.
TEST(LinkShare, DirectionsAreApart) {
  constexpr RankId kHere{0}, kThere{1};
  const auto took = [](RankId sender_a, RankId sender_b, bool inside) {
    Overlap o(Round());
    const auto transfer = [&](RankId sender) {
      Occupancy occupancy = inside ? Transfer(0, 0, 1) : Transfer(0, 0, 0, 1);
      occupancy.sender = sender;
      return occupancy;
    };
    const TaskId a = o.Add("a", 1e-3, transfer(sender_a));
    const TaskId b = o.Add("b", 1e-3, transfer(sender_b));
    o.Run();
    EXPECT_NEAR(o.Took(a), o.Took(b), 1e-9);
    return o.Took(a);
  };
  constexpr RankId kBoth = kNoId<RankId>;  // a ring
  for (const bool inside : {true, false}) {
    EXPECT_NEAR(took(kHere, kThere, inside), 1e-3, 1e-9);
    EXPECT_NEAR(took(kHere, kHere, inside), 2e-3, 1e-9);
    EXPECT_NEAR(took(kThere, kThere, inside), 2e-3, 1e-9);
    EXPECT_NEAR(took(kHere, kBoth, inside), 2e-3, 1e-9);
    EXPECT_NEAR(took(kBoth, kThere, inside), 2e-3, 1e-9);
  }
}

// One out, one in, and a ring beside them: a half of each direction for the ring, which leaves the
// other half to either.
TEST(LinkShare, ARingTakesItsPartOfBothDirections) {
  Overlap o(Round());
  Occupancy out = Transfer(0, 0, 1), in = Transfer(0, 0, 1);
  out.sender = RankId{0};
  in.sender = RankId{1};
  const TaskId ring = o.Add("ring", 1e-3, Transfer(0, 0, 1));
  const TaskId send = o.Add("send", 1e-3, out), receive = o.Add("receive", 1e-3, in);
  o.Run();
  for (const TaskId task : {ring, send, receive}) EXPECT_NEAR(o.Took(task), 2e-3, 1e-9);
}

// ---- (4), (5) what is left ----

TEST(Residual, GrowsWithTheRateOfTheCollective) {
  HardwareSpec hardware = Round();
  hardware.gpu.contention.gemm = 0.2;
  hardware.gpu.contention.attention = 0.4;
  const Occupancy gemm = Kernel(ComputeClass::kGemm);
  EXPECT_NEAR(Beside(hardware, Transfer(0, 0, 1), gemm), 1.2, 1e-9);
  EXPECT_NEAR(Beside(hardware, Transfer(0, 0, 0.5), gemm), 1.1, 1e-9);
  EXPECT_NEAR(Beside(hardware, Transfer(0, 0, 1), Kernel(ComputeClass::kAttention)), 1.4, 1e-9);
  // A NIC of 25 GB/s a rank is a quarter of the link inside.
  EXPECT_NEAR(Beside(hardware, Transfer(0, 0, 0, 1), gemm), 1.05, 1e-9);
  // Of what it reaches: if that is half, the NIC has half of it.
  hardware.intra_node.efficiency = 0.5;
  EXPECT_NEAR(Beside(hardware, Transfer(0, 0, 0, 1), gemm), 1.1, 1e-9);
}

TEST(Residual, OfMemoryKernelsGrowsWithTheirOwnRate) {
  HardwareSpec hardware = Round();
  hardware.gpu.contention.memory = 0.6;
  const auto memory = [](double hbm) { return Kernel(ComputeClass::kMemory, 0, hbm); };
  EXPECT_NEAR(Beside(hardware, Transfer(0, 0, 1), memory(1e12)), 1.6, 1e-9);
  EXPECT_NEAR(Beside(hardware, Transfer(0, 0, 1), memory(0.5e12)), 1.3, 1e-9);
}

TEST(Residual, ComputeSlowsCollectives) {
  HardwareSpec hardware = Round();
  hardware.gpu.contention.communication = 0.3;
  EXPECT_NEAR(BesideKernel(hardware, Transfer(0), Kernel(ComputeClass::kMemory, 0, 1e12)), 1.3,
              1e-9);
  EXPECT_NEAR(BesideKernel(hardware, Transfer(0), Kernel(ComputeClass::kGemm, 0, 0.1e12)), 1.03,
              1e-9);
}

// ---- (6) power ----

// 350 W above idle for the kernel and 50 for the collective, of 320: alone the clock is already
// (320/350)^(1/2), which the isolated duration has in it.
TEST(Power, IsSharedWhenItRunsOut) {
  HardwareSpec hardware = Round();
  ContentionSpec& spec = hardware.gpu.contention;
  spec.power_cap = 400;
  spec.power_idle = 80;
  spec.power_compute = 430;
  spec.power_communication = 50;
  spec.power_exponent = 2;
  const Occupancy gemm = Kernel(ComputeClass::kGemm), copy = Kernel(ComputeClass::kMemory);
  EXPECT_NEAR(Beside(hardware, Transfer(0, 0, 1), gemm), std::sqrt(400.0 / 350), 1e-9);
  EXPECT_NEAR(Beside(hardware, Transfer(0, 0, 1), copy), 1, 1e-9);
  spec.power_compute = 300;  // 220 + 50 are less than 320
  EXPECT_NEAR(Beside(hardware, Transfer(0, 0, 1), gemm), 1, 1e-9);
  spec.power_compute = 380;  // 300 + 50
  EXPECT_NEAR(Beside(hardware, Transfer(0, 0, 1), gemm), std::sqrt(350.0 / 320), 1e-9);
  spec.power_cap = 0;
  EXPECT_NEAR(Beside(hardware, Transfer(0, 0, 1), gemm), 1, 1e-9);
}

// ---- Modes ----

TEST(Modes, SmCountsNothingElse) {
  HardwareSpec hardware = Round();
  hardware.gpu.contention.memory = 0.6;
  const Occupancy memory = Kernel(ComputeClass::kMemory, 0, 1e12);
  const Occupancy ring = Transfer(20, 1e12, 1);
  EXPECT_NEAR(Beside(hardware, ring, memory, ContentionMode::kSm), 1.25, 1e-9);
  EXPECT_GT(Beside(hardware, ring, memory), 2);
}

TEST(Modes, OffIsNoInterferenceAtAll) {
  JobSpec job;
  job.hardware = Round();
  job.contention = ContentionMode::kOff;
  EXPECT_EQ(MakeContention({}, job), nullptr);
  job.contention = ContentionMode::kSm;
  EXPECT_NE(MakeContention({}, job), nullptr);
}

// ---- Start delay ----

// The kernel comes first and lasts 10 ms; the collective of 1 ms wants 20 SMs. No slow-down beside
// the delay: only the kernel's steps are counted.
double StartsAfter(const Occupancy& kernel, StreamPriority priority, double sms = 20) {
  Overlap o(Round());
  o.Add("compute", 10e-3, kernel);
  const TaskId transfer = o.Add("nccl", 1e-3, Transfer(sms));
  o.Run({.priority = priority});
  return (o.Took(transfer) - 1e-3) * 1e3;
}

TEST(StartDelay, BlocksOfTheKernelBeforeGoFirst) {
  // Five waves of 2 ms; the last has 50 of 100 places: room from 8 ms on.
  EXPECT_NEAR(StartsAfter(Kernel(ComputeClass::kGemm, 450), StreamPriority::kDefault), 8, 1e-9);
  // 90 of 100 places leave ten SMs: too few for 20 until the kernel ends.
  EXPECT_NEAR(StartsAfter(Kernel(ComputeClass::kGemm, 490), StreamPriority::kDefault), 10, 1e-9);
  EXPECT_NEAR(StartsAfter(Kernel(ComputeClass::kGemm, 500), StreamPriority::kDefault), 10, 1e-9);
  EXPECT_NEAR(StartsAfter(Kernel(ComputeClass::kAttention), StreamPriority::kDefault), 10, 1e-9);
}

TEST(StartDelay, WithPriorityHalfAWave) {
  EXPECT_NEAR(StartsAfter(Kernel(ComputeClass::kGemm, 450), StreamPriority::kHigh), 1, 1e-9);
}

TEST(StartDelay, IsNoneWhereThereIsRoom) {
  EXPECT_NEAR(StartsAfter(Kernel(ComputeClass::kGemm, 80), StreamPriority::kDefault), 0, 1e-9);
  EXPECT_NEAR(StartsAfter(Kernel(ComputeClass::kGemm, 450), StreamPriority::kDefault, 0), 0, 1e-9);
}

// A collective that was there first has its SMs.
TEST(StartDelay, IsNoneForWhoComesFirst) {
  Overlap o(Round());
  const TaskId transfer = o.Add("nccl", 1e-3, Transfer(20));
  o.Add("compute", 10e-3, Kernel(ComputeClass::kGemm, 450));
  o.Run();
  EXPECT_NEAR(o.Took(transfer), 1e-3, 1e-12);
}

// While it waits it holds nothing and slows nobody: 8 ms at full speed, then 2 ms of work beside
// it.
TEST(StartDelay, SlowsNobody) {
  Overlap o(Round());
  const TaskId kernel = o.Add("compute", 10e-3, Kernel(ComputeClass::kGemm, 450));
  o.Add("nccl", 1, Transfer(20));
  o.Run();
  EXPECT_NEAR(o.Took(kernel), 8e-3 + 2e-3 * 6 / 5, 1e-9);  // 450 tiles on 80 SMs: six waves
}

// ---- A core that computes and carries collectives ----

HardwareSpec Core(double demand) {
  HardwareSpec hardware = Round();
  hardware.gpu.sms = 1;
  hardware.gpu.contention.core_demand = demand;
  return hardware;
}

// Fair shares: who asks for less than half gets it, who asks for more has half.
TEST(CoreShare, IsFair) {
  const Occupancy kernel = Kernel(ComputeClass::kGemm);
  const Occupancy full = Transfer(0, 0, 1), half = Transfer(0, 0, 0.5);
  EXPECT_NEAR(Beside(Core(0.2), full, kernel), 1 / 0.8, 1e-9);
  EXPECT_NEAR(BesideKernel(Core(0.2), full, kernel), 1, 1e-9);
  EXPECT_NEAR(Beside(Core(0.2), half, kernel), 1 / 0.9, 1e-9);
  EXPECT_NEAR(Beside(Core(1), full, kernel), 2, 1e-9);
  EXPECT_NEAR(BesideKernel(Core(1), full, kernel), 2, 1e-9);
  EXPECT_NEAR(BesideKernel(Core(0.6), full, kernel), 0.6 / 0.5, 1e-9);
  // Collectives of a GPU have SMs of their own.
  HardwareSpec gpu = Round();
  gpu.gpu.contention.core_demand = 1;
  EXPECT_NEAR(BesideKernel(gpu, Transfer(1, 0, 1), kernel), 1, 1e-9);
}

// Two collectives share the link, so each asks for half a core: with the kernel three get a third.
TEST(CoreShare, OfThreeIsAThird) {
  Overlap o(Core(1));
  const TaskId first = o.Add("gloo 1", 1e-3, Transfer(0, 0, 1));
  const TaskId second = o.Add("gloo 2", 1e-3, Transfer(0, 0, 1));
  const TaskId kernel = o.Add("compute", 1e-3, Kernel(ComputeClass::kGemm));
  o.Run();
  EXPECT_NEAR(o.Took(first), 3e-3, 1e-9);
  EXPECT_NEAR(o.Took(second), 3e-3, 1e-9);
  EXPECT_NEAR(o.Took(kernel), 3e-3, 1e-9);
}

// The time slice is waited for beside compute only, and costs the compute nothing.
TEST(CoreShare, BeginsWithATimeSlice) {
  HardwareSpec hardware = Core(0);
  hardware.gpu.contention.core_wait = Duration{3'000'000'000};
  Overlap beside(hardware);
  const TaskId kernel = beside.Add("compute", 10e-3, Kernel(ComputeClass::kGemm));
  const TaskId transfer = beside.Add("gloo", 1e-3, Transfer(0, 0, 1));
  beside.Run();
  EXPECT_NEAR(beside.Took(transfer), 4e-3, 1e-9);
  EXPECT_NEAR(beside.Took(kernel), 10e-3, 1e-9);
  Overlap alone(hardware);
  const TaskId lonely = alone.Add("gloo", 1e-3, Transfer(0, 0, 1));
  alone.Run();
  EXPECT_NEAR(alone.Took(lonely), 1e-3, 1e-9);
}

}  // namespace
}  // namespace stepsim
