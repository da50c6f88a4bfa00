// Tables of measurements: what is read, and how a wrong one is refused.
#include "models/calibration/measured_collectives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace stepsim {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kHeader[] =
    "system_id,gpu,nodes,gpus_per_node,ranks,nic,intra_fabric,collective,size_bytes,time_us,"
    "nccl_version\n";

std::string ErrorOf(const std::string& text) {
  try {
    ReadMeasuredCollectives(text, "curve.csv");
  } catch (const ConfigError& error) {
    std::string all;
    for (const Diagnostic& diagnostic : error.diagnostics()) all += diagnostic.ToString() + "\n";
    return all;
  }
  return "";
}

std::string Row(const std::string& size, const std::string& time,
                const std::string& collective = "all_reduce", const std::string& ranks = "16") {
  return std::string(kHeader) + "box,H100,2,8," + ranks + ",8x400G IB,NVSwitch," + collective +
         "," + size + "," + time + ",2.27\n";
}

TEST(ReadMeasuredCollectives, KeepsUnitsAndNames) {
  const auto points = ReadMeasuredCollectives(Row("1048576", "250.5", "alltoall"), "curve.csv");
  ASSERT_EQ(points.size(), 1u);
  EXPECT_EQ(points[0].system_id, "box");
  EXPECT_EQ(points[0].nodes, 2);
  EXPECT_EQ(points[0].ranks, 16);
  EXPECT_EQ(points[0].op, CollectiveOp::kAllToAll);  // nccl-tests' spelling
  EXPECT_EQ(points[0].size, Bytes{1048576});
  EXPECT_DOUBLE_EQ(points[0].seconds, 250.5e-6);
  EXPECT_EQ(points[0].nccl_version, "2.27");
}

TEST(ReadMeasuredCollectives, RefusesTimesThatAreNone) {
  for (const char* time : {"0", "-3", "nan", "inf", "", "12 us"}) {
    EXPECT_THAT(ErrorOf(Row("1024", time)),
                AllOf(HasSubstr("curve.csv:2:"), HasSubstr("time_us: found")))
        << time;
  }
}

TEST(ReadMeasuredCollectives, RefusesSizesThatAreNone) {
  for (const char* size : {"0", "-1", "1.5", "1 MiB", "1e40"}) {
    EXPECT_THAT(ErrorOf(Row(size, "10")), HasSubstr("size_bytes: found")) << size;
  }
}

TEST(ReadMeasuredCollectives, NamesTheMissingColumnAndTheNearest) {
  EXPECT_THAT(
      ErrorOf("system_id,gpu,nodes,gpus_per_node,ranks,nic,intra_fabric,collective,size_byte,"
              "time_us\n"),
      AllOf(HasSubstr("'size_bytes' is missing"), HasSubstr("is it 'size_byte'?")));
}

TEST(ReadMeasuredCollectives, NamesEveryWrongCell) {
  const std::string text = Row("1024", "10", "all_reduc") + "box,,2,8,17,none,none,reduce,0,0,\n";
  EXPECT_THAT(ErrorOf(text),
              AllOf(HasSubstr("did you mean 'all_reduce'?"), HasSubstr("gpu: found nothing"),
                    HasSubstr("ranks: found 17"), HasSubstr("curve.csv:3:")));
}

TEST(ReadMeasuredCollectives, RanksBelongToTheNodes) {
  EXPECT_EQ(ErrorOf(Row("1024", "10", "all_reduce", "15")), "");  // one GPU left out
  EXPECT_THAT(ErrorOf(Row("1024", "10", "all_reduce", "1")), HasSubstr("2 to 16"));
  EXPECT_THAT(ErrorOf(Row("1024", "10", "all_reduce", "99999999999")), HasSubstr("at most"));
}

}  // namespace
}  // namespace stepsim
