// Readers of what people measured: files of stepsim-calibrate, nccl-tests, CSV, training logs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "models/calibration/benchmark_csv.h"
#include "models/calibration/log_lines.h"
#include "models/calibration/measurement_file.h"
#include "models/calibration/nccl_log.h"
#include "models/calibration/train_log.h"
#include "sim/base/diagnostics.h"

namespace stepsim {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <class Read>
std::string ErrorOf(Read read) {
  try {
    read();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

// ---- stepsim-calibrate ----

const char kHeader[] =
    R"({"schema":"stepsim.measurements/1","date":"2026-11-30","command":"x","backend":"cuda",)"
    R"("device":"NVIDIA H200","driver":"580.1","libraries":{"nccl":"2.28.9"},"ranks":2,"nodes":1})"
    "\n";

// One line of each kind, as the format's specification gives them.
TEST(MeasurementFile, TakesEveryKind) {
  const std::string text =
      std::string(kHeader) +
      R"({"kind":"gemm","m":8,"n":16,"k":32,"dtype":"bf16","median_s":1e-3,"p10_s":9e-4,"p90_s":2e-3,"repeats":7})"
      "\n"
      R"({"kind":"memory","op":"copy","bytes":1024,"median_s":1e-6})"
      "\n"
      R"({"kind":"attention","batch":1,"heads":2,"seq_q":64,"seq_k":64,"head_dim":8,"causal":true,"dtype":"fp16","direction":"backward","implementation":"cudnn","median_s":1e-5})"
      "\n"
      R"({"kind":"collective","op":"all_reduce","bytes":4096,"ranks":2,"nodes":1,"in_place":true,"max_ctas":8,"algorithm":"ring","protocol":"ll","median_s":2e-5})"
      "\n"
      R"({"kind":"interference","compute":{"m":8,"n":8,"k":8,"dtype":"bf16"},"beside":{"kind":"copy","sms":16},"compute_alone_s":1,"compute_beside_s":1.5})"
      "\n"
      R"({"kind":"launch","op":"event_handover","median_s":2e-6})"
      "\n";
  const Measurements all = ReadMeasurementFile(text, "m.jsonl");
  EXPECT_EQ(all.about.device, "NVIDIA H200");
  EXPECT_THAT(all.about.libraries, ElementsAre("nccl 2.28.9"));
  ASSERT_EQ(all.size(), 6u);
  EXPECT_EQ(all.gemms[0].k, 32);
  EXPECT_DOUBLE_EQ(all.gemms[0].time.p90, 2e-3);
  EXPECT_TRUE(all.attention[0].backward);
  EXPECT_EQ(all.collectives[0].max_ctas, 8);
  EXPECT_EQ(all.collectives[0].protocol, "ll");
  EXPECT_FALSE(all.interference[0].is_collective);
  EXPECT_EQ(all.interference[0].sms, 16);
  EXPECT_EQ(all.launches[0].op, "event_handover");
}

TEST(MeasurementFile, KeepsWhatCameBeforeAnInterruption) {
  const std::string whole = std::string(kHeader) +
                            R"({"kind":"memory","op":"copy","bytes":1024,"median_s":1e-6})"
                            "\n";
  const Measurements all = ReadMeasurementFile(whole + R"({"kind":"memory","op":"co)", "m.jsonl");
  EXPECT_EQ(all.memory.size(), 1u);
  EXPECT_THAT(all.notes, Contains(HasSubstr("the last line is cut off")));
  // In the middle of a file it is a mistake.
  EXPECT_THAT(ErrorOf([&] { ReadMeasurementFile(whole + "{\"kind\":\n" + whole, "m.jsonl"); }),
              HasSubstr("m.jsonl:3:1: found no JSON object"));
}

TEST(MeasurementFile, SaysWhatIsWrongAndWhere) {
  EXPECT_THAT(ErrorOf([] { ReadMeasurementFile("{\"kind\":\"gemm\"}\n", "m.jsonl"); }),
              HasSubstr("found a measurement before the header"));
  EXPECT_THAT(ErrorOf([] { ReadMeasurementFile("", "m.jsonl"); }), HasSubstr("found no header"));
  const std::string error = ErrorOf([] {
    ReadMeasurementFile(std::string(kHeader) +
                            R"({"kind":"collective","op":"all_redcue","bytes":0,"median_s":-1})"
                            "\n",
                        "m.jsonl");
  });
  EXPECT_THAT(error, HasSubstr("m.jsonl:2:1: op: found 'all_redcue'"));
  EXPECT_THAT(error, HasSubstr("did you mean 'all_reduce'?"));
  EXPECT_THAT(error, HasSubstr("bytes: found 0"));
  EXPECT_THAT(error, HasSubstr("median_s: found -1,"));
}

TEST(MeasurementFile, LeavesOutWhatItDoesNotKnow) {
  const Measurements all =
      ReadMeasurementFile(std::string(kHeader) + "{\"kind\":\"novelty\"}\n" +
                              R"({"kind":"gemm","m":8,"n":8,"k":8,"dtype":"fp64","median_s":1e-3})"
                              "\n",
                          "m.jsonl");
  EXPECT_EQ(all.size(), 0u);
  EXPECT_THAT(all.notes, Contains(HasSubstr("1 lines of the unknown kind 'novelty'")));
  EXPECT_THAT(all.notes, Contains(HasSubstr("fp64 left out")));
}

// MPI moves bytes only while somebody asks: without, nothing ran together.
TEST(MeasurementFile, TakesOnlyCollectivesThatWerePolled) {
  const auto pair = [](const char* polled) {
    return std::string(
               R"({"kind":"interference","compute":{"m":8,"n":8,"k":8,"dtype":"fp32"},"beside":)"
               R"({"kind":"collective","op":"all_reduce","bytes":4096,"polled":)") +
           polled +
           R"(},"compute_alone_s":1,"compute_beside_s":1.5,"beside_alone_s":1,"beside_beside_s":2})"
           "\n";
  };
  const Measurements all = ReadMeasurementFile(kHeader + pair("true") + pair("false"), "m.jsonl");
  EXPECT_EQ(all.interference.size(), 1u);
  EXPECT_THAT(all.notes, Contains(HasSubstr("nobody polled")));
}

// ---- nccl-tests ----

// The layout of the program's output (nccl-tests, src/common.cu), with made-up times.
const char kDevices[] =
    "# nThread 1 nGpus 1 minBytes 1024 maxBytes 4096 step: 2(factor) warmup iters: 5 iters: 20\n"
    "#\n"
    "# Using devices\n"
    "#  Rank  0 Group  0 Pid   1887 on   worker-1 device  0 [0x8d] NVIDIA H100 80GB HBM3\n"
    "#  Rank  1 Group  0 Pid   1888 on   worker-1 device  1 [0x91] NVIDIA H100 80GB HBM3\n"
    "#  Rank  2 Group  0 Pid   1885 on   worker-0 device  0 [0x8d] NVIDIA H100 80GB HBM3\n"
    "#  Rank  3 Group  0 Pid   1886 on   worker-0 device  1 [0x91] NVIDIA H100 80GB HBM3\n"
    "#\n"
    "#                                                              out-of-place       in-place\n"
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time "
    "  algbw   busbw #wrong\n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us) "
    " (GB/s)  (GB/s)\n";
const char kRows[] =
    "        1024           256     float     sum      -1    20.00    0.05    0.08      0    21.00 "
    " "
    "  0.05    0.07      0\n"
    "        4096          1024     float     sum      -1     2.00    2.05    3.07      0      N/A "
    " "
    "  N/A     N/A      N/A\n";

TEST(NcclLog, TakesBothColumnsAndTheGroup) {
  const Measurements all =
      ReadNcclLog(std::string("# nccl-tests version 2.17.6 nccl-headers=22809 nccl-library=22809\n"
                              "# Collective test starting: all_reduce_perf\n") +
                      kDevices + kRows + "# Out of bounds values : 0 OK\n",
                  "ar.log");
  ASSERT_EQ(all.collectives.size(), 3u);
  EXPECT_EQ(all.collectives[0].op, CollectiveOp::kAllReduce);
  EXPECT_EQ(all.collectives[0].ranks, 4);
  EXPECT_EQ(all.collectives[0].nodes, 2);
  EXPECT_FALSE(all.collectives[0].in_place);
  EXPECT_TRUE(all.collectives[1].in_place);
  EXPECT_DOUBLE_EQ(all.collectives[1].time.seconds, 21e-6);
  EXPECT_EQ(all.collectives[2].bytes, 4096);
  EXPECT_THAT(all.about.libraries, ElementsAre("nccl 2.28.9"));
  EXPECT_EQ(all.about.device, "NVIDIA H100 80GB HBM3");
}

// Without a name: busbw / algbw of four ranks is 1.5 for all_reduce, 0.75 for reduce_scatter.
TEST(NcclLog, KnowsTheCollectiveByItsBandwidths) {
  EXPECT_EQ(ReadNcclLog(std::string(kDevices) + kRows, "a.log").collectives[0].op,
            CollectiveOp::kAllReduce);
  const std::string scatter =
      "        4096          1024     float     sum      -1     2.00    2.05    1.54      0     "
      "2.0 "
      "   2.05    1.54      0\n";
  EXPECT_EQ(ReadNcclLog(kDevices + scatter, "a.log").collectives[0].op,
            CollectiveOp::kReduceScatter);
  const std::string gather =
      "        4096          1024     float    none      -1     2.00    2.05    1.54      0     "
      "2.0 "
      "   2.05    1.54      0\n";
  EXPECT_THAT(ErrorOf([&] { ReadNcclLog(kDevices + gather, "a.log"); }), HasSubstr("--op NAME"));
  EXPECT_EQ(
      ReadNcclLog(kDevices + gather, "a.log", {.op = CollectiveOp::kAllGather}).collectives[0].op,
      CollectiveOp::kAllGather);
}

class Wrapped : public ::testing::TestWithParam<const char*> {};
TEST_P(Wrapped, ReadsBehindPrefixes) {
  const std::string plain =
      std::string("# Collective test starting: all_reduce_perf\n") + kDevices + kRows;
  std::string text = GetParam();
  for (const char c : plain) {
    text += c;
    if (c == '\n') text += GetParam();
  }
  const Measurements all = ReadNcclLog(text, "a.log");
  ASSERT_EQ(all.collectives.size(), 3u);
  EXPECT_EQ(all.collectives[0].ranks, 4);
  EXPECT_EQ(all.collectives[0].nodes, 2);
  EXPECT_EQ(all.collectives[0].bytes, 1024);
}
// Open MPI, MPICH, Slurm, Kubernetes, docker compose, mpirun --timestamp-output.
INSTANTIATE_TEST_SUITE_P(Launchers, Wrapped,
                         ::testing::Values("", "[1,0]<stdout>:", "[0] ",
                                           "0: ", "2026-11-30T12:00:01.123456789Z ",
                                           "2026-11-30 12:00:01,123 ",
                                           "2026-11-30T12:00:01.1Z stdout F ", "worker-1  | ",
                                           "Mon Nov 30 12:00:01 2026[1,0]<stdout>:", "\x1b[32m"));

// MPI puts NCCL's lines between the halves of a row (as in NVIDIA/nccl #1453).
TEST(NcclLog, JoinsRowsThatNcclCutInTwoAndTakesItsChoice) {
  const std::string cut =
      "[0]         512           128     float     sum      -1[0] host-1:49:49 [0] NCCL INFO 512 "
      "Bytes -> Algo 0 proto 0 time 25.259054\n"
      "[0] host-1:49:49 [0] NCCL INFO 512 Bytes -> Algo 0 proto 0 time 25.259054\n"
      "[0]     62.05    0.01    0.02      0    60.05    0.01    0.02      0\n";
  const Measurements all =
      ReadNcclLog(std::string("all_reduce_perf -b 512\n") + kDevices + cut, "a.log");
  ASSERT_EQ(all.collectives.size(), 2u);
  EXPECT_DOUBLE_EQ(all.collectives[0].time.seconds, 62.05e-6);
  EXPECT_EQ(all.collectives[0].algorithm, "tree");
  EXPECT_EQ(all.collectives[0].protocol, "ll");
}

// From 2.23 on NCCL writes names; a gather counts what one rank gives.
TEST(NcclLog, TakesNamesOfAlgorithms) {
  const std::string text = std::string("all_gather_perf -b 1K\n") + kDevices +
                           "host:1:2 [0] NCCL INFO AllGather: 1024 Bytes -> Algo RING proto SIMPLE "
                           "channel{Lo..Hi}={0..1}\n"
                           "        4096           256     float    none      -1     2.00    2.05  "
                           "  1.54      0     2.0 "
                           "   2.05    1.54      0\n";
  const Measurements all = ReadNcclLog(text, "a.log");
  ASSERT_EQ(all.collectives.size(), 2u);
  EXPECT_EQ(all.collectives[0].op, CollectiveOp::kAllGather);
  EXPECT_EQ(all.collectives[0].algorithm, "ring");
  EXPECT_EQ(all.collectives[0].protocol, "simple");
}

// Old versions: no root, a largest difference in place of counts; one process with all GPUs.
TEST(NcclLog, ReadsOldTablesAndSeveralInOneFile) {
  const std::string text =
      "$ ./build/all_reduce_perf -b 1K -g 2\n"
      "# nThread 1 nGpus 2 minBytes 1024\n"
      "#   Rank  0 Pid   1320 on box device  0 [0x00] Tesla V100-SXM2-16GB\n"
      "#   Rank  1 Pid   1320 on box device  1 [0x01] Tesla V100-SXM2-16GB\n"
      "        1024           256   float     sum    20.00    0.05    0.05  0e+00    21.0    0.05  "
      "  0.05  0e+00\n"
      "$ ./build/reduce_scatter_perf -b 1K -g 2\n"
      "# nThread 1 nGpus 2 minBytes 1024\n"
      "        1024           256   float     sum    10.00    0.05    0.05  0e+00\n";
  const Measurements all = ReadNcclLog(text, "a.log");
  ASSERT_EQ(all.collectives.size(), 3u);
  EXPECT_EQ(all.collectives[1].op, CollectiveOp::kAllReduce);
  EXPECT_EQ(all.collectives[2].op, CollectiveOp::kReduceScatter);
  EXPECT_EQ(all.collectives[2].ranks, 2);
}

TEST(NcclLog, RefusesWhatIsNoMeasurement) {
  EXPECT_THAT(ErrorOf([] { ReadNcclLog("hello\n", "a.log"); }),
              HasSubstr("found no table of nccl-tests"));
  EXPECT_THAT(ErrorOf([] { ReadNcclLog(kRows, "a.log"); }), HasSubstr("--ranks N"));
  EXPECT_EQ(ReadNcclLog(kRows, "a.log", {.op = CollectiveOp::kAllReduce, .ranks = 8, .nodes = 2})
                .collectives[0]
                .nodes,
            2);
  // Wrong results are no time.
  const std::string wrong =
      "        4096          1024     float     sum      -1     2.00    2.05    3.07     17     "
      "2.0 "
      "   2.05    3.07      0\n";
  const Measurements all = ReadNcclLog(kDevices + wrong, "a.log");
  EXPECT_EQ(all.collectives.size(), 1u);
  EXPECT_THAT(all.notes, Contains(HasSubstr("1 measurements with wrong results left out")));
}

// ---- CSV ----

TEST(BenchmarkCsv, CountsAsEachNameSays) {
  const Measurements all = ReadCollectiveCsv(
      "# Open MPI v4.1.4\n"
      "kind,label,ranks,op,bytes,reps,median_us,min_us\n"
      "coll,a,4,allreduce,8,300,10,5\n"
      "coll,a,4,allgather_total,64,300,20,5\n"
      "coll,a,4,all_gather_each,64,300,20,5\n"
      "coll,a,4,pingpong_round_trip,64,300,30,5\n"
      "coll,a,4,overlap_of_mine,64,300,30,5\n"
      "kind,label,ranks,progress,bytes,gemms,comp_us\n"
      "overlap,a,2,none,65536,2,10.5\n",
      "b.csv");
  ASSERT_EQ(all.collectives.size(), 4u);
  EXPECT_DOUBLE_EQ(all.collectives[0].time.seconds, 10e-6);  // the median, not the minimum
  EXPECT_EQ(all.collectives[1].bytes, 64);
  EXPECT_EQ(all.collectives[2].bytes, 256);  // each of four gives 64
  EXPECT_DOUBLE_EQ(all.collectives[3].time.seconds, 15e-6);
  EXPECT_EQ(all.collectives[0].backend, "mpi");
  EXPECT_THAT(all.notes, Contains(HasSubstr("'overlap_of_mine'")));
  EXPECT_THAT(all.notes, Contains(HasSubstr("a table with kind, label, ranks, progress")));
}

TEST(BenchmarkCsv, AsksWhichOfSeveralSystems) {
  const std::string text =
      "link,op,bytes,world,median_us\nlo,all_reduce,8,2,1\nwan,all_reduce,8,2,9\n";
  EXPECT_THAT(ErrorOf([&] { ReadCollectiveCsv(text, "b.csv"); }),
              HasSubstr("found 2 systems, allowed: one; for example --where link="));
  const Measurements all =
      ReadCollectiveCsv(text, "b.csv", {.where = {{"link", "wan"}}, .backend = "gloo", .nodes = 2});
  ASSERT_EQ(all.collectives.size(), 1u);
  EXPECT_DOUBLE_EQ(all.collectives[0].time.seconds, 9e-6);
  EXPECT_EQ(all.collectives[0].nodes, 2);
  EXPECT_EQ(all.collectives[0].backend, "gloo");
  EXPECT_THAT(ErrorOf([&] {
                ReadCollectiveCsv(text, "b.csv", {.where = {{"lnk", "wan"}}});
              }),
              HasSubstr("--where lnk=wan: found no such column"));
}

TEST(BenchmarkCsv, TakesTimesAndRatesOfProducts) {
  // 2 x 1000^3 FLOP at 2 TFLOP/s: a millisecond.
  EXPECT_DOUBLE_EQ(
      ReadGemmCsv("m,n,k,dtype,TFLOP/s\n1000,1000,1000,bf16,2\n", "g.csv").gemms[0].time.seconds,
      1e-3);
  EXPECT_DOUBLE_EQ(
      ReadGemmCsv("M,N,K,dtype,time_ms\n10,20,30,fp8_e4m3,3\n", "g.csv").gemms[0].time.seconds,
      3e-3);
  EXPECT_THAT(ErrorOf([] { ReadGemmCsv("m,n,dtype\n1,2,bf16\n", "g.csv"); }),
              HasSubstr("missing: k, time_us (or _ms, _s) or tflops"));
  EXPECT_THAT(ErrorOf([] { ReadGemmCsv("m,n,k,dtype,time_us\n1,x,2,bf7,1\n", "g.csv"); }),
              HasSubstr("found 'bf7'"));
}

// ---- Training logs ----

struct TrainCase {
  const char* dialect;
  std::string line;  // of a step
  LogQuantity quantity;
  double value;
};
class TrainLogs : public ::testing::TestWithParam<TrainCase> {};
TEST_P(TrainLogs, ReadsTheDialect) {
  const TrainCase& wanted = GetParam();
  std::string text = "starting\n";
  for (int i = 0; i < 6; ++i) text += wanted.line + "\n";
  const TrainLog log = ReadTrainLog(text, "train.log");
  EXPECT_EQ(log.dialect, wanted.dialect);
  bool is_found = false;
  for (const LogSeries& series : log.series) {
    if (series.quantity != wanted.quantity) continue;
    is_found = true;
    EXPECT_NEAR(series.median, wanted.value, 1e-9 * wanted.value);
    EXPECT_EQ(series.skipped, 2u);
    EXPECT_EQ(series.used, 4u);
  }
  EXPECT_TRUE(is_found);
}
// A line of each framework's own format.
INSTANTIATE_TEST_SUITE_P(
    Frameworks, TrainLogs,
    ::testing::Values(
        TrainCase{"megatron",
                  " [2026-11-30 12:00:01] iteration      100/  500000 | consumed samples: 25600 | "
                  "elapsed time per iteration (ms): 5123.4 | throughput per GPU (TFLOP/s/GPU): "
                  "401.2 | global batch size: 256 |",
                  LogQuantity::kStepSeconds, 5.1234},
        TrainCase{"megatron",
                  "iteration 7/ 100 | elapsed time per iteration (s): 52.25 | TFLOPs: 134.20 |",
                  LogQuantity::kFlopsPerGpuSecond, 134.2e12},
        TrainCase{"torchtitan",
                  "[rank0]:[titan] 2026-11-30 12:00:01,123 - root - INFO - step: 10  loss:  4.1  "
                  "memory: 38.50GiB(48.6%)  tps: 7,654  tflops: 321.0  mfu: 39.20%",
                  LogQuantity::kTokensPerGpuSecond, 7654},
        TrainCase{"torchtitan",
                  "step: 10  loss:  4.1  memory: 38.50GiB(48.6%)  wps: 7,100  mfu: 38.2%",
                  LogQuantity::kMfu, 0.382},
        TrainCase{"deepspeed",
                  "[2026-11-30 12:00:01,123] [INFO] [timer.py:260:stop] epoch=0/micro_step=20/"
                  "global_step=10, RunningAvgSamplesPerSec=12.3, CurrSamplesPerSec=12.5, "
                  "MemAllocated=4.34GB",
                  LogQuantity::kSamplesPerSecond, 12.5},
        TrainCase{"llm-foundry", "\t Train throughput/device/tokens_per_sec: 4321.5",
                  LogQuantity::kTokensPerGpuSecond, 4321.5},
        TrainCase{"lightning", "Epoch 0:  50%|█████     | 10/20 [00:12<00:12,  0.80it/s, loss=2.5]",
                  LogQuantity::kStepsPerSecond, 0.8},
        TrainCase{"lightning", "Epoch 0: 50%|#####     | 10/20 [00:12<00:12,  1.23s/it]",
                  LogQuantity::kStepSeconds, 1.23},
        TrainCase{"nemo",
                  "Training epoch 0, iteration 9/99 | lr: 1e-4 | train_step_timing in s: 5.12",
                  LogQuantity::kStepSeconds, 5.12},
        TrainCase{"nanogpt", "iter 10: loss 3.2000, time 123.45ms, mfu 41.20%",
                  LogQuantity::kStepSeconds, 0.12345}));

TEST(TrainLog, LeavesTheFirstStepsOut) {
  std::string text =
      "elapsed time per iteration (ms): 90000\nelapsed time per iteration (ms): 7000\n";
  for (int i = 0; i < 8; ++i) text += "elapsed time per iteration (ms): 1000\n";
  const TrainLog log = ReadTrainLog(text, "train.log");
  EXPECT_DOUBLE_EQ(log.series[0].p90, 1.0);
  EXPECT_THAT(ErrorOf([] { ReadTrainLog("nothing here\n", "train.log"); }),
              HasSubstr("allowed: logs of megatron, torchtitan, deepspeed"));
}

}  // namespace
}  // namespace stepsim
