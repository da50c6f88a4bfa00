// The result as JSON, CSV and Markdown.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "sim/base/check.h"
#include "sim/metrics/metric_table.h"
#include "sim/report/writer.h"
#include "tests/support/report_fixture.h"
#include "tests/support/timeline_fixture.h"

namespace stepsim {
namespace {

using nlohmann::json;
using testing::HandMadeReport;
using ::testing::HasSubstr;
using ::testing::Not;

using Write = void (*)(const Result&, const Sink&);

std::string TextOf(Write write, const Result& result) {
  std::string text;
  write(result, [&text](std::string_view piece) { text += piece; });
  return text;
}
std::string Text(Write write, const StepReport& report) {
  const TaskGraph graph;
  const Timeline timeline;
  return TextOf(write, {graph, timeline, report});
}

json ResultOf(const StepReport& report) { return json::parse(Text(WriteResultJson, report)); }

TEST(ResultJson, HasTheSchemasFields) {
  const json result = ResultOf(HandMadeReport());
  EXPECT_EQ(result.at("schema"), "stepsim.result/1");
  EXPECT_EQ(result.at("step_time_s"), 0.8);
  EXPECT_EQ(result.at("compute_s"), 0.68);
  EXPECT_EQ(result.at("contention_s"), 0.012);
  EXPECT_EQ(result.at("exposed_s").at("gradient_reduce"), 0.092);
  EXPECT_EQ(result.at("exposed_s").at("total"), 0.096);
  EXPECT_EQ(result.at("exposed_s").size(), kSiteCount + 1);
  EXPECT_EQ(result.at("peer_wait_s"), 0.004);
  EXPECT_EQ(result.at("bubble_s"), 0.0);
  EXPECT_EQ(result.at("host_s"), 0.008);
  EXPECT_EQ(result.at("idle_s"), 0.0);
  EXPECT_EQ(result.at("communication_s"), 0.24);
  EXPECT_EQ(result.at("profiler_exposed_s"), 0.1);
  EXPECT_DOUBLE_EQ(result.at("overlap_fraction"), 1 - 0.1 / 0.24);
  EXPECT_DOUBLE_EQ(result.at("mfu").at("palm"), 0.4);
  EXPECT_DOUBLE_EQ(result.at("mfu").at("causal"), 0.35);
  EXPECT_DOUBLE_EQ(result.at("hfu"), 0.5);
  EXPECT_DOUBLE_EQ(result.at("tokens_per_s_per_gpu"), 10240);
  EXPECT_DOUBLE_EQ(result.at("tflops_per_gpu"), 124.8);
  EXPECT_EQ(result.at("peak_memory_bytes").at("optimizer_states"), 25'700'000'000);
  EXPECT_EQ(result.at("peak_memory_bytes").at("total"), 58'700'000'000);
  EXPECT_EQ(result.at("peak_memory_at").at("task"), "layers.0.qkv.wgrad");
  EXPECT_EQ(result.at("peak_memory_at").at("phase"), "backward");
  EXPECT_DOUBLE_EQ(result.at("peak_memory_at").at("time_s").get<double>(), 0.3);
  EXPECT_EQ(result.at("peak_allocated_bytes"), 57'000'000'000);
  EXPECT_EQ(result.at("peak_memory_rank"), 0);
  EXPECT_EQ(result.at("bubble_fraction"), 0.0);
  EXPECT_EQ(result.at("warnings"), json::array());
  EXPECT_EQ(result.at("assumptions"), json::parse(R"([{"field": "plan.ddp.bucket_cap_mb",
                                                       "value": "25 MiB", "origin": "default"}])"));
  EXPECT_EQ(result.at("resolved"),
            json::parse(R"({"model": {"name": "llama-3.2-3b"}, "nodes": 2})"));
}

TEST(ResultJson, RanksAndMicrostepsHaveTheSameParts) {
  const json result = ResultOf(HandMadeReport());
  const json& rank = result.at("ranks").at(0);
  EXPECT_EQ(rank.at("global_rank"), 0);
  EXPECT_EQ(rank.at("stands_for"), 16);
  const json& microstep = result.at("microsteps").at(0);
  EXPECT_EQ(microstep.at("microstep"), 0);
  EXPECT_EQ(microstep.at("is_reducing"), true);
  for (const std::string name :
       {"step_time_s", "compute_s", "contention_s", "exposed_s", "peer_wait_s", "bubble_s",
        "host_s", "idle_s", "communication_s", "profiler_exposed_s", "overlap_fraction"}) {
    EXPECT_EQ(rank.at(name), result.at(name)) << name;
    EXPECT_EQ(microstep.at(name), result.at(name)) << name;
  }
}

TEST(ResultJson, APipelineHasItsShapeAndItsBubbles) {
  EXPECT_FALSE(ResultOf(HandMadeReport()).contains("pipeline"));
  StepReport report = testing::HandMadePipeline();
  const json result = ResultOf(report);
  EXPECT_EQ(result.at("pipeline"), json::parse(R"x({
      "schedule": "1f1b", "stages": 2, "chunks": 1, "microbatches": 4,
      "closed_form_bubble_fraction": 0.2, "closed_form": "(p-1)(tF+tB)"})x"));
  EXPECT_EQ(result.at("ranks").at(0).at("name"), "pp 0");
  EXPECT_DOUBLE_EQ(result.at("ranks").at(0).at("bubble_fraction"), 0.01);  // 8 of 800 ms
  EXPECT_DOUBLE_EQ(result.at("ranks").at(1).at("bubble_fraction"), 0.0);
  EXPECT_EQ(result.at("ranks").at(0).at("in_flight_chunks"), 2);
  EXPECT_DOUBLE_EQ(result.at("bubble_fraction"), 0.0);  // of the reported rank
  report.context.pipeline->bubble_fraction.reset();
  EXPECT_TRUE(ResultOf(report).at("pipeline").at("closed_form_bubble_fraction").is_null());
}

TEST(ResultJson, Collectives) {
  const json collectives = ResultOf(HandMadeReport()).at("collectives");
  ASSERT_EQ(collectives.size(), 5u);
  EXPECT_EQ(collectives.at(2), json::parse(R"({
      "name": "all_reduce bucket 5", "site": "gradient_reduce", "op": "all_reduce",
      "dtype": "fp32", "bytes": 1580000000, "group": "dp", "group_size": 16,
      "algorithm": "ring", "protocol": "simple", "microstep": 0, "ready_s": 0.6,
      "start_s": 0.61, "transfer_start_s": 0.614, "end_s": 0.7, "hidden_s": 0.005,
      "exposed_s": 0.088, "exposed_wait_s": 0.0, "slack_s": -0.088, "first_use": "optimizer",
      "saved_if_removed_s": 0.088, "slowed_s": 0.0, "cause_kind": "tail",
      "cause": "ready last, nothing left to hide behind"})"));
}

// Each rank's own list, in the fixture's step: rank 0 waits for rank 1 in bucket 0 from 150 to 180
// us.
TEST(ResultJson, EachRankHasItsCollectives) {
  const testing::SimulatedStep step = testing::TwoRankStep();
  const json result = json::parse(TextOf(WriteResultJson, step.result()));
  for (const std::size_t rank : {std::size_t{0}, std::size_t{1}}) {
    const json& collectives = result.at("ranks").at(rank).at("collectives");
    ASSERT_EQ(collectives.size(), 2u);
    EXPECT_EQ(collectives.at(0).at("name"), "all_reduce bucket 0");
    EXPECT_DOUBLE_EQ(collectives.at(0).at("start_s"), rank == 0 ? 150e-6 : 180e-6);
    EXPECT_DOUBLE_EQ(collectives.at(0).at("transfer_start_s"), 180e-6);
  }
  const std::size_t reported = result.at("reported_rank");
  EXPECT_EQ(result.at("collectives"), result.at("ranks").at(reported).at("collectives"));
}

// A rank that is alone has them once; so has one of ranks with more than 50,000 in all.
TEST(ResultJson, ListsOfAllRanksHaveALimit) {
  const auto has_lists = [](std::int32_t ranks, int transfers) {
    testing::StepBuilder b;
    for (std::int32_t r = 0; r < ranks; ++r) {
      const RankId rank = b.graph.AddRank({.global_rank = r});
      const StreamId nccl = b.graph.AddStream(rank, "nccl");
      const WorkId work = b.Price(OpaqueWork{TaskKind::kTransfer, 1}, Duration{1000});
      const LabelId label = b.graph.AddLabel({.name = "t", .site = Site::kTensorParallel});
      for (int i = 0; i < transfers; ++i) b.graph.AddTask(work, label, nccl);
    }
    const testing::SimulatedStep step = std::move(b).Finish();
    const json result = json::parse(TextOf(WriteResultJson, step.result()));
    EXPECT_EQ(result.at("collectives").size(), static_cast<std::size_t>(transfers));
    return result.at("ranks").at(0).contains("collectives");
  };
  EXPECT_FALSE(has_lists(1, 3));
  EXPECT_TRUE(has_lists(2, 3));
  EXPECT_FALSE(has_lists(2, 25'001));
}

TEST(ResultJson, NamesThatAreNoUtf8DoNotSpoilIt) {
  StepReport report = HandMadeReport();
  report.context.job = "broken \xff name";
  EXPECT_EQ(ResultOf(report).at("job").at("name"), "broken \xef\xbf\xbd name");  // U+FFFD
}

TEST(ResultJson, NoNumberIsEverNull) {
  StepReport report = HandMadeReport();
  report.context.hardware_flops = {std::numeric_limits<double>::infinity()};
  EXPECT_THROW(ResultOf(report), InternalError);
}

TEST(ResultJson, AJobThatWasNotResolvedIsAnEmptyObject) {
  StepReport report = HandMadeReport();
  report.context.resolved_json.clear();
  EXPECT_EQ(ResultOf(report).at("resolved"), json::object());
  report.context.resolved_json = "[1, 2";
  EXPECT_THROW(ResultOf(report), InternalError);
}

TEST(Csv, OneRowPerMetric) {
  std::istringstream text(Text(WriteCsv, HandMadeReport()));
  std::string line;
  std::getline(text, line);
  EXPECT_EQ(line, "metric,value,unit");
  for (const Metric& metric : Metrics()) {
    ASSERT_TRUE(std::getline(text, line)) << metric.name;
    const std::size_t value = line.find(',') + 1;
    EXPECT_EQ(line.substr(0, value - 1), metric.name);
    EXPECT_EQ(line.substr(line.rfind(',') + 1), metric.unit);
    // The text reads back as the same number.
    EXPECT_EQ(std::stod(line.substr(value)), metric.value(HandMadeReport())) << line;
  }
  EXPECT_FALSE(std::getline(text, line));
  EXPECT_THAT(Text(WriteCsv, HandMadeReport()), HasSubstr("\nexposed_total_s,0.096,s\n"));
}

TEST(Markdown, TablesForATicket) {
  const std::string text = Text(WriteMarkdown, HandMadeReport());
  EXPECT_THAT(text, HasSubstr("## llama-3.2-3b with DDP on 16 x A100-80GB\n\n"
                              "| step | 800 ms | 100.0% |\n"
                              "| --- | ---: | ---: |\n"
                              "| compute | 680 ms | 85.0% |\n"));
  EXPECT_THAT(text, HasSubstr("| exposed | 96.0 ms | 12.0% |\n"
                              "| - gradient_reduce | 92.0 ms | 11.5% |\n"
                              "| - optimizer | 4.00 ms | 0.5% |\n"
                              "| peer wait | 4.00 ms | 0.5% |\n"));
  EXPECT_THAT(text, HasSubstr("| MFU (palm, peak 312 TFLOP/s dense bf16) | 40.0% |\n"));
  EXPECT_THAT(text, HasSubstr("| tokens/s per GPU | 10,240 |\n"));
  EXPECT_THAT(text, HasSubstr("| capacity | 80.0 GiB |\n"));
  EXPECT_THAT(
      text, HasSubstr("| all_reduce bucket 5 | 88.0 ms | -11.0% | 5.00 ms | -88.0 ms | 1.58 GB | "
                      "ring | 16 | gradient_reduce | ready last, nothing left to hide behind |\n"));
  EXPECT_THAT(text, Not(HasSubstr("bucket 4")));  // never exposed
  EXPECT_THAT(text, HasSubstr("<details><summary>Assumptions (1)</summary>\n\n| field |"));
  EXPECT_THAT(text, HasSubstr("| plan.ddp.bucket_cap_mb | 25 MiB | default |\n\n</details>\n"));
  EXPECT_THAT(text, HasSubstr("Confidence: links from preset (not calibrated): +-25%\n"));
  EXPECT_THAT(text, Not(HasSubstr("### Warnings")));
}

TEST(Markdown, NamesCannotBreakATable) {
  StepReport report = HandMadeReport();
  report.collectives[0].name = "a | b\nc <script>";
  report.context.warnings = {"two\nlines"};
  const std::string text = Text(WriteMarkdown, report);
  EXPECT_THAT(text, HasSubstr("| a \\| b c &lt;script> | 3.00 ms |"));
  EXPECT_THAT(text, HasSubstr("### Warnings\n\n- two lines\n"));
}

TEST(Markdown, SaysWhenTheJobDoesNotFit) {
  StepReport report = HandMadeReport();
  report.memory.total = {97'000'000'000};
  EXPECT_THAT(Text(WriteMarkdown, report), HasSubstr("| **total: does not fit** | 90.3 GiB |"));
}

TEST(Markdown, StagesOfAPipeline) {
  const std::string text = Text(WriteMarkdown, testing::HandMadePipeline());
  EXPECT_THAT(text,
              HasSubstr("| stage | compute | exposed | bubble | peer wait | in flight | memory |\n"
                        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n"
                        "| pp 0 | 672 ms 84.0% | 96.0 ms 12.0% | 8.00 ms  1.0% | "
                        "4.00 ms  0.5% | 2 | 54.7 GiB |\n"));
}

TEST(Markdown, MicrostepsOfAnAccumulatedStep) {
  StepReport report = HandMadeReport();
  report.microsteps.push_back({1, true, testing::HandMadeAccount()});
  report.microsteps[0].is_reducing = false;
  EXPECT_THAT(Text(WriteMarkdown, report), HasSubstr("| 1 | no | 800 ms | 680 ms | 96.0 ms |\n"
                                                     "| 2 | yes | 800 ms | 680 ms | 96.0 ms |\n"));
}

}  // namespace
}  // namespace stepsim
