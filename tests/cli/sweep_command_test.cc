// stepsim sweep and merge, in process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/cli/cli_fixture.h"

namespace stepsim::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class SweepCommand : public Cli {
 protected:
  void SetUp() override {
    Cli::SetUp();
    // The test itself may run under a scheduler.
    for (const char* name : {"SLURM_ARRAY_TASK_ID", "SLURM_PROCID"}) unsetenv(name);
  }
};

const std::vector<std::string> kSweep = {
    "sweep",
    "lesson_bucketed",
    "--set",
    "nodes=2",
    "--vary",
    "plan.ddp.bucket_cap_mb=1,5,25:100:x2",
    "--vary",
    "hardware.network.link.bandwidth=100Gb/s:400Gb/s:x2",
    "--vary",
    "plan.tensor_parallel=1,512,4096",  // the last two are errors: too few GPUs
    "--where",
    "step_time > 0 s"};

Answer Sweep(std::vector<std::string> more, std::vector<std::string> sweep = kSweep) {
  sweep.insert(sweep.end(), more.begin(), more.end());
  return Ask(sweep);
}

TEST_F(SweepCommand, ShowsBestPointsAndPlot) {
  const Answer answer = Sweep({});
  EXPECT_EQ(answer.status, 0) << answer.err;
  EXPECT_THAT(answer.out, HasSubstr("45 points"));
  EXPECT_THAT(answer.out, HasSubstr("step_time_s over plan.ddp.bucket_cap_mb"));
  EXPECT_THAT(answer.out, HasSubstr("best of all: "));
}

TEST_F(SweepCommand, IsTheSameForAnyNumberOfThreadsAndShards) {
  std::vector<std::string> texts;
  for (const char* jobs : {"1", "2", "5"}) {
    const std::string path = Path(std::string("jobs") + jobs + ".jsonl");
    ASSERT_EQ(Sweep({"--jobs", jobs, "--output", path, "-q"}).status, 0);
    texts.push_back(ReadAll(path));
  }
  EXPECT_EQ(texts[0], texts[1]);
  EXPECT_EQ(texts[0], texts[2]);
  for (const int shards : {2, 3, 7, 46}) {
    std::vector<std::string> merge = {"merge", "-q", "--export", Path("merged.jsonl")};
    for (int i = shards; i >= 1; --i) {
      const std::string shard = std::to_string(i) + "/" + std::to_string(shards);
      const Answer answer = Sweep({"--shard", shard, "--output", Path("s.jsonl"), "--jobs", "3"});
      ASSERT_EQ(answer.status, 0) << answer.err;
      const std::string file = answer.out.substr(0, answer.out.find(": "));
      merge.push_back(file);
    }
    ASSERT_EQ(Ask(merge).status, 0);
    EXPECT_EQ(ReadAll(Path("merged.jsonl")), texts[0]) << shards;
  }
}

TEST_F(SweepCommand, ErrorsOfPointsAreRows) {
  const Answer answer = Sweep({"--output", "-", "-q"});
  EXPECT_EQ(answer.status, 0);
  EXPECT_THAT(answer.out,
              HasSubstr("\"plan.tensor_parallel\":4096},\"error\":{\"kind\":\"input\",\"text\":"));
  EXPECT_THAT(answer.out, HasSubstr("\"axes\":{\"plan.ddp.bucket_cap_mb\":1,"));
  EXPECT_EQ(std::count(answer.out.begin(), answer.out.end(), '\n'), 46);  // a header, 45 points
}

TEST_F(SweepCommand, ASweepWithoutAnyPointFails) {
  const Answer answer =
      Ask({"sweep", "lesson_bucketed", "--vary", "plan.tensor_parallel=512,4096"});
  EXPECT_EQ(answer.status, 2);
  EXPECT_THAT(answer.err, HasSubstr("no point that can be run"));
  const Answer filtered = Ask({"sweep", "lesson_bucketed", "--vary", "nodes=1,2", "--where",
                               "step_time > 1000 s", "--where", "plan.strategy == ddp"});
  EXPECT_EQ(filtered.status, 2);
  EXPECT_THAT(filtered.err, HasSubstr("no point left"));
}

TEST_F(SweepCommand, FiltersOnFieldsThatAreNotSwept) {
  const Answer answer = Ask({"sweep", "lesson_bucketed", "--vary", "nodes=1,2", "--where",
                             "plan.data_parallel > gpus_per_node", "--output", "-", "-q"});
  EXPECT_EQ(answer.status, 0) << answer.err;
  EXPECT_THAT(answer.out, HasSubstr("{\"index\":0,\"axes\":{\"nodes\":1},\"filtered\":\"plan"));
  EXPECT_THAT(answer.out, HasSubstr("{\"index\":1,\"axes\":{\"nodes\":2},\"resolved\""));
}

TEST_F(SweepCommand, ReadsASweepsFile) {
  Write("job.yaml", ReadAll(STEPSIM_SOURCE_DIR "/configs/jobs/lesson_bucketed.yaml"));
  const std::string path = Write("s.yaml",
                                 "job: job.yaml\nset: {plan.ddp.first_bucket_mb: 5}\n"
                                 "axes: {plan.ddp.bucket_cap_mb: '5:20:x2'}\n"
                                 "metrics: [step_time_s, mfu_palm]\ncurve: {y: mfu_palm}\n");
  const Answer answer = Ask({"sweep", path, "--export", Path("x.csv")});
  EXPECT_EQ(answer.status, 0) << answer.err;
  EXPECT_THAT(answer.out, HasSubstr("s: 3 points"));
  EXPECT_THAT(answer.out, HasSubstr("mfu_palm over plan.ddp.bucket_cap_mb"));
  EXPECT_THAT(ReadAll(Path("x.csv")),
              HasSubstr("index,plan.ddp.bucket_cap_mb,step_time_s,mfu_palm,warnings"));
}

TEST_F(SweepCommand, AJobMayStandInTheSweep) {
  std::string text = "job:\n";
  std::istringstream job(ReadAll(STEPSIM_SOURCE_DIR "/configs/jobs/lesson_bucketed.yaml"));
  for (std::string line; std::getline(job, line);) text += "  " + line + "\n";
  const Answer inside =
      Ask({"sweep", Write("s.yaml", text + "axes: {nodes: [1, 2]}\n"), "--output", "-", "-q"});
  EXPECT_EQ(inside.status, 0) << inside.err;
  EXPECT_THAT(inside.out, Not(HasSubstr("error")));
  const Answer wrong = Ask({"sweep", Write("w.yaml", "axes: {nodes: [1, 2]}\njob:\n  modl: x\n")});
  EXPECT_EQ(wrong.status, 2);
  EXPECT_THAT(wrong.err, HasSubstr("w.yaml:3:3: found the unknown key 'modl'"));
}

TEST_F(SweepCommand, IsResumed) {
  ASSERT_EQ(Sweep({"--output", Path("a.jsonl"), "-q"}).status, 0);
  const std::string whole = ReadAll(Path("a.jsonl"));
  Write("a.jsonl", whole.substr(0, whole.size() / 2));
  const Answer again = Sweep({"--output", Path("a.jsonl")});
  EXPECT_EQ(again.status, 2);
  EXPECT_THAT(again.err, HasSubstr("--resume"));
  const Answer resumed = Sweep({"--output", Path("a.jsonl"), "--resume"});
  EXPECT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_THAT(resumed.out, HasSubstr("of them were there"));
  EXPECT_EQ(ReadAll(Path("a.jsonl")), whole);
  const Answer other =
      Sweep({"--output", Path("a.jsonl"), "--resume", "--set", "batch.micro_batch_size=2"});
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.err, HasSubstr("another sweep"));
  EXPECT_EQ(ReadAll(Path("a.jsonl")), whole);
}

TEST_F(SweepCommand, SaysWhichShardTheSchedulerGaveIt) {
  setenv("SLURM_ARRAY_TASK_ID", "1", 1);
  setenv("SLURM_ARRAY_TASK_COUNT", "2", 1);
  const Answer answer = Sweep({"--output", Path("s.jsonl")});
  EXPECT_EQ(answer.status, 0) << answer.err;
  EXPECT_THAT(answer.out, HasSubstr("shard 2/2 by SLURM_ARRAY_TASK_ID=1"));
  EXPECT_THAT(answer.out, HasSubstr("s.2-of-2.jsonl: "));
  EXPECT_THAT(Sweep({}).err, HasSubstr("allowed: --output FILE"));
  EXPECT_THAT(Sweep({"--output", Path("s.jsonl"), "--export", Path("x.csv")}).err,
              HasSubstr("stepsim merge"));
  unsetenv("SLURM_ARRAY_TASK_ID");
  unsetenv("SLURM_ARRAY_TASK_COUNT");
}

TEST_F(SweepCommand, WrongInputIsNamed) {
  const auto error = [](const std::vector<std::string>& arguments) {
    std::vector<std::string> all = {"sweep"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const Answer answer = Ask(all);
    EXPECT_EQ(answer.status, 2) << answer.err;
    return answer.err;
  };
  EXPECT_THAT(error({"lesson_bucketed"}), HasSubstr("found a job, allowed: a sweep"));
  EXPECT_THAT(error({"lesson_bucketd"}), HasSubstr("did you mean 'lesson_bucketed'?"));
  EXPECT_THAT(error({"lesson_bucketed", "--vary", "node=1"}), HasSubstr("did you mean 'nodes'?"));
  EXPECT_THAT(error({"lesson_bucketed", "--vary", "nodes"}), HasSubstr("path=values"));
  EXPECT_THAT(error({"lesson_bucketed", "--vary", "nodes="}), HasSubstr("found nothing"));
  EXPECT_THAT(error({"lesson_bucketed", "--vary", "nodes=1", "--vary", "nodes=2"}),
              HasSubstr("nodes: found twice"));
  EXPECT_THAT(error({"lesson_bucketed", "--vary", "network=ethernet-10"}),
              HasSubstr("ethernet-10g"));
  EXPECT_THAT(error({"lesson_bucketed", "--vary", "nodes=1,2", "--where", "nodes > 2", "--where",
                     "nodes < 1"}),
              HasSubstr("'nodes > 2' alone keeps 0"));
  EXPECT_THAT(error({"lesson_bucketed", "--vary", "nodes=1", "--export", "x.png"}),
              HasSubstr(".svg"));
  EXPECT_THAT(error({"lesson_bucketed", "--vary", "nodes=1", "--resume"}), HasSubstr("--output"));
  EXPECT_THAT(error({"lesson_bucketed", "--vary", "nodes=1", "--shard", "0/2"}),
              HasSubstr("counted from 1"));
}

// What would be wrong at the end is said before the first point is run.
TEST_F(SweepCommand, AWrongCurveIsNamedBeforeAnyPointRuns) {
  const Answer answer = Sweep({"--y", "step_tme_s", "--output", Path("x.jsonl")});
  EXPECT_EQ(answer.status, 2);
  EXPECT_THAT(answer.err, HasSubstr("did you mean 'step_time_s'?"));
  EXPECT_EQ(Files(), std::vector<std::string>{});
}

TEST_F(SweepCommand, NoOutputReplacesAnInput) {
  const std::string text = R"({"job": "lesson_bucketed", "axes": {"nodes": [1, 2]}})";
  const std::string sweep = Write("s.json", text);
  for (const char* option : {"--export", "--output"}) {
    const Answer answer = Ask({"sweep", sweep, "--force", option, Path("./s.json")});
    EXPECT_EQ(answer.status, 2) << option;
    EXPECT_THAT(answer.err, HasSubstr("found a file that this command reads")) << option;
    EXPECT_EQ(ReadAll(sweep), text);
  }
  EXPECT_EQ(Ask({"sweep", sweep, "--output", Path("x.csv"), "--export", Path("x.csv")}).status, 2);
  ASSERT_EQ(Ask({"sweep", sweep, "--output", Path("x.jsonl"), "-q"}).status, 0);
  const std::string rows = ReadAll(Path("x.jsonl"));
  EXPECT_EQ(Ask({"merge", Path("x.jsonl"), "--export", Path("x.jsonl")}).status, 2);
  EXPECT_EQ(ReadAll(Path("x.jsonl")), rows);
}

// Nothing can be read back from there.
TEST_F(SweepCommand, RowsMayGoToADevice) {
  const Answer answer = Sweep({"--output", "/dev/null"});
  EXPECT_EQ(answer.status, 0) << answer.err;
  EXPECT_THAT(answer.out, HasSubstr("/dev/null: 45 points"));
  EXPECT_EQ(Sweep({"--output", "/dev/null", "--export", Path("x.csv")}).status, 2);
}

TEST_F(SweepCommand, ExportsEveryFormat) {
  std::vector<std::string> more = {"-q"};
  for (const char* ending : {"csv", "json", "jsonl", "md", "svg"}) {
    more.insert(more.end(), {"--export", Path(std::string("x.") + ending)});
  }
  ASSERT_EQ(Sweep(more).status, 0);
  EXPECT_THAT(ReadAll(Path("x.svg")), HasSubstr("</svg>"));
  EXPECT_THAT(ReadAll(Path("x.md")), HasSubstr("| 25 MiB |"));
  EXPECT_THAT(ReadAll(Path("x.json")), HasSubstr("\"rows\":[\n{\"index\":0,"));
  const Answer to_stdout = Sweep({"--export", "-"});
  EXPECT_THAT(to_stdout.out, HasSubstr("index,plan.ddp.bucket_cap_mb"));
  EXPECT_EQ(to_stdout.out.find("index"), 0u);
}

}  // namespace
}  // namespace stepsim::testing
