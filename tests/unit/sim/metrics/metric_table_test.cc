#include "sim/metrics/metric_table.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "tests/support/report_fixture.h"

namespace stepsim {
namespace {

using testing::HandMadeReport;

std::map<std::string, double> Values(const StepReport& report) {
  std::map<std::string, double> values;
  for (const Metric& metric : Metrics()) values[std::string(metric.name)] = metric.value(report);
  return values;
}

TEST(MetricTable, EveryMetricIsDocumentedAndSaysItsUnitInItsName) {
  const std::map<std::string_view, std::string_view> suffixes = {
      {"s", "_s"}, {"bytes", "_bytes"}, {"samples/s", "_per_s"}};
  std::set<std::string_view> names;
  for (const Metric& metric : Metrics()) {
    EXPECT_FALSE(metric.doc.empty()) << metric.name;
    EXPECT_FALSE(metric.unit.empty()) << metric.name;
    EXPECT_TRUE(names.insert(metric.name).second) << metric.name << " twice";
    const auto suffix = suffixes.find(metric.unit);
    if (suffix == suffixes.end()) continue;
    EXPECT_TRUE(metric.name.ends_with(suffix->second)) << metric.name;
  }
}

// From the fixture's numbers, by hand.
TEST(MetricTable, Values) {
  const std::map<std::string, double> values = Values(HandMadeReport());
  const std::map<std::string, double> expected = {{"step_time_s", 0.8},
                                                  {"compute_s", 0.68},
                                                  {"contention_s", 0.012},
                                                  {"exposed_total_s", 0.096},
                                                  {"exposed_gradient_reduce_s", 0.092},
                                                  {"exposed_parameter_gather_s", 0},
                                                  {"exposed_tensor_parallel_s", 0},
                                                  {"exposed_pipeline_transfer_s", 0},
                                                  {"exposed_context_parallel_s", 0},
                                                  {"exposed_expert_parallel_s", 0},
                                                  {"exposed_optimizer_s", 0.004},
                                                  {"peer_wait_s", 0.004},
                                                  {"bubble_s", 0},
                                                  {"host_s", 0.008},
                                                  {"idle_s", 0},
                                                  {"communication_s", 0.24},
                                                  {"profiler_exposed_s", 0.1},
                                                  {"overlap_fraction", 1 - 0.1 / 0.24},
                                                  {"mfu_palm", 1.59744e15 / (0.8 * 16 * 312e12)},
                                                  {"mfu_megatron", 0},  // not computed for this job
                                                  {"mfu_torchtitan", 0},
                                                  {"mfu_causal", 1.39776e15 / (0.8 * 16 * 312e12)},
                                                  {"hfu", 1.9968e15 / (0.8 * 16 * 312e12)},
                                                  {"tokens_per_s_per_gpu", 131072 / 0.8 / 16},
                                                  {"samples_per_s", 32 / 0.8},
                                                  {"tflops_per_gpu", 1.59744e3 / 0.8 / 16},
                                                  {"peak_memory_bytes", 58.7e9},
                                                  {"bubble_fraction", 0}};
  ASSERT_EQ(values.size(), expected.size());
  for (const auto& [name, value] : expected) {
    ASSERT_TRUE(values.count(name)) << name;
    EXPECT_DOUBLE_EQ(values.at(name), value) << name;
  }
}

TEST(MetricTable, EverySiteHasItsRow) {
  for (std::size_t site = 0; site < kSiteCount; ++site) {
    StepReport report = HandMadeReport();
    report.ranks[0].exposed.fill(Duration::zero());
    report.ranks[0].exposed[site] = testing::Milliseconds(7);
    const std::string name = "exposed_" + std::string(ToString(static_cast<Site>(site))) + "_s";
    EXPECT_DOUBLE_EQ(Values(report).at(name), 0.007) << name;
  }
}

TEST(MetricTable, BubbleFractionIsOfTheStep) {
  StepReport report = HandMadeReport();
  report.ranks[0].bubble = testing::Milliseconds(200);
  EXPECT_DOUBLE_EQ(Values(report).at("bubble_fraction"), 0.25);
}

// A step without length, GPUs, peak or work has no rates, and no division by zero.
TEST(MetricTable, AnEmptyReportIsAllZero) {
  StepReport report;
  report.ranks = {RankAccount{}};
  report.context.tokens_per_step = 5;
  report.context.hardware_flops = {1};
  for (const Metric& metric : Metrics()) EXPECT_EQ(metric.value(report), 0) << metric.name;
}

TEST(MetricTable, TheReportedRankIsShown) {
  StepReport report = HandMadeReport();
  report.ranks.push_back(report.ranks[0]);
  report.ranks[1].step = testing::Milliseconds(900);
  report.reported_rank = 1;
  EXPECT_DOUBLE_EQ(Values(report).at("step_time_s"), 0.9);
}

}  // namespace
}  // namespace stepsim
