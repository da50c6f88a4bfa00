// stepsim cost from the outside: nccl-tests' columns for collectives, rates for kernels.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cli/cli_fixture.h"

namespace stepsim {
namespace {

using testing::Answer;
using testing::Ask;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::ReadAll;
using ::testing::StartsWith;
using Cost = testing::Cli;
using Json = nlohmann::json;

// Two GPUs and round numbers: no latency, 100 GB/s.
const char kTwoGpus[] =
    "{base: ideal, gpus_per_node: 2, intra_node: {bandwidth: 100 GB/s, latency: 0 us}}";

Answer AskCost(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "cost");
  return Ask(arguments);
}

Json RowsOf(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"-q", "--export", "-"});
  const Answer answer = AskCost(arguments);
  EXPECT_EQ(answer.status, kExitSuccess) << answer.err;
  const Json result = Json::parse(answer.out, nullptr, false);
  EXPECT_EQ(result["schema"], "stepsim.cost/1");
  return result["rows"];
}

std::string ErrorOf(const std::vector<std::string>& arguments) {
  const Answer answer = AskCost(arguments);
  EXPECT_EQ(answer.status, kExitInput);
  EXPECT_EQ(answer.out, "");
  return answer.err;
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// ---- Collectives ----

TEST_F(Cost, AnswersAsTheReadmeAsks) {
  const Answer answer = AskCost({"all_reduce", "--hardware", "dgx-h100", "--nodes", "2"});
  EXPECT_EQ(answer.status, kExitSuccess) << answer.err;
  EXPECT_EQ(answer.err, "");
  EXPECT_THAT(answer.out, HasSubstr("h100-sxm-dgx"));
  EXPECT_THAT(answer.out, HasSubstr("16 = 2 nodes x 8 GPUs"));
  EXPECT_THAT(answer.out, HasSubstr("# model "));
  EXPECT_THAT(answer.out, HasSubstr("# error "));
}

// nccl-tests prints "size count type ... time algbw busbw" and the mean bus bandwidth.
TEST_F(Cost, PrintsTheColumnsOfNcclTests) {
  const Answer answer = AskCost({"all_reduce", "--hardware", "dgx-h100", "--bytes", "1MiB:4MiB"});
  const std::vector<std::string> lines = Lines(answer.out);
  std::vector<std::string> titles;
  std::size_t rows = 0;
  for (const std::string& line : lines) {
    if (line.find("algbw") == std::string::npos) rows += line[0] == ' ' ? 1 : 0;
    if (line.find("algbw") == std::string::npos) continue;
    std::istringstream words(line);
    for (std::string word; words >> word;) titles.push_back(word);
  }
  EXPECT_THAT(titles, ElementsAre("#", "size", "count", "type", "time", "algbw", "busbw",
                                  "algorithm", "protocol", "channels", "SMs", "error"));
  EXPECT_EQ(rows, 3u);
  EXPECT_THAT(lines.back(), StartsWith("# Avg bus bandwidth : "));
}

// The definitions of nccl-tests (doc/PERFORMANCE.md): algbw = size / time, busbw = algbw x factor.
TEST_F(Cost, BandwidthsFollowNcclTestsDefinitions) {
  constexpr double n = 16;
  const std::map<std::string, double> factors = {{"all_reduce", 2 * (n - 1) / n},
                                                 {"all_gather", (n - 1) / n},
                                                 {"reduce_scatter", (n - 1) / n},
                                                 {"all_to_all", (n - 1) / n},
                                                 {"broadcast", 1},
                                                 {"reduce", 1},
                                                 {"send_recv", 1}};
  for (const auto& [op, factor] : factors) {
    for (const Json& row : RowsOf({op, "--hardware", "dgx-h100", "--nodes", "2"})) {
      const double algbw = row["algbw_gbps"], bytes = row["size_bytes"], us = row["time_us"];
      EXPECT_NEAR(algbw, bytes / us / 1e3, 1e-9 * algbw) << op;
      EXPECT_NEAR(row["busbw_gbps"], algbw * factor, 1e-9 * algbw) << op;
      EXPECT_EQ(row["ranks"], 16) << op;
      EXPECT_EQ(row["collective"], op);
    }
  }
}

// 1 KiB to 8 GiB, each twice the one before: 2^10 to 2^33.
TEST_F(Cost, DefaultSizes) {
  const Json rows = RowsOf({"all_reduce", "--hardware", "dgx-h100"});
  ASSERT_EQ(rows.size(), 24u);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i]["size_bytes"], std::int64_t{1024} << i);
    EXPECT_EQ(rows[i]["count"], std::int64_t{256} << i);  // floats
    EXPECT_EQ(rows[i]["dtype"], "fp32");
  }
}

// nccl-tests rounds a buffer that is shared out among the ranks to 16 bytes per part; its count is
// that of a part.
TEST_F(Cost, CountsElementsAsNcclTestsDoes) {
  const Json gather = RowsOf({"all_gather", "--hardware", "dgx-h100", "--gpus-per-node", "3",
                              "--bytes", "1000 B,100 B", "--dtype", "half"});
  ASSERT_EQ(gather.size(), 2u);
  EXPECT_EQ(gather[0]["size_bytes"], 960);  // 3 x 320: 333 rounded down to 16
  EXPECT_EQ(gather[0]["count"], 160);
  EXPECT_EQ(gather[0]["dtype"], "fp16");
  EXPECT_EQ(gather[1]["size_bytes"], 96);
  const Json reduce = RowsOf({"all_reduce", "--hardware", "dgx-h100", "--bytes", "1003 B"});
  EXPECT_EQ(reduce[0]["size_bytes"], 1000);
  EXPECT_EQ(reduce[0]["count"], 250);
  EXPECT_THAT(
      ErrorOf({"all_gather", "--hardware", "dgx-h100", "--bytes", "100 B"}),
      HasSubstr("found no size that gives each of 8 ranks 16 bytes, allowed: at least 128"));
}

TEST_F(Cost, AcceptsTheSpellingsOfNcclTests) {
  const auto answer = [](const std::string& op) {
    return AskCost({op, "--hardware", "dgx-h100", "--bytes", "1MiB"}).out;
  };
  const std::string expected = answer("all_reduce");
  EXPECT_THAT(expected, HasSubstr("nccl-tests' all_reduce_perf"));
  for (const char* name : {"allreduce", "all_reduce_perf", "AllReduce", "all-reduce"}) {
    EXPECT_EQ(answer(name), expected) << name;
  }
  EXPECT_THAT(answer("reduce_scatter_perf"), HasSubstr("reduce_scatter"));
  EXPECT_THAT(ErrorOf({"all_redcue", "--hardware", "dgx-h100"}),
              HasSubstr("did you mean 'all_reduce'?"));
}

// 2 (n-1)/n S / B = S / B for two ranks: 1 GB over 100 GB/s is 10 ms.
TEST_F(Cost, TheTextbookModelIsArithmetic) {
  const Json rows =
      RowsOf({"all_reduce", "--hardware", kTwoGpus, "--model", "alpha_beta", "--bytes", "1GB,2GB"});
  EXPECT_NEAR(rows[0]["time_us"], 10'000, 1e-6);
  EXPECT_NEAR(rows[0]["busbw_gbps"], 100, 1e-9);
  EXPECT_NEAR(rows[1]["time_us"], 20'000, 1e-6);
  EXPECT_THAT(ErrorOf({"all_to_all", "--hardware", kTwoGpus, "--model", "alpha_beta"}),
              HasSubstr("allowed: --model nccl"));
}

// A point measured on the system: the prediction passes through it, and the table says so.
TEST_F(Cost, PassesThroughMeasuredPoints) {
  const std::vector<std::string> question = {
      "all_reduce",
      "--hardware",
      "dgx-h100",
      "--bytes",
      "1MiB,64MiB",
      "--set",
      "hardware.calibration=[{collective: all_reduce, ranks: 8, size: 64 MiB, time: 444 us}]"};
  EXPECT_NEAR(RowsOf(question)[1]["time_us"], 444, 0.5);
  EXPECT_THAT(AskCost(question).out, HasSubstr("through 1 measured point of this group"));
}

// Nobody to talk to: no time, no bandwidth.
TEST_F(Cost, OneRankTakesNoTime) {
  const Json row = RowsOf(
      {"all_reduce", "--hardware", "dgx-h100", "--gpus-per-node", "1", "--bytes", "1MiB"})[0];
  EXPECT_EQ(row["time_us"], 0);
  EXPECT_EQ(row["busbw_gbps"], 0);
}

// NCCL's knobs are those of `collectives:`; their mistakes come with the option that made them.
TEST_F(Cost, OptionsPinTheAlgorithm) {
  const std::vector<std::string> question = {"all_reduce", "--hardware", "dgx-h100", "--bytes",
                                             "1MiB:1GiB:x8"};
  const auto with = [&](std::vector<std::string> extra) {
    extra.insert(extra.begin(), question.begin(), question.end());
    return extra;
  };
  for (const Json& row : RowsOf(with({"--algo", "ring", "--proto", "simple"}))) {
    EXPECT_EQ(row["algorithm"], "ring");
    EXPECT_EQ(row["protocol"], "simple");
  }
  for (const Json& row : RowsOf(with({"--no-nvls"}))) EXPECT_NE(row["algorithm"], "nvls");
  for (const Json& row : RowsOf(with({"--max-ctas", "4"}))) EXPECT_LE(row["channels"], 4);
  const std::string error = ErrorOf(with({"--algo", "rnig", "--nccl", "two"}));
  EXPECT_THAT(error, HasSubstr("--algo rnig: collectives.algorithm: found 'rnig'"));
  EXPECT_THAT(error, HasSubstr("did you mean 'ring'?"));
  EXPECT_THAT(error, HasSubstr("--nccl two: collectives.nccl_version: found 'two'"));
}

TEST_F(Cost, SetReachesHardwareAndCollectives) {
  const auto time = [](const std::string& set) {
    return RowsOf({"all_reduce", "--hardware", kTwoGpus, "--bytes", "1GB", "--set", set, "--set",
                   "collectives.model=alpha_beta"})[0]["time_us"]
        .get<double>();
  };
  EXPECT_NEAR(time("hardware.intra_node.bandwidth=200 GB/s"), 5'000, 1e-6);
}

// NCCL takes what its own table says is fastest (collectives.md 1.1; tuning.cc).
TEST_F(Cost, AllListsTheChoiceAndItIsNcclsFastest) {
  for (const char* op : {"all_reduce", "all_gather"}) {
    const std::vector<std::string> question = {op, "--hardware", "dgx-h100", "--nodes", "2"};
    std::vector<std::string> all = question;
    all.emplace_back("--all");
    std::map<std::int64_t, double> fastest;
    std::map<std::int64_t, Json> choice;
    const Json rows = RowsOf(all);
    for (const Json& row : rows) {
      const std::int64_t bytes = row["size_bytes"];
      const double time = row["nccl_time_us"];
      fastest[bytes] = fastest.count(bytes) == 0 ? time : std::min(fastest[bytes], time);
      if (!row["is_choice"].get<bool>()) continue;
      EXPECT_EQ(choice.count(bytes), 0u) << op << ": two choices for " << bytes;
      choice[bytes] = row;
    }
    const Json chosen = RowsOf(question);
    ASSERT_EQ(choice.size(), chosen.size());
    for (const Json& row : chosen) {
      EXPECT_EQ(row, choice[row["size_bytes"]]);
      EXPECT_EQ(row["nccl_time_us"], fastest[row["size_bytes"]]);
    }
  }
}

TEST_F(Cost, AllMarksTheChoice) {
  const Answer answer =
      AskCost({"all_reduce", "--hardware", "dgx-h100", "--bytes", "1MiB,2MiB", "--all"});
  std::size_t marked = 0;
  for (const std::string& line : Lines(answer.out)) marked += line.find("  > ") == 0 ? 1 : 0;
  EXPECT_EQ(marked, 2u) << answer.out;
  EXPECT_THAT(answer.out, HasSubstr("# > marks what NCCL chooses"));
}

// ---- Export ----

TEST_F(Cost, CsvHoldsTheNumbersOfTheJson) {
  const std::vector<std::string> question = {"all_reduce", "--hardware", "dgx-h100",   "--nodes",
                                             "2",          "--export",   Path("x.csv")};
  EXPECT_EQ(AskCost(question).status, kExitSuccess);
  const Json rows = RowsOf({"all_reduce", "--hardware", "dgx-h100", "--nodes", "2"});
  const std::vector<std::string> lines = Lines(ReadAll(Path("x.csv")));
  ASSERT_EQ(lines.size(), rows.size() + 1);
  std::vector<std::string> keys;
  std::istringstream header(lines[0]);
  for (std::string key; std::getline(header, key, ',');) keys.push_back(key);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::istringstream cells(lines[i + 1]);
    std::size_t column = 0;
    for (std::string cell; std::getline(cells, cell, ','); ++column) {
      const Json& value = rows[i].at(keys.at(column));
      // A number as text gives the same double again.
      EXPECT_EQ(value.is_string() ? Json(cell) : Json::parse(cell), value) << keys[column];
    }
    EXPECT_EQ(column, keys.size());
  }
}

TEST_F(Cost, ExportsFilesWholeOrNotAtAll) {
  const std::vector<std::string> question = {"gemm", "--m", "64",         "--n",     "64",
                                             "--k",  "64",  "--hardware", "dgx-h100"};
  std::vector<std::string> both = question;
  both.insert(both.end(), {"--export", Path("x.csv"), "--export", Path("x.json")});
  const Answer answer = AskCost(both);
  EXPECT_EQ(answer.status, kExitSuccess) << answer.err;
  EXPECT_THAT(answer.out, HasSubstr("wrote " + Path("x.csv")));
  EXPECT_THAT(Files(), ElementsAre("x.csv", "x.json"));
  std::vector<std::string> bad = question;
  bad.insert(bad.end(), {"--export", Path("y.csv"), "--export", Path("y.txt")});
  EXPECT_THAT(ErrorOf(bad), HasSubstr("allowed: .csv, .json"));
  EXPECT_THAT(Files(), ElementsAre("x.csv", "x.json"));
  std::vector<std::string> unwritable = question;
  unwritable.insert(unwritable.end(), {"-q", "--export", Path("x.csv/z.csv")});
  EXPECT_EQ(AskCost(unwritable).status, kExitInternal);
}

// Standard output belongs to the export; the table moves to standard error.
TEST_F(Cost, ExportsToStandardOutput) {
  const Answer answer = AskCost({"all_reduce", "--hardware", "dgx-h100", "--export", "-.csv"});
  EXPECT_THAT(answer.out, StartsWith("collective,hardware,nodes,ranks,size_bytes,"));
  EXPECT_THAT(answer.err, StartsWith("# stepsim cost all_reduce"));
}

// ---- Kernels ----

// 2 m n k FLOPs; rates are what the time makes of them.
TEST_F(Cost, GemmCountsFlopsAndRates) {
  const Json rows = RowsOf({"gemm", "--m", "1024:4096:x2", "--n", "512,4096", "--k", "2048",
                            "--hardware", "dgx-h100", "--dtype", "bf16"});
  ASSERT_EQ(rows.size(), 6u);
  for (const Json& row : rows) {
    const double m = row["m"], n = row["n"], k = row["k"], us = row["time_us"];
    EXPECT_EQ(row["flops"], 2 * m * n * k);
    EXPECT_NEAR(row["tflops"], 2 * m * n * k / us / 1e6, 1e-9 * row["tflops"].get<double>());
    EXPECT_NEAR(row["fraction_of_peak"], row["tflops"].get<double>() / 989, 1e-12);
    EXPECT_LE(row["fraction_of_peak"], 1);
  }
  EXPECT_EQ(rows[1]["m"], 1024);  // the last option varies fastest
  EXPECT_EQ(rows[1]["n"], 4096);
}

TEST_F(Cost, ABatchOfGemmsIsThatManyTimesTheWork) {
  const std::vector<std::string> one = {"gemm", "--m", "512",        "--n",     "512",
                                        "--k",  "512", "--hardware", "dgx-h100"};
  std::vector<std::string> many = one;
  many.insert(many.end(), {"--batch", "16"});
  const Json single = RowsOf(one)[0], batch = RowsOf(many)[0];
  EXPECT_EQ(batch["flops"], 16 * single["flops"].get<double>());
  EXPECT_EQ(batch["hbm_bytes"], 16 * single["hbm_bytes"].get<std::int64_t>());
}

// Full attention: 4 b h d s^2 FLOPs forward; causal (s+1)/2s of that; backward five products
// against two.
TEST_F(Cost, AttentionCountsItsPairs) {
  const std::vector<std::string> question = {
      "attention",  "--batch", "2",          "--seq", "128",        "--heads", "4",
      "--kv-heads", "2",       "--head-dim", "64",    "--hardware", "dgx-h100"};
  const auto flops = [&](std::vector<std::string> extra) {
    std::vector<std::string> arguments = question;
    arguments.insert(arguments.end(), extra.begin(), extra.end());
    return RowsOf(arguments)[0]["flops"].get<double>();
  };
  const double full = 4.0 * 2 * 4 * 64 * 128 * 128;
  EXPECT_EQ(flops({}), full);
  EXPECT_EQ(flops({"--causal"}), full * 129 / 256);
  EXPECT_EQ(flops({"--causal", "--backward"}), 2.5 * full * 129 / 256);
  EXPECT_THAT(ErrorOf({"attention", "--seq", "8", "--heads", "6", "--kv-heads", "4", "--hardware",
                       "dgx-h100"}),
              HasSubstr("heads (6) must be a multiple of kv_heads (4)"));
}

// A third of the SMs can do no more than a third of the work where compute is the bound.
TEST_F(Cost, KernelsOnSomeOfTheSms) {
  const Json rows = RowsOf({"gemm", "--m", "8192", "--n", "8192", "--k", "8192", "--sms",
                            "132,108,44", "--hardware", "dgx-h100"});
  ASSERT_EQ(rows.size(), 3u);
  const double all = rows[0]["time_us"], most = rows[1]["time_us"], third = rows[2]["time_us"];
  EXPECT_EQ(rows[1]["sms"], 108);
  EXPECT_GT(most, all);
  EXPECT_GT(third, 2.9 * all);
  EXPECT_THAT(ErrorOf({"gemm", "--m", "8", "--n", "8", "--k", "8", "--sms", "133", "--hardware",
                       "dgx-h100"}),
              HasSubstr("--sms 133: found '133', allowed: a whole number from 1 to 132"));
}

TEST_F(Cost, MemoryKernelsStayBelowTheMemorysBandwidth) {
  const Json rows = RowsOf({"memory", "--bytes", "1MiB:16GiB:x2", "--hardware", "dgx-h100"});
  double last = 0;
  for (const Json& row : rows) {
    EXPECT_EQ(row["hbm_bytes"], row["bytes"]);
    EXPECT_EQ(row["flops"], 0);
    EXPECT_LE(row["fraction_of_hbm"], 1);
    EXPECT_GE(row["hbm_gbps"], last);  // a fixed cost weighs less and less
    last = row["hbm_gbps"];
  }
}

TEST_F(Cost, KernelsNameWhatIsMissingOrImpossible) {
  const std::string error = ErrorOf({"gemm", "--m", "0", "--hardware", "nonsense"});
  EXPECT_THAT(error, HasSubstr("--m 0: found '0'"));
  EXPECT_THAT(error, HasSubstr("--n: missing"));
  EXPECT_THAT(error, HasSubstr("--k: missing"));
  EXPECT_THAT(error, HasSubstr("found 'nonsense'"));
  EXPECT_THAT(ErrorOf({"gemm", "--m", "8", "--n", "8", "--k", "8", "--hardware", "v100-dgx1",
                       "--dtype", "fp8"}),
              HasSubstr("no peak, allowed: fp32"));
  EXPECT_THAT(ErrorOf({"gemm", "--m", "1:1000:+1", "--n", "1:1000:+1", "--k", "8", "--hardware",
                       "dgx-h100"}),
              HasSubstr("more than 10000 combinations"));
  EXPECT_THAT(ErrorOf({"gemm", "--m", "1e9", "--n", "1e9", "--k", "1e9", "--hardware", "dgx-h100"}),
              HasSubstr("elements, allowed: at most"));
}

// ---- Mistakes ----

TEST_F(Cost, RefusesOptionsOfAnotherOperation) {
  const std::string error =
      ErrorOf({"gemm", "--nodes", "2", "--causal", "--m", "8", "--n", "8", "--k", "8"});
  EXPECT_THAT(error, HasSubstr("--nodes 2: has no effect with gemm"));
  EXPECT_THAT(error, HasSubstr("--causal: has no effect with gemm"));
  EXPECT_THAT(error, HasSubstr("--hardware: missing"));
}

TEST_F(Cost, ReportsEveryMistakeAtOnce) {
  const std::string error = ErrorOf({"all_reduce", "--hardware", "dgx-h100", "--bytes", "8:128",
                                     "--dtype", "bf17", "--nodes", "0", "--set", "plan.x=1"});
  EXPECT_THAT(error, HasSubstr("--bytes 8:128: "));
  EXPECT_THAT(error, HasSubstr("--dtype bf17: found 'bf17', allowed: fp32"));
  EXPECT_THAT(error, HasSubstr("--nodes 0: nodes: found '0'"));
  EXPECT_THAT(error, HasSubstr("--set plan.x=1: found the unknown key 'plan'"));
}

TEST_F(Cost, UnknownOptionsHaveAHint) {
  EXPECT_THAT(ErrorOf({"all_reduce", "--hardwear", "dgx-h100"}),
              HasSubstr("did you mean '--hardware'?"));
}

TEST_F(Cost, IsReproducible) {
  const std::vector<std::string> question = {"all_gather", "--hardware", "dgx-h100", "--all"};
  EXPECT_EQ(AskCost(question).out, AskCost(question).out);
}

}  // namespace
}  // namespace stepsim
