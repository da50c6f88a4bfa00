// stepsim validate from the outside: a table in, a report and files out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tools/stepsim/cli.h"

namespace stepsim {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kTable[] = STEPSIM_SOURCE_DIR "/tests/data/nccl_curves_small.csv";

struct Answer {
  int status = 0;
  std::string out, err;
};

Answer Validate(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"--configs", STEPSIM_SOURCE_DIR "/configs", "validate"});
  std::istringstream in;
  std::ostringstream out, err;
  const int status = RunCli(arguments, {in, out, err, false, 0, ""});
  return {status, out.str(), err.str()};
}

class ValidateCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::temp_directory_path() / (std::string("stepsim_validate_") + info->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string Path(const std::string& name) const { return (folder_ / name).string(); }
  static std::string ReadAll(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

  fs::path folder_;
};

TEST_F(ValidateCommand, PrintsErrorsByClassAndWhatIsNotScored) {
  const Answer answer = Validate({"collectives", kTable});
  EXPECT_EQ(answer.status, 0) << answer.err;
  EXPECT_THAT(answer.out,
              AllOf(HasSubstr("nvlink >= 1 MiB"), HasSubstr("ib_roce"), HasSubstr("multi_rack"),
                    HasSubstr("farthest off:"), HasSubstr("issue290_2n_degraded")));
}

TEST_F(ValidateCommand, ExportsOneLinePerPoint) {
  const std::string path = Path("errors.csv");
  const Answer answer =
      Validate({"collectives", kTable, "--calibrate", "two-point", "--export", path});
  ASSERT_EQ(answer.status, 0) << answer.err;
  const std::string csv = ReadAll(path);
  EXPECT_THAT(csv, StartsWith("system_id,collective,ranks,size_bytes,class,status,measured_us,"
                              "predicted_us,error_pct,algorithm,protocol\n"));
  const auto lines = [](const std::string& text) {
    return std::count(text.begin(), text.end(), '\n');
  };
  EXPECT_EQ(lines(csv), lines(ReadAll(kTable)) - 2);  // the table's comment
  EXPECT_THAT(csv, AllOf(HasSubstr(",calibration,"), HasSubstr(",ok,"),
                         HasSubstr("kept out: reported as degraded")));
}

TEST_F(ValidateCommand, AFittedFileGivesTheSamePredictions) {
  const std::string fit = Path("mine.yaml");
  const Answer fitted = Validate({"collectives", kTable, "--fit", fit});
  ASSERT_EQ(fitted.status, 0) << fitted.err;
  EXPECT_THAT(ReadAll(fit), AllOf(HasSubstr("nccl_curves_small.csv"), HasSubstr("sources:")));
  const Answer read = Validate({"collectives", kTable, "--corrections", fit});
  ASSERT_EQ(read.status, 0) << read.err;
  const std::size_t first_line = fitted.out.find('\n') + 1;  // "wrote ..."
  EXPECT_EQ(fitted.out.substr(first_line), read.out);
}

TEST_F(ValidateCommand, LeavesSystemsOut) {
  const Answer in_sample = Validate({"collectives", kTable});
  const Answer left_out = Validate({"collectives", kTable, "--leave-one-out", "system"});
  EXPECT_EQ(left_out.status, 0) << left_out.err;
  EXPECT_NE(in_sample.out, left_out.out);
}

constexpr char kKernels[] = STEPSIM_SOURCE_DIR "/tests/data/gemm_points_small.csv";

TEST_F(ValidateCommand, ScoresKernelsByGpuAndType) {
  const std::string path = Path("errors.csv");
  const Answer answer = Validate({"kernels", kKernels, "--export", path});
  ASSERT_EQ(answer.status, 0) << answer.err;
  EXPECT_THAT(answer.out, AllOf(HasSubstr("a100-80g-pcie            bf16  gemm         24"),
                                HasSubstr("the shipped curve"), HasSubstr("farthest off:"),
                                HasSubstr("not scored: 1 rows without a full shape"),
                                HasSubstr("no profile has such a GPU: MI300X")));
  const std::string csv = ReadAll(path);
  EXPECT_THAT(csv, StartsWith("row,gpu,profile,m,n,k,groups,layout,dtype,status,measured_us,"
                              "predicted_us,error_pct\n1,A100-PCIE-80GB,a100-80g-pcie,4096,"));
  EXPECT_THAT(csv, HasSubstr(",no profile,"));
}

// 25 rows and more are fitted: of this sample H100's fp8 and B200's.
TEST_F(ValidateCommand, LeavesShapesOutAndWritesCurves) {
  const std::string fit = Path("curves.yaml");
  const Answer answer = Validate({"kernels", kKernels, "--leave-one-out", "shape", "--fit", fit});
  ASSERT_EQ(answer.status, 0) << answer.err;
  EXPECT_THAT(answer.out, HasSubstr("fits without the shape"));
  EXPECT_THAT(ReadAll(fit), AllOf(HasSubstr("# b200-dgx: "), HasSubstr("    - dtype: fp8\n"),
                                  HasSubstr("residual: 0.")));
}

TEST_F(ValidateCommand, SaysWhatIsWrongWithKernels) {
  EXPECT_THAT(Validate({"kernels", kKernels, "--leave-one-out", "system"}).err,
              HasSubstr("allowed: shape"));
  EXPECT_THAT(Validate({"kernels", kKernels, "--calibrate", "knots"}).err,
              HasSubstr("--calibrate: found with kernels"));
  std::ofstream(Path("bad.csv")) << "kind,gpu,m,n,k,dtype_in,tflops\ngemm,A100,64,64,64,bf17,nan\n";
  const Answer answer = Validate({"kernels", Path("bad.csv"), "--export", Path("out.csv")});
  EXPECT_EQ(answer.status, 2);
  EXPECT_THAT(answer.err, AllOf(HasSubstr("bad.csv:2:20: dtype_in: found 'bf17'"),
                                HasSubstr("bad.csv:2:25: tflops")));
  EXPECT_FALSE(fs::exists(Path("out.csv")));
}

TEST_F(ValidateCommand, RefusesFilesOfAnotherKindAndOptionsInVain) {
  for (const char* name : {"-", "x.yaml", "x", ".csv"}) {
    const Answer answer = Validate({"collectives", kTable, "--export", name});
    EXPECT_EQ(answer.status, 2) << name;
    EXPECT_THAT(answer.err, HasSubstr("found another ending, allowed: .csv")) << name;
    EXPECT_FALSE(fs::exists(name));
  }
  EXPECT_THAT(Validate({"kernels", kTable, "--fit", Path("x.csv")}).err,
              HasSubstr("found another ending, allowed: .yaml, .yml"));
  EXPECT_THAT(Validate({"collectives", kTable, "--nccl", "9.x"}).err,
              HasSubstr("--nccl: found '9.x', allowed: a release of NCCL"));
  EXPECT_THAT(
      Validate({"collectives", kTable, "--corrections", "none", "--fit", Path("x.yaml")}).err,
      HasSubstr("--corrections: has no effect with --fit"));
  EXPECT_FALSE(fs::exists(Path("x.yaml")));
}

TEST_F(ValidateCommand, SaysWhatItAssumesAndWhenNothingIsLeft) {
  std::ofstream(Path("one.csv"))
      << "system_id,gpu,nodes,gpus_per_node,ranks,nic,intra_fabric,collective,size_bytes,time_us\n"
         "x,H100-SXM-80GB,2,8,16,carrier pigeons,NVSwitch,all_reduce,1024,100\n";
  EXPECT_THAT(Validate({"collectives", Path("one.csv")}).out,
              HasSubstr("assumed:\n  network 'carrier pigeons' is not known: the profile's "
                        "infiniband: x\n"));
  EXPECT_THAT(Validate({"collectives", Path("one.csv"), "--calibrate", "two-point"}).out,
              HasSubstr("so nothing is left to score"));
}

TEST_F(ValidateCommand, SaysWhatIsWrong) {
  EXPECT_THAT(Validate({"colectives", kTable}).err, HasSubstr("did you mean 'collectives'?"));
  EXPECT_THAT(Validate({"collectives", kTable, "--calibrate", "twopoint"}).err,
              HasSubstr("did you mean 'two-point'?"));
  EXPECT_THAT(Validate({"collectives", kTable, "--leave-one-out", "point"}).err,
              HasSubstr("allowed: system"));
  EXPECT_THAT(Validate({"collectives", Path("absent.csv")}).err, HasSubstr("found no such file"));
  std::ofstream(Path("empty.csv")).close();
  EXPECT_THAT(Validate({"collectives", Path("empty.csv")}).err, HasSubstr("found nothing in it"));
  std::ofstream(Path("bad.csv")) << "system_id,gpu\nx,y\n";
  const Answer answer = Validate({"collectives", Path("bad.csv"), "--export", Path("out.csv")});
  EXPECT_EQ(answer.status, 2);
  EXPECT_THAT(answer.err, HasSubstr("'time_us' is missing"));
  EXPECT_FALSE(fs::exists(Path("out.csv")));
}

constexpr char kMemoryTable[] = STEPSIM_SOURCE_DIR "/tests/data/memory_published.csv";

TEST_F(ValidateCommand, MemoryPrintsErrorsByGroupAndWhatIsNotComputed) {
  const Answer answer = Validate({"memory", kMemoryTable});
  EXPECT_EQ(answer.status, 0) << answer.err;
  EXPECT_THAT(answer.out, AllOf(HasSubstr("source simumax"), HasSubstr("states fsdp2"),
                                HasSubstr("recompute layer_inputs"), HasSubstr("farthest off:"),
                                HasSubstr("m01840   torchtitan: micro_batch, grad_accum, vpp")));
}

TEST_F(ValidateCommand, MemoryExportsEveryRowWithItsParts) {
  const std::string path = Path("memory.csv");
  ASSERT_EQ(Validate({"memory", kMemoryTable, "--export", path}).status, 0);
  const std::string csv = ReadAll(path);
  EXPECT_THAT(csv, StartsWith("row_id,source,model,states,recompute,status,measured_gib,"
                              "predicted_gib,error_pct,stage,parameters_gib,"));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 142);
  EXPECT_THAT(csv, HasSubstr("not stated: hidden n_heads"));
}

TEST_F(ValidateCommand, AMedianAboveTheAllowedOneIsAFailedCheck) {
  EXPECT_EQ(Validate({"memory", kMemoryTable, "--max-median", "5"}).status, 0);
  const Answer answer = Validate({"memory", kMemoryTable, "--max-median", "0.1"});
  EXPECT_EQ(answer.status, 4);
  EXPECT_THAT(answer.err, HasSubstr("allowed by --max-median: 0.1%"));
  EXPECT_THAT(answer.out, HasSubstr("source simumax"));  // the report comes all the same
}

TEST_F(ValidateCommand, OptionsOfOtherKindsAreRefused) {
  EXPECT_EQ(Validate({"collectives", kTable, "--max-median", "5"}).status, 2);
  const Answer answer = Validate({"memory", kMemoryTable, "--nccl", "2.20"});
  EXPECT_EQ(answer.status, 2);
  EXPECT_THAT(answer.err, HasSubstr("--nccl: found with memory"));
  EXPECT_EQ(Validate({"memory", kTable}).status, 2);  // columns of another kind
}

// ---- ddp ----

constexpr char kLive[] = STEPSIM_SOURCE_DIR "/tests/data/ddp_live/";

std::vector<std::string> WithLiveTables(std::vector<std::string> arguments) {
  for (const char* table : {"steps", "gradients", "links", "overlaps", "slow_downs"}) {
    arguments.push_back(kLive + std::string(table) + ".csv");
  }
  return arguments;
}

TEST_F(ValidateCommand, DdpPredictsALiveSweepAndWritesItsJobs) {
  const Answer answer = Validate(WithLiveTables(
      {"ddp", "--export", Path("points.csv"), "--write-jobs", Path("jobs"), "--max-median", "5"}));
  EXPECT_EQ(answer.status, 0) << answer.err;
  EXPECT_THAT(answer.out, AllOf(HasSubstr("tun_1ms_1g_1thread"), HasSubstr("wrote 43 jobs")));
  const std::string points = ReadAll(Path("points.csv"));
  EXPECT_EQ(std::count(points.begin(), points.end(), '\n'), 318);  // a header and 317 steps
  std::istringstream in;
  std::ostringstream out, err;
  const int status =
      RunCli({"--configs", STEPSIM_SOURCE_DIR "/configs", "run", Path("jobs/tun_1ms_1g.gpt8.yaml"),
              "--set", "plan.ddp.bucket_cap_mb=5"},
             {in, out, err, false, 0, ""});
  EXPECT_EQ(status, 0) << err.str();
}

TEST_F(ValidateCommand, DdpRefusesWhatItDoesNotKnow) {
  EXPECT_EQ(Validate(WithLiveTables({"ddp", "--max-median", "0.1"})).status, 4);
  const Answer fit = Validate(WithLiveTables({"ddp", "--leave-one-out", "system"}));
  EXPECT_EQ(fit.status, 2);
  EXPECT_THAT(fit.err, HasSubstr("--leave-one-out: found with ddp, allowed: with collectives"));
  const Answer two = Validate({"collectives", kTable, kTable});
  EXPECT_EQ(two.status, 2);
  EXPECT_THAT(two.err, HasSubstr("found a second table with collectives, allowed: with ddp"));
  EXPECT_THAT(Validate({"ddp", kTable}).err, HasSubstr("allowed: a table with one of"));
}

}  // namespace
}  // namespace stepsim
