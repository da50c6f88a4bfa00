// What a trace comes to. Expected times are sums that can be done by hand; those of the real traces
// are Holistic Trace Analysis' and our own interval unions, recorded with the traces
// (tests/data/README.md).
#include "models/trace/measured_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "sim/base/diagnostics.h"
#include "tests/unit/models/trace/trace_text.h"

namespace stepsim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TraceText;

constexpr Duration Us(std::int64_t microseconds) { return Duration(microseconds * 1'000'000); }

std::string Data(const std::string& name) {
  return std::string(STEPSIM_SOURCE_DIR) + "/tests/data/traces/" + name;
}

MeasuredReport All(const MeasuredRun& run) {
  return ReportStep(run, ChooseStep(run, {StepChoice::Kind::kAll}));
}

// ---- Real traces ----

struct Reference {
  const char* file;
  std::size_t kernels, collectives, steps;
  double span_us, busy_us, compute_us, communication_us, overlap_us, exposed_us, beside_copies_us;
};
// Columns of the reference table: gpu_kernels (communication included), comm_kernels, steps,
// gpu_span, gpu_busy, own_compute, own_comm, own_overlap, own_exposed,
// own_exposed_vs_compute_and_copies.
const Reference kReferences[] = {
    {"a100_resnet50_ddp_rank0of2_reduced.json.gz", 2700, 21, 3, 660551.006, 157500.078, 115655.843,
     46876.492, 7317.026, 39559.466, 39190.665},
    {"sampled_rank0of128_reduced.json.gz", 1154, 10, 2, 1222847, 547656, 210320, 396199, 59216,
     336983, 336033},
    {"sampled_rank1of128_reduced.json.gz", 1104, 10, 2, 1231186, 580050, 271973, 379053, 75530,
     303523, 299495},
    {"a100_alltoall_rank3of8_reduced.json.gz", 8568, 60, 6, 464594, 388587, 281336, 163535, 75614,
     87921, 86554},
};

TEST(RealTraces, OverlapIsThatOfTheReference) {
  // The reference adds floating-point microseconds counted from boot (4 x 10^12): each of a few
  // hundred intervals is off by up to 0.0005 us.
  constexpr double kRounding = 0.1;
  for (const Reference& expected : kReferences) {
    SCOPED_TRACE(expected.file);
    const MeasuredRun run = ReadTraces({Data(expected.file)}, {});
    EXPECT_THAT(run.warnings, ElementsAre());
    EXPECT_EQ(run.ranks[0].kernels + run.ranks[0].collectives, expected.kernels);
    EXPECT_EQ(run.ranks[0].collectives, expected.collectives);
    EXPECT_EQ(run.steps.size(), expected.steps);
    const MeasuredReport report = All(run);
    const MeasuredDetail& detail = report.detail();
    EXPECT_NEAR(ToMicroseconds(report.step.account().step), expected.span_us, kRounding);
    EXPECT_NEAR(ToMicroseconds(detail.busy), expected.busy_us, kRounding);
    EXPECT_NEAR(ToMicroseconds(detail.compute_kernels), expected.compute_us, kRounding);
    EXPECT_NEAR(ToMicroseconds(detail.communication), expected.communication_us, kRounding);
    EXPECT_NEAR(ToMicroseconds(detail.communication - detail.exposed), expected.overlap_us,
                kRounding);
    EXPECT_NEAR(ToMicroseconds(detail.exposed), expected.exposed_us, kRounding);
    EXPECT_NEAR(ToMicroseconds(detail.exposed_beside_copies), expected.beside_copies_us, kRounding);
    // The account's own two figures are the same ones.
    EXPECT_EQ(report.step.account().profiler_exposed, detail.exposed);
    EXPECT_EQ(report.step.account().exposed_total(), detail.exposed_beside_copies);
  }
}

TEST(RealTraces, StepsTileTheTrace) {
  const MeasuredRun run = ReadTraces({Data("a100_resnet50_ddp_rank0of2_reduced.json.gz")}, {});
  // ProfilerStep#4 to #6 (step_of_start of the reference's communication kernels).
  ASSERT_EQ(run.steps.size(), 3u);
  EXPECT_EQ(run.steps[0].number, 4);
  EXPECT_EQ(run.steps[0].window.begin, kStepBegin);
  EXPECT_EQ(run.steps[0].window.end, run.steps[1].window.begin);
  EXPECT_EQ(run.steps[1].window.end, run.steps[2].window.begin);
  EXPECT_EQ(run.steps[2].window.end, run.timeline.makespan);
  // 7 of the 21 communication kernels each: 2 broadcasts, 5 buckets of 102,228,128 bytes together:
  // 4 B x (2049000 + 7875584 + 6563840 + 6637568 + 2431040).
  const MeasuredReport report = ReportStep(run, ChooseStep(run, {}));
  ASSERT_EQ(report.detail().sites.size(), 2u);
  const MeasuredSite& reduce = report.detail().sites[0];
  EXPECT_EQ(reduce.site, Site::kGradientReduce);
  EXPECT_EQ(reduce.op, CollectiveOp::kAllReduce);
  EXPECT_EQ(reduce.calls, 5u);
  EXPECT_EQ(reduce.bytes.value, 102'228'128);
  EXPECT_EQ(report.detail().sites[1].calls, 2u);
  EXPECT_EQ(report.detail().sites[1].op, CollectiveOp::kBroadcast);
  EXPECT_EQ(report.detail().launches, LaunchVerdict::kLaunchBound);
}

// Without arguments on the kernels: sizes and operation come from the call around the launch,
// "nccl:all_to_all" over [8, 1024, 8816] floats.
TEST(RealTraces, CallsAroundLaunchesSayWhatAKernelDoes) {
  const MeasuredRun run = ReadTraces({Data("a100_alltoall_rank3of8_reduced.json.gz")}, {});
  bool is_found = false;
  const MeasuredReport report = All(run);
  for (const MeasuredSite& site : report.detail().sites) {
    is_found = is_found || (site.op == CollectiveOp::kAllToAll && site.calls == 42 &&
                            site.site == Site::kExpertParallel);
  }
  EXPECT_TRUE(is_found);
}

TEST(RealTraces, OfTwoRanksWithoutADevice) {
  const MeasuredRun run = ReadTraces(
      {Data("ddp_mlp16_veth1g_cap5_rank0.json.gz"), Data("ddp_mlp16_veth1g_cap5_rank1.json.gz")},
      {});
  ASSERT_EQ(run.ranks.size(), 2u);
  EXPECT_TRUE(run.ranks[0].is_host_only);
  // Two steps with four buckets: 16 layers of 1 MiB in buckets of 5 MiB and a first one of 1 MiB.
  EXPECT_EQ(run.matched_collectives, 8u);
  EXPECT_EQ(run.steps.size(), 2u);
  const MeasuredReport report = All(run);
  // The union of gloo:all_reduce of rank 0, from the file: [55392,67378], [93965,137027],
  // [137572,180934], [172447,224855], and those of step 1: [283168,296689], [324352,369381],
  // [371138,414415], [409595,459047].
  const std::int64_t first = (67378 - 55392) + (137027 - 93965) + (224855 - 137572);
  const std::int64_t second = (296689 - 283168) + (369381 - 324352) + (459047 - 371138);
  EXPECT_EQ(report.ranks[0].communication, Us(first + second));
  EXPECT_EQ(report.ranks[0].sites.size(), 1u);
  EXPECT_EQ(report.ranks[0].sites[0].site, Site::kGradientReduce);
  EXPECT_GT(report.ranks[0].sites[0].waiting + report.ranks[1].sites[0].waiting, Duration::zero());
}

// ---- By hand ----

// compute |0 ------- 100|        |150 -- 200|
// nccl            |80 ------- 140|
TEST(MeasuredRun, AccountsForEveryMoment) {
  TraceText t;
  t.Kernel("sgemm_128x64", 7, 1000, 100);
  t.Collective("ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)", 20, 1080, 60, "allreduce", 2500);
  t.Kernel("sgemm_128x64", 7, 1150, 50);
  const MeasuredRun run = ReadTraceTexts({{"t.json", t.Text()}}, {});
  const MeasuredReport report = All(run);
  const RankAccount& account = report.step.account();
  EXPECT_EQ(account.step, Us(200));
  EXPECT_EQ(account.compute, Us(150));
  EXPECT_EQ(account.exposed[static_cast<std::size_t>(Site::kGradientReduce)], Us(40));
  EXPECT_EQ(account.idle, Us(10));  // no launch is known: nobody's fault
  EXPECT_EQ(report.detail().launches, LaunchVerdict::kUnknown);
  EXPECT_EQ(account.communication, Us(60));
  EXPECT_NEAR(report.detail().overlap_fraction(), 20.0 / 60, 1e-12);
  // nccl-tests: busbw = 10000 B / 60 us x 2 (2 - 1) / 2.
  ASSERT_EQ(report.detail().sites.size(), 1u);
  EXPECT_NEAR(report.detail().sites[0].busbw(), 10000 / 60e-6, 1);
}

TEST(MeasuredRun, CopiesCountForTheAccountNotForProfilers) {
  TraceText t;
  t.Collective("ncclKernel_AllReduce_RING_LL_Sum_float(x)", 20, 0, 100, "allreduce", 1);
  t.Kernel("Memcpy HtoD (Pageable -> Device)", 7, 10, 20, ",\"bytes\":64", "gpu_memcpy");
  t.Kernel("Memset (Device)", 7, 40, 10, "", "gpu_memset");
  const MeasuredReport report = All(ReadTraceTexts({{"t.json", t.Text()}}, {}));
  EXPECT_EQ(report.detail().exposed, Us(100));
  EXPECT_EQ(report.detail().exposed_beside_copies, Us(70));
  EXPECT_EQ(report.detail().copies, Us(30));
  EXPECT_EQ(report.step.account().compute, Us(30));
}

// The second kernel waits for its launch, the third for the device.
TEST(MeasuredRun, IdleTimeBelongsToTheHostThatWasLate) {
  TraceText t;
  t.Kernel("gemm_a", 7, 100, 100, ",\"correlation\":1");
  t.Kernel("gemm_b", 7, 300, 100, ",\"correlation\":2");
  t.Kernel("gemm_c", 7, 430, 70, ",\"correlation\":3");
  t.Launch(1, 90, 5);
  t.Launch(2, 290, 5);  // after gemm_a had ended
  t.Launch(3, 295, 5);  // long before gemm_b ended
  const MeasuredReport report = All(ReadTraceTexts({{"t.json", t.Text()}}, {}));
  const RankAccount& account = report.step.account();
  EXPECT_EQ(account.step, Us(400));
  EXPECT_EQ(account.compute, Us(270));
  EXPECT_EQ(account.host, Us(100));
  EXPECT_EQ(account.idle, Us(30));
  EXPECT_EQ(report.detail().launches, LaunchVerdict::kLaunchBound);  // 25% of the step
  EXPECT_EQ(report.detail().launch_delay, Us(10));                   // of 10, 10 and 135
}

// Kernels run behind the host: a step ends with what was launched in it.
TEST(MeasuredRun, StepsEndWithWhatTheyLaunched) {
  TraceText t;
  t.Annotation("ProfilerStep#7", 0, 100);
  t.Annotation("ProfilerStep#8", 100, 100);
  t.Annotation("ProfilerStep#9", 200, 100);
  for (int step = 0; step < 3; ++step) {
    t.Launch(step + 1, 100 * step + 50, 5);
    t.Kernel("gemm", 7, 100 * step + 90, 60 + 10 * step,
             ",\"correlation\":" + std::to_string(step + 1));
  }
  const MeasuredRun run = ReadTraceTexts({{"t.json", t.Text()}}, {});
  ASSERT_EQ(run.steps.size(), 3u);
  EXPECT_EQ(run.steps[0].window.length(), Us(60));         // 90 .. 150
  EXPECT_EQ(run.steps[1].window.length(), Us(260 - 150));  // .. 190 + 70
  EXPECT_EQ(run.steps[2].window.length(), Us(370 - 260));  // .. 290 + 80
  EXPECT_EQ(ChooseStep(run, {}).number, 8);  // the first one is left out, the first of equals
  EXPECT_EQ(ChooseStep(run, {StepChoice::Kind::kLast}).number, 9);
  EXPECT_EQ(ChooseStep(run, ParseStepChoice("7")).number, 7);
  EXPECT_THROW(ChooseStep(run, ParseStepChoice("10")), ConfigError);
  EXPECT_THROW(ParseStepChoice("middle"), ConfigError);
}

// Rank 1 computes longer, and its clock is 5 ms ahead. Both collectives end together.
TEST(MeasuredRun, WaitingForTheSlowestRankIsNoTransfer) {
  TraceText fast(0), slow(1);
  for (int call = 0; call < 3; ++call) {
    const double at = 1000 * call;
    fast.Kernel("gemm", 7, at, 100);
    fast.Collective("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", 20, at + 100, 400, "allreduce",
                    1000);
    slow.Kernel("gemm", 7, at + 5000, 300);
    slow.Collective("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", 20, at + 5300, 200, "allreduce",
                    1000);
  }
  const MeasuredRun run =
      ReadTraceTexts({{"slow.json", slow.Text()}, {"fast.json", fast.Text()}}, {});
  EXPECT_EQ(run.matched_collectives, 3u);
  EXPECT_EQ(run.clock_residual, Duration::zero());
  ASSERT_EQ(run.ranks[0].rank, 0);  // as the files say, not as they are given
  const MeasuredReport report = All(run);
  EXPECT_EQ(report.step.ranks[0].peer_wait, Us(600));
  EXPECT_EQ(report.step.ranks[0].exposed_total(), Us(600));
  EXPECT_EQ(report.step.ranks[1].peer_wait, Us(0));
  EXPECT_EQ(report.step.ranks[1].exposed_total(), Us(600));
  EXPECT_EQ(report.ranks[0].sites[0].waiting, Us(600));
  EXPECT_EQ(report.ranks[0].exposed, Us(1200));  // as a profiler counts: waiting too
  // The bus bandwidth is that of the transfer: 4000 B in 200 us on both ranks.
  for (const MeasuredDetail& detail : report.ranks) {
    EXPECT_NEAR(detail.sites[0].busbw(), 4000 / 200e-6, 1);
  }
}

TEST(MeasuredRun, CallsThatDifferAreNotOne) {
  TraceText a(0), b(1);
  a.Collective("ncclDevKernel_AllReduce(x)", 20, 0, 100, "allreduce", 1000);
  b.Collective("ncclDevKernel_AllReduce(x)", 20, 0, 100, "allreduce", 2000);
  const MeasuredRun run = ReadTraceTexts({{"a.json", a.Text()}, {"b.json", b.Text()}}, {});
  EXPECT_EQ(run.matched_collectives, 0u);
  EXPECT_THAT(run.warnings, ::testing::Contains(HasSubstr("not matched")));
}

TEST(MeasuredRun, SitesByGroupPhaseAndPattern) {
  TraceText t;
  const auto group = [](const std::string& name) {
    return ",\"Process Group Description\":\"" + name + "\"";
  };
  t.Kernel("gemm", 7, 0, 10);
  t.Collective("ncclDevKernel_AllReduce(x)", 20, 0, 1, "allreduce", 8, group("mesh_tp"));
  t.Collective("ncclDevKernel_SendRecv(x)", 21, 2, 1, "send", 8,
               group("PIPELINE_MODEL_PARALLEL_GROUP"));
  t.Collective("ncclDevKernel_AllGather(x)", 22, 4, 1, "_allgather_base", 8,
               group("DATA_PARALLEL_GROUP_WITH_CP"));
  t.Collective("ncclDevKernel_ReduceScatter(x)", 23, 6, 1, "_reduce_scatter_base", 8,
               group("EXPERT_DATA_PARALLEL_GROUP"));
  t.Collective("ncclDevKernel_SendRecv(x)", 24, 8, 1, "all_to_all", 8,
               group("EXPERT_MODEL_PARALLEL_GROUP"));
  const auto sites_of = [&](const TraceOptions& options) {
    std::vector<Site> sites;
    const MeasuredRun run = ReadTraceTexts({{"t.json", t.Text()}}, options);
    for (const TaskId task : AllIds<TaskId>(run.graph.task_count())) {
      if (run.graph.kind(task) == TaskKind::kTransfer) sites.push_back(run.graph.label(task).site);
    }
    return sites;
  };
  EXPECT_THAT(sites_of({}),
              ElementsAre(Site::kTensorParallel, Site::kPipelineTransfer, Site::kParameterGather,
                          Site::kGradientReduce, Site::kExpertParallel));
  EXPECT_THAT(sites_of({.sites = {ParseSiteOverride("MESH_T.=context_parallel")}}),
              ElementsAre(Site::kContextParallel, Site::kPipelineTransfer, Site::kParameterGather,
                          Site::kGradientReduce, Site::kExpertParallel));
  try {
    ParseSiteOverride("a=tensor_paralel");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("did you mean 'tensor_parallel'?"));
  }
  EXPECT_THROW(ParseSiteOverride("(=tensor_parallel"), ConfigError);
}

// ---- Damaged and odd traces ----

TEST(OddTraces, WhatIsCutOffIsUsedAsFarAsItGoes) {
  TraceText t;
  t.Kernel("gemm", 7, 0, 10);
  t.Kernel("gemm", 7, 20, 10);
  const std::string whole = t.Text();
  const std::string cut = whole.substr(0, whole.rfind("\"dur\""));
  const MeasuredRun run = ReadTraceTexts({{"cut.json", cut}}, {});
  EXPECT_EQ(run.ranks[0].kernels, 1u);
  EXPECT_THAT(run.warnings, ElementsAre(HasSubstr("ends in the middle: 1 events are used")));
}

TEST(OddTraces, OneFileMayHoldSeveralTraces) {
  TraceText a(0), b(1);
  a.Kernel("gemm", 7, 0, 10);
  b.Kernel("gemm", 7, 0, 20);
  const MeasuredRun run = ReadTraceTexts({{"both.json", a.Text() + b.Text()}}, {});
  EXPECT_EQ(run.ranks.size(), 2u);
}

TEST(OddTraces, ABareArrayNeedNotEnd) {
  TraceText t;
  t.Kernel("gemm", 7, 0, 10);
  const MeasuredRun run = ReadTraceTexts({{"bare.json", "[" + t.events()}}, {});
  EXPECT_EQ(run.ranks[0].kernels, 1u);
  EXPECT_THAT(run.warnings, ElementsAre());
}

TEST(OddTraces, NothingToReadIsOneClearError) {
  const auto error_of = [](const std::string& text) -> std::string {
    try {
      ReadTraceTexts({{"x.json", text}}, {});
    } catch (const ConfigError& error) {
      EXPECT_EQ(error.diagnostics().size(), 1u);
      return error.what();
    }
    return "none";
  };
  EXPECT_THAT(error_of(""), HasSubstr("x.json: the file is empty"));
  EXPECT_THAT(error_of("   "), HasSubstr("holds no events"));
  EXPECT_THAT(error_of("{}"), HasSubstr("holds no events"));
  EXPECT_THAT(error_of("hello"), HasSubstr("this is no trace"));
  EXPECT_THAT(error_of("PK\x03\x04"), HasSubstr("zip archive"));
  EXPECT_THAT(error_of("{\"traceEvents\":[]}"), HasSubstr("holds no events"));
  EXPECT_THAT(error_of("[{\"ph\":\"M\",\"name\":\"x\"}]"), HasSubstr("none of its 1 events"));
}

TEST(OddTraces, ImpossibleTimesAreLeftOut) {
  TraceText t;
  t.Kernel("gemm", 7, 0, 10);
  t.Kernel("gemm", 7, 20, 10);
  for (const char* ts : {"1e300", "nan", "\"soon\"", "99999999999999999999"}) {
    t.Event(std::string("{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"ts\":") + ts +
            ",\"dur\":1,\"args\":{\"stream\":7}}");
  }
  t.Event("{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"ts\":5,\"dur\":-1}");
  // A year later: the clock of this kernel is not that of the others.
  t.Event(
      "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"ts\":3e13,\"dur\":1,"
      "\"pid\":0,\"args\":{\"stream\":7,\"device\":0}}");
  const MeasuredRun run = ReadTraceTexts({{"t.json", t.Text()}}, {});
  EXPECT_EQ(run.ranks[0].kernels, 2u);
  EXPECT_EQ(All(run).step.account().step, Us(30));
  EXPECT_THAT(run.warnings,
              ::testing::UnorderedElementsAre(HasSubstr("5 events have no usable time"),
                                              HasSubstr("1 of 3 spans lie more than 20 days")));
}

// A former crash: nothing is left of a device.
TEST(OddTraces, SpansThatAreAllTooLong) {
  TraceText t;
  t.Kernel("gemm", 7, 0, 8.9e12);
  try {
    ReadTraceTexts({{"t.json", t.Text()}}, {});
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("no kernel with a usable time"));
  }
}

TEST(OddTraces, TimesFrom1970KeepTheirPicoseconds) {
  TraceText t;
  t.Event(
      "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"a\",\"pid\":0,\"ts\":1661203462598738.000001,"
      "\"dur\":0.000002,\"args\":{\"stream\":7,\"device\":0}}");
  t.Event(
      "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"b\",\"pid\":0,\"ts\":1661203462598739.5,"
      "\"dur\":1,\"args\":{\"stream\":7,\"device\":0}}");
  const MeasuredRun run = ReadTraceTexts({{"t.json", t.Text()}}, {});
  EXPECT_EQ(run.timeline.end[TaskId{0}] - run.timeline.start[TaskId{0}], Duration(2));
  EXPECT_EQ(run.timeline.start[TaskId{1}] - run.timeline.start[TaskId{0}], Duration(1'499'999));
}

TEST(OddTraces, RepeatedStepNumbersAndIdsAreCounted) {
  TraceText t;
  for (int step = 0; step < 2; ++step) {
    t.Annotation("ProfilerStep#3", 100 * step, 100);
    t.Launch(1, 100 * step + 10, 5);  // the same correlation twice
    t.Kernel("gemm", 7, 100 * step + 20, 50, ",\"correlation\":1");
  }
  const MeasuredRun run = ReadTraceTexts({{"t.json", t.Text()}}, {});
  ASSERT_EQ(run.steps.size(), 2u);
  EXPECT_EQ(run.steps[1].number, 1);
  EXPECT_EQ(run.steps[1].window.length(), Us(100));  // 70 .. 170
  EXPECT_THAT(run.warnings, ElementsAre(HasSubstr("repeat or fall")));
}

}  // namespace
}  // namespace stepsim
