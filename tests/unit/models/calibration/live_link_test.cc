// The pieces of a live sweep: its tables, its names, and what its micro-measurements amount to.
#include "models/calibration/live_link.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "models/calibration/live_sweep.h"
#include "models/cost/measured_curve.h"
#include "sim/base/diagnostics.h"

namespace stepsim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

constexpr char kSteps[] =
    "link,config,bucket_cap_mb,accumulation,buckets,total_us,total_no_comm_us,bwd_no_comm_us\n"
    "wire,net,25,1,2,300,200,120\n";

LiveSweep Read(std::initializer_list<std::string> texts) {
  std::vector<CsvTable> tables;
  for (const std::string& text : texts) tables.push_back(ParseCsv(text, "table.csv"));
  return ReadLiveSweep(tables);
}

std::string ErrorOf(std::initializer_list<std::string> texts) {
  try {
    Read(texts);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(LiveSweep, KnowsTablesByTheirColumns) {
  const LiveSweep sweep =
      Read({"link,config,param,name,bytes,ready_no_comm_us\n"
            "wire,net,1,b,8,10\nwire,net,0,a,4,31\nwire,net,0,a,4,29\nwire,net,0,a,4,30\n"
            "wire,net,2,unseen,4,\n",
            "link,op,bytes,rank,median_us\nwire,all_reduce,64,0,4\nwire,all_reduce,64,1,6\n"
            "wire,broadcast,64,0,9\n",
            kSteps, "config,factor\nnet,2\nnet,3\nnet,4\n",
            "link,ar_bytes,ar_with_gemm_us,gemm_slowdown_mean\nwire,64,7,1.5\n"});
  ASSERT_EQ(sweep.steps.size(), 1u);
  EXPECT_DOUBLE_EQ(sweep.steps[0].seconds, 300e-6);
  EXPECT_EQ(sweep.steps[0].buckets, 2);
  const LiveProfile& profile = sweep.profiles.at({"wire", "net"});
  ASSERT_EQ(profile.size(), 2u);  // the median of its rows, in the order of readiness
  EXPECT_EQ(profile[0].name, "b");
  EXPECT_DOUBLE_EQ(profile[1].ready, 30e-6);
  ASSERT_EQ(sweep.curves.at("wire").size(), 1u);  // the mean of the ranks
  EXPECT_DOUBLE_EQ(sweep.curves.at("wire")[0].second, 5e-6);
  EXPECT_THAT(sweep.slow_downs, ElementsAre(Pair("net", 3)));
  EXPECT_EQ(sweep.overlaps.at("wire").size(), 1u);
}

TEST(LiveSweep, SaysWhatIsWrong) {
  EXPECT_THAT(ErrorOf({"a,b\n1,2\n"}), HasSubstr("found the columns a, b, allowed: a table with"));
  EXPECT_THAT(ErrorOf({"config,factor\nnet,2\n"}), HasSubstr("found no measured step"));
  EXPECT_THAT(
      ErrorOf({"link,config,bucket_cap_mb,accumulation,total_us,total_no_comm_us,bwd_no_comm_us\n"
               "wire,../net,25,1,300,200,120\n"}),
      HasSubstr("found '../net', allowed: letters"));
  EXPECT_THAT(
      ErrorOf({"link,config,bucket_cap_mb,accumulation,total_us,total_no_comm_us,bwd_no_comm_us\n"
               "wire,net,25,1,300,100,120\n"}),
      HasSubstr("bwd_no_comm_us: found more than total_no_comm_us"));
  EXPECT_THAT(
      ErrorOf({"link,config,bucket_cap_mb,accumulation,total_us,total_no_comm_us,bwd_no_comm_us\n"
               "wire,net,25,1,1e300,200,120\n"}),
      HasSubstr("found another time"));
}

TEST(LiveExperiment, IsWhatTheNamesSay) {
  const LiveExperiment plain = ParseExperiment("veth_tbf_1g", "mlp16");
  EXPECT_EQ(plain.curve, "veth_tbf_1g");
  EXPECT_EQ(plain.network, "mlp16");
  EXPECT_EQ(plain.threads, 2);
  EXPECT_TRUE(plain.bucket_view);
  EXPECT_FALSE(plain.emulated_latency.has_value());
  EXPECT_EQ(ParseExperiment("tun_1ms_1g_1thread", "gpt8").threads, 1);
  EXPECT_EQ(ParseExperiment("tun_1ms_1g_1thread", "gpt8").curve, "tun_1ms_1g");
  EXPECT_EQ(ParseExperiment("tun_1ms_1g_fifo_1thread", "gpt8").curve, "tun_1ms_1g_fifo_1thread");
  EXPECT_EQ(ParseExperiment("veth_tbf_1g_variants", "gpt8_k4").curve, "veth_tbf_1g");
  EXPECT_EQ(ParseExperiment("veth_tbf_1g_variants", "gpt8_k4").network, "gpt8");
  EXPECT_EQ(ParseExperiment("veth_tbf_1g_variants", "big_first").network, "big_first");
  EXPECT_FALSE(ParseExperiment("veth_tbf_1g_variants", "gpt8_copy").bucket_view);
  const LiveExperiment emulated = ParseExperiment("emulated_contended", "gpt8_burn5_a500_g1.5");
  EXPECT_EQ(emulated.network, "gpt8");
  EXPECT_EQ(emulated.threads, 1);
  EXPECT_DOUBLE_EQ(emulated.emulated_latency.value(), 500e-6);
  EXPECT_DOUBLE_EQ(emulated.emulated_bandwidth.value(), 1.5e9 / 8);
}

// A link of 2 ms and 100 MB/s whose transfers take `demand` of the core at full rate and wait 3 ms,
// measured with an error of 2 % that alternates.
LiveSweep Synthetic(double demand) {
  std::string curve = "link,op,bytes,rank,median_us\n";
  std::string overlaps = "link,ar_bytes,ar_with_gemm_us,gemm_slowdown_mean\n";
  double noise = 0.98;
  for (std::int64_t bytes = 1 << 18; bytes <= 1 << 24; bytes *= 2) {
    const double moving = static_cast<double>(bytes) / 100e6, alone = 2e-3 + moving;
    const double wanted = demand * moving / alone;
    const double got = std::min(wanted, std::max(0.5, 1 - wanted));
    const double beside = alone * wanted / got, time = 3e-3 + beside;
    const double slow = time / (3e-3 + beside * (1 - got));
    noise = 1.96 - noise + 0.04;  // 1.02, 0.98, ...
    curve += fmt::format("wire,all_reduce,{},0,{}\n", bytes, alone * noise * 1e6);
    overlaps += fmt::format("wire,{},{},{}\n", bytes, time * noise * 1e6, slow * noise);
  }
  return Read({kSteps, curve, overlaps});
}

TEST(FitLink, FindsWhatTheMeasurementsWereMadeOf) {
  for (const double demand : {0.2, 0.45, 0.9}) {
    const LiveLink link =
        FitLink(Synthetic(demand), ParseExperiment("wire", "net"), "net", 1 << 18);
    EXPECT_NEAR(ToSeconds(link.curve.latency), 2e-3, 0.2e-3) << demand;
    EXPECT_NEAR(link.curve.bandwidth.value / 100e6, 1, 0.03) << demand;
    EXPECT_NEAR(link.core_demand, demand, 0.05) << demand;
    EXPECT_NEAR(link.core_wait, 3e-3, 0.6e-3) << demand;
    EXPECT_NEAR(link.curve.residual, 0.02, 0.01) << demand;
  }
}

// 128 KiB of every message pass at once: the line through the rest has a negative latency, which is
// none, and the rate of the long run, 8 ns/B.
TEST(FitLink, ABurstIsNoLatency) {
  std::string curve = "link,op,bytes,rank,median_us\n";
  for (std::int64_t bytes = 1 << 18; bytes <= 1 << 26; bytes *= 2) {
    curve += fmt::format("wire,all_reduce,{},0,{}\n", bytes,
                         static_cast<double>(bytes - (1 << 17)) * 8e-3);
  }
  const LiveLink link =
      FitLink(Read({kSteps, curve}), ParseExperiment("wire", "net"), "net", 1 << 18);
  EXPECT_EQ(link.curve.latency, Duration{});
  EXPECT_TRUE(link.curve.knots.empty());
  EXPECT_NEAR(link.curve.bandwidth.value, 125e6, 1e3);
}

// Large messages no longer fit into a cache: from 4 MiB on they take 2 ms more. No line is that.
TEST(FitLink, ACurveThatIsNoLineGetsKnots) {
  std::string curve = "link,op,bytes,rank,median_us\n";
  for (std::int64_t bytes = 1 << 18; bytes <= 1 << 24; bytes *= 2) {
    curve += fmt::format("wire,all_reduce,{},0,{}\n", bytes,
                         200 + static_cast<double>(bytes) * 1e-3 + (bytes >= 1 << 22 ? 2000 : 0));
  }
  const LiveLink link =
      FitLink(Read({kSteps, curve}), ParseExperiment("wire", "net"), "net", 1 << 18);
  ASSERT_EQ(link.curve.knots.size(), 7u);
  EXPECT_NEAR(CurveSeconds(link.curve, 1 << 22), 2200e-6 + 4.194304e-3, 1e-9);
}

TEST(FitLink, AnEmulatedLinkIsWhatItsNameSays) {
  const LiveSweep sweep = Read({kSteps, "config,factor\nnet_burn0_a500_g2,2\n"});
  const LiveLink link =
      FitLink(sweep, ParseExperiment("emulated", "net_burn0_a500_g2"), "net_burn0_a500_g2", 1);
  EXPECT_DOUBLE_EQ(ToSeconds(link.curve.latency), 500e-6);
  EXPECT_DOUBLE_EQ(link.curve.bandwidth.value, 250e6);
  EXPECT_DOUBLE_EQ(link.core_demand, 0.5);  // compute has the other half: twice as long
  EXPECT_EQ(link.core_wait, 0);
}

TEST(FitLink, ALinkWithoutACurveIsAnError) {
  try {
    FitLink(Read({kSteps}), ParseExperiment("wire", "net"), "net", 1);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("link wire: found no all_reduce"));
  }
}

}  // namespace
}  // namespace stepsim
