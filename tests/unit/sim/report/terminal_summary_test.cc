#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "sim/report/writer.h"
#include "tests/support/report_fixture.h"

namespace stepsim {
namespace {

using testing::HandMadeCollective;
using testing::HandMadeReport;
using ::testing::HasSubstr;
using testing::Milliseconds;
using ::testing::Not;

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

void ExpectFits(const std::string& summary, std::size_t width = 110, std::size_t lines = 22) {
  EXPECT_LE(Lines(summary).size(), lines) << summary;
  for (const std::string& line : Lines(summary)) {
    EXPECT_LE(line.size(), width) << line;
    EXPECT_TRUE(line.empty() || line.back() != ' ') << line;
  }
}

// The numbers follow from the fixture by hand: 680 / 800 = 85%, 131072 tokens / 0.8 s / 16 GPUs =
// 10,240, 1.59744e15 FLOP / 0.8 s / 16 = 125e12, 58.7e9 / 2^30 = 54.7 GiB, 1 - 100 / 240 = 58.3%
// hidden, and without bucket 5 the step would lose 88 / 800 = 11%.
TEST(TerminalSummary, ShowsTheWholeStepInOneGlance) {
  EXPECT_EQ(TerminalSummary(HandMadeReport(), /*use_colour=*/false),
            R"(llama-3.2-3b with DDP on 16 x A100-80GB  (rank 0 stands for 16 identical ranks)
step 800 ms   MFU 40.0% (palm, peak 312 TFLOP/s dense bf16)   10,240 tokens/s/GPU   125 TFLOP/s/GPU
  compute     680 ms  85.0%  contention 12.0 ms   1.5%  exposed    96.0 ms  12.0%  peer wait  4.00 ms   0.5%
  bubble         0 s         host       8.00 ms   1.0%  idle           0 s
exposed at   gradient_reduce 92.0 ms (11.5%), optimizer 4.00 ms (0.5%)
hidden       58.3% of 240 ms communication
memory       54.7 GiB of 80.0 GiB at layers.0.qkv.wgrad; optimizer states 23.9 GiB, activations 18.7 GiB,
             parameters 12.0 GiB
  exposed       size  if removed  collective: cause
  88.0 ms    1.58 GB      -11.0%  all_reduce bucket 5: ready last, nothing left to hide behind
  4.00 ms        8 B       -0.5%  all_reduce norm: latency
  3.00 ms     100 MB       -0.4%  all_reduce bucket 3: queued
confidence   links from preset (not calibrated): +-25%
)");
  ExpectFits(TerminalSummary(HandMadeReport(), false));
}

// The same in a narrower window: nothing is cut, lines break earlier.
TEST(TerminalSummary, BreaksForANarrowTerminal) {
  EXPECT_EQ(TerminalSummary(HandMadeReport(), false, 80),
            R"(llama-3.2-3b with DDP on 16 x A100-80GB  (rank 0 stands for 16 identical ranks)
step 800 ms   MFU 40.0% (palm, peak 312 TFLOP/s dense bf16)
10,240 tokens/s/GPU   125 TFLOP/s/GPU
  compute     680 ms  85.0%  contention 12.0 ms   1.5%
  exposed    96.0 ms  12.0%  peer wait  4.00 ms   0.5%
  bubble         0 s         host       8.00 ms   1.0%
  idle           0 s
exposed at   gradient_reduce 92.0 ms (11.5%), optimizer 4.00 ms (0.5%)
hidden       58.3% of 240 ms communication
memory       54.7 GiB of 80.0 GiB at layers.0.qkv.wgrad; optimizer states
             23.9 GiB, activations 18.7 GiB, parameters 12.0 GiB
  exposed       size  if removed  collective: cause
  88.0 ms    1.58 GB      -11.0%  all_reduce bucket 5: ready last, nothing left
                                  to hide behind
  4.00 ms        8 B       -0.5%  all_reduce norm: latency
  3.00 ms     100 MB       -0.4%  all_reduce bucket 3: queued
confidence   links from preset (not calibrated): +-25%
)");
  EXPECT_EQ(TerminalSummary(HandMadeReport(), false, 200),
            TerminalSummary(HandMadeReport(), false));
  EXPECT_THAT(TerminalSummary(HandMadeReport(), false, 1),
              HasSubstr("A100-80GB\n  (rank 0 stands for 16 identical ranks)\nstep 800 ms"));
  ExpectFits(TerminalSummary(HandMadeReport(), false, 1), 72);
}

TEST(TerminalSummary, ColourOnlyWhenAskedFor) {
  EXPECT_THAT(TerminalSummary(HandMadeReport(), false), Not(HasSubstr("\033")));
  std::string coloured = TerminalSummary(HandMadeReport(), true);
  EXPECT_THAT(coloured, HasSubstr("\033[1mstep 800 ms\033[0m"));
  for (const std::string code : {"\033[1;33m", "\033[1m", "\033[0m"}) {
    for (std::size_t at; (at = coloured.find(code)) != std::string::npos;) {
      coloured.erase(at, code.size());
    }
  }
  EXPECT_EQ(coloured, TerminalSummary(HandMadeReport(), false));
}

TEST(TerminalSummary, WithoutCommunication) {
  StepReport report = HandMadeReport();
  RankAccount account;
  account.step = account.compute = Milliseconds(800);
  report.ranks = {account};
  report.collectives.clear();
  const std::string summary = TerminalSummary(report, false);
  EXPECT_THAT(summary, HasSubstr("exposed      nothing: this step has no communication\n"));
  EXPECT_THAT(summary, HasSubstr("compute     800 ms 100.0%"));
  EXPECT_THAT(summary, Not(HasSubstr("collective:")));
  EXPECT_THAT(summary, Not(HasSubstr("hidden")));
  ExpectFits(summary);
}

TEST(TerminalSummary, FullyHiddenCommunication) {
  StepReport report = HandMadeReport();
  RankAccount account;
  account.step = account.compute = Milliseconds(800);
  account.communication = Milliseconds(240);
  report.ranks = {account};
  for (CollectiveReport& collective : report.collectives) collective.exposed = Duration::zero();
  const std::string summary = TerminalSummary(report, false);
  EXPECT_THAT(summary, HasSubstr("exposed      nothing\n"
                                 "hidden       100.0% of 240 ms communication\n"));
  EXPECT_THAT(summary, Not(HasSubstr("if removed")));
}

TEST(TerminalSummary, SaysLoudlyWhenTheJobDoesNotFit) {
  StepReport report = HandMadeReport();
  report.memory.total = {97'000'000'000};  // 97.0e9 / 2^30 = 90.3, 10.3 GiB above the 80
  report.context.warnings = {MemoryWarning(report), "something else"};
  const std::string summary = TerminalSummary(report, false);
  EXPECT_THAT(summary,
              HasSubstr("memory       90.3 GiB of 80.0 GiB: DOES NOT FIT, 10.3 GiB too much at "
                        "layers.0.qkv.wgrad; "));
  // Said once: the warning is for the files.
  EXPECT_THAT(summary, HasSubstr("\nwarning      something else\n"));
  EXPECT_THAT(summary, Not(HasSubstr("does not fit")));
  report.memory.total = report.context.gpu_memory;
  EXPECT_THAT(TerminalSummary(report, false), Not(HasSubstr("DOES NOT FIT")));
}

TEST(TerminalSummary, TheReducingMicrostepOfSeveral) {
  StepReport report = HandMadeReport();
  EXPECT_THAT(TerminalSummary(report, false), Not(HasSubstr("micro-step")));
  RankAccount reducing;
  reducing.step = Milliseconds(300);
  reducing.compute = Milliseconds(204);
  reducing.exposed[0] = Milliseconds(96);
  report.microsteps = {{0, false, {}}, {1, true, reducing}};
  EXPECT_THAT(TerminalSummary(report, false),
              HasSubstr("micro-step   2 of 2 reduces: 300 ms, compute 204 ms, exposed 96.0 ms "
                        "(32.0% of it)\n"));
  report.microsteps[0].is_reducing = true;
  EXPECT_THAT(TerminalSummary(report, false),
              HasSubstr("micro-step   2 of 2 reduces, as do 1 before it: 300 ms"));
}

// Without no_sync every micro-step sends the same buckets: the table says which one it means.
TEST(TerminalSummary, CollectivesOfSeveralReducingMicrosteps) {
  StepReport report = HandMadeReport();
  report.microsteps = {{0, true, testing::HandMadeAccount()},
                       {1, true, testing::HandMadeAccount()}};
  report.collectives[2].microstep = 1;
  EXPECT_THAT(TerminalSummary(report, false),
              HasSubstr("all_reduce bucket 5, micro-step 2: ready"));
}

TEST(TerminalSummary, NoGainIsWrittenWithoutASign) {
  StepReport report = HandMadeReport();
  report.collectives = {HandMadeCollective("tiny", {4}, Duration{1}, "")};  // 1 ps of 800 ms
  EXPECT_THAT(TerminalSummary(report, false),
              HasSubstr("\n  1.00 ps        4 B        0.0%  tiny\n"));
}

TEST(TerminalSummary, ImagesPerSecondWhereThereAreNoTokens) {
  StepReport report = HandMadeReport();
  report.context.tokens_per_step = 0;
  EXPECT_THAT(TerminalSummary(report, false), HasSubstr("   40 samples/s   "));  // 32 / 0.8 s
}

TEST(TerminalSummary, LeavesOutWhatIsUnknown) {
  StepReport report;
  report.ranks = {RankAccount{}};
  report.context.job = "a step of zero length";
  const std::string summary = TerminalSummary(report, false);
  EXPECT_EQ(summary,
            "a step of zero length\n"
            "step 0 s\n"
            "  compute        0 s         contention     0 s         exposed        0 s         "
            "peer wait      0 s\n"
            "  bubble         0 s         host           0 s         idle           0 s\n"
            "exposed      nothing: this step has no communication\n");
}

TEST(TerminalSummary, SeveralRanks) {
  StepReport report = HandMadeReport();
  report.ranks = {testing::HandMadeAccount(), testing::HandMadeAccount()};
  report.ranks[0].compute -= Milliseconds(1);
  report.ranks[0].peer_wait += Milliseconds(1);
  report.rank_infos = {{.global_rank = 0, .stands_for = 8}, {.global_rank = 8, .stands_for = 8}};
  report.reported_rank = 1;
  EXPECT_THAT(TerminalSummary(report, false),
              HasSubstr("(rank 8, the slowest of 2 simulated, stands for 8 identical ranks)\n"));
  report.ranks[0] = report.ranks[1];  // none is slower than another
  report.rank_infos[0].stands_for = 1;
  report.reported_rank = 0;
  EXPECT_THAT(TerminalSummary(report, false), HasSubstr("(rank 0 of 2 simulated, all alike)\n"));
}

TEST(TerminalSummary, StagesOfAPipeline) {
  StepReport report = testing::HandMadePipeline();
  EXPECT_THAT(TerminalSummary(report, false),
              HasSubstr("  stage       compute        exposed         bubble      peer wait  in "
                        "flight    memory\n"
                        "  pp 0   672 ms 84.0%  96.0 ms 12.0%  8.00 ms  1.0%  4.00 ms  0.5%        "
                        "  2  54.7 GiB\n"
                        "  pp 1   680 ms 85.0%  96.0 ms 12.0%      0 s  0.0%  4.00 ms  0.5%        "
                        "  1  54.7 GiB\n"
                        "  closed form (equal stages): bubble 20.0% = (p-1)(tF+tB)\n"));
  for (RankAccount& rank : report.ranks) rank.peer_wait = Duration::zero();
  report.in_flight.clear();
  EXPECT_THAT(TerminalSummary(report, false),
              HasSubstr("  stage       compute        exposed         bubble    memory\n"));
  report.ranks[0] = report.ranks[1];
  EXPECT_THAT(TerminalSummary(report, false), Not(HasSubstr("stage  ")));
}

TEST(TerminalSummary, ManyStagesAreTheExtremes) {
  StepReport report = testing::HandMadePipeline();
  for (std::int32_t p = 2; p < 20; ++p) {
    report.ranks.push_back(report.ranks[1]);
    report.rank_infos.push_back({8 * p, 8, "pp " + std::to_string(p)});
  }
  const std::string text = TerminalSummary(report, false);
  EXPECT_THAT(text, HasSubstr("\n  pp 0 "));
  EXPECT_THAT(text, HasSubstr("\n  pp 19 "));
  EXPECT_THAT(text, Not(HasSubstr("\n  pp 7 ")));
  EXPECT_THAT(text, HasSubstr(" of 20 ranks: first, last and the extremes\n"));
}

TEST(TerminalSummary, AWaitForANeighbourDoesNotHeadTheList) {
  StepReport report = HandMadeReport();
  report.collectives = {
      HandMadeCollective("recv forward", {1000}, Milliseconds(90), "bubble"),
      HandMadeCollective("all_reduce norm", {8}, Milliseconds(4), "latency"),
  };
  report.collectives[0].exposed_wait = Milliseconds(89);
  const std::string text = TerminalSummary(report, false);
  EXPECT_LT(text.find("all_reduce norm"), text.find("recv forward"));
}

TEST(TerminalSummary, LongNamesAndCausesBreakIntoTheNextLine) {
  StepReport report = HandMadeReport();
  report.collectives = {HandMadeCollective(
      "all_reduce bucket 13/13 (transformer.wte.weight)", {158'000'000}, Milliseconds(88),
      "queued 73.1 ms behind 'all_reduce bucket 12/13 (transformer.h.0.attn.weight)'")};
  EXPECT_THAT(
      TerminalSummary(report, false),
      HasSubstr(
          "  88.0 ms     158 MB      -11.0%  all_reduce bucket 13/13 (transformer.wte.weight): "
          "queued 73.1 ms behind\n"
          "                                  'all_reduce bucket 12/13 "
          "(transformer.h.0.attn.weight)'\n"));
}

TEST(TerminalSummary, WarningsAreListedAndCounted) {
  StepReport report = HandMadeReport();
  report.context.warnings = {"first", "second"};
  EXPECT_THAT(TerminalSummary(report, false),
              HasSubstr("\nwarning      first\nwarning      second\nconfidence "));
  report.context.warnings.push_back("third");
  EXPECT_THAT(TerminalSummary(report, false),
              HasSubstr("\nwarning 1/3  first\nwarning 2/3  second\nconfidence "));
}

// Everything that can be long is long, and the names hold what a terminal must not be sent.
TEST(TerminalSummary, FitsWhateverItIsGiven) {
  StepReport report = HandMadeReport();
  const std::string sentence =
      "the micro-batch of this job is so small that kernels are shorter than their launches and "
      "the prediction leaves the range in which it was compared with measurements";
  report.context.job = std::string(300, 'j') + "\033[31m";
  report.context.mfu_convention = "torchtitan";
  report.context.model_flops = {{"torchtitan", {3.9e15}}};
  report.context.tokens_per_step = 1e9;
  report.context.warnings.assign(7, sentence + ", " + sentence);
  report.context.warnings[0] = std::string(500, 'w');
  report.context.confidence = sentence;
  for (Duration& exposed : report.ranks[0].exposed) exposed = Milliseconds(99);
  report.microsteps = {{0, false, {}}, {1, true, testing::HandMadeAccount()}};
  for (CollectiveReport& collective : report.collectives) {
    collective = HandMadeCollective(std::string(60, 'n') + "\n\xc3\xbc", {999'000'000'000},
                                    Milliseconds(100), sentence);
  }
  ExpectFits(TerminalSummary(report, false, 80), 80, 35);
  const std::string summary = TerminalSummary(report, false);
  ExpectFits(summary);
  EXPECT_THAT(summary, HasSubstr("\nwarning 1/7  wwww"));
  EXPECT_THAT(summary, Not(HasSubstr("\033")));
}

}  // namespace
}  // namespace stepsim
