// Do the layer lists of configs/models fill DDP's buckets as the real networks do? Bytes recorded
// with torch 1.13.1: tests/data/ddp_model_buckets.csv.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "models/parallel/ddp_buckets.h"
#include "models/run_step.h"
#include "models/workload/workload.h"
#include "tests/support/shipped.h"

namespace stepsim {
namespace {

using ::testing::ElementsAre;
using ::testing::Eq;

struct Recording {
  std::string model;
  bool is_reverse_registration = false;
  std::vector<double> limits_mib;
  std::vector<std::int64_t> bytes;
};

std::vector<double> Numbers(const std::string& text) {
  std::istringstream stream(text);
  std::vector<double> numbers;
  for (double number = 0; stream >> number;) numbers.push_back(number);
  return numbers;
}

std::vector<Recording> ReadRecordings() {
  std::istringstream table(testing::ReadRepositoryFile("tests/data/ddp_model_buckets.csv"));
  std::vector<Recording> recordings;
  for (std::string line; std::getline(table, line);) {
    if (line.empty() || line[0] == '#' || line.rfind("model,", 0) == 0) continue;
    std::istringstream cells(line);
    std::string model, order, limits, bytes;  // the free text after them is the source
    std::getline(cells, model, ',');
    std::getline(cells, order, ',');
    std::getline(cells, limits, ',');
    std::getline(cells, bytes, ',');
    Recording recording{model, order == "reverse_registration", Numbers(limits), {}};
    for (const double b : Numbers(bytes)) {
      recording.bytes.push_back(static_cast<std::int64_t>(b));
    }
    recordings.push_back(recording);
  }
  return recordings;
}

// fp32, as the recordings are.
Workload WorkloadOf(const std::string& model) {
  const std::string path = "configs/models/" + model + ".yaml";
  JobSpec job;
  job.model = LoadModelText(testing::ReadRepositoryFile(path), path);
  job.precision = {DType::kFp32, DType::kFp32};
  return BuildWorkload(job);
}

std::vector<std::int64_t> BytesOf(const std::vector<Bucket>& buckets) {
  std::vector<std::int64_t> bytes;
  for (const Bucket& bucket : buckets) bytes.push_back(bucket.bytes.value);
  return bytes;
}

TEST(ResNetBuckets, AsAutogradDeliversTheGradients) {
  int compared = 0;
  for (const Recording& recording : ReadRecordings()) {
    if (recording.is_reverse_registration) continue;
    const DdpPlan plan{.bucket_cap_mb_list = recording.limits_mib};
    EXPECT_EQ(BytesOf(PlanBuckets(plan, WorkloadOf(recording.model))), recording.bytes)
        << recording.model << ", second limit " << recording.limits_mib.back();
    ++compared;
  }
  EXPECT_EQ(compared, 5);
}

TEST(ResNetBuckets, ExactlyBackwards) {
  int compared = 0;
  for (const Recording& recording : ReadRecordings()) {
    if (!recording.is_reverse_registration) continue;
    const Workload workload = WorkloadOf(recording.model);
    std::vector<std::int32_t> order(workload.parameters.size());
    std::iota(order.rbegin(), order.rend(), 0);
    const std::vector<Bytes> limits = BucketLimits({.bucket_cap_mb_list = recording.limits_mib});
    EXPECT_EQ(BytesOf(AssignBuckets(workload.parameters, order, limits, false)), recording.bytes)
        << recording.limits_mib.back();
    ++compared;
  }
  EXPECT_EQ(compared, 2);
}

// The whole road, from the job's fields to what goes over the wire. pytorch/pytorch issue #48880
// shows these sizes in a user's log; its torch had the 1 MiB first bucket beside an explicit cap.
std::vector<std::int64_t> ReducedBytes(const std::string& ddp) {
  const StepResult result = RunStep(testing::LoadText(
      "model: resnet-18\nhardware: v100-dgx1\nprecision: {compute: fp32, parameters: fp32}\n"
      "plan: {ddp: " +
      ddp + "}\n"));
  std::vector<std::int64_t> bytes;
  for (const CollectiveReport& collective : result.report.collectives) {
    if (collective.site == Site::kGradientReduce) bytes.push_back(collective.bytes.value);
  }
  return bytes;
}

TEST(ResNetBuckets, CapOf25InAReport) {
  EXPECT_THAT(ReducedBytes("{}"), ElementsAre(2'052'000, 28'852'224, 15'853'824));
  EXPECT_THAT(ReducedBytes("{bucket_cap_mb: 25, first_bucket_mb: 1}"),
              ElementsAre(2'052'000, 28'852'224, 15'853'824));
}

TEST(ResNetBuckets, CapOf35InAReport) {
  EXPECT_THAT(ReducedBytes("{bucket_cap_mb: 35, first_bucket_mb: 1}"),
              ElementsAre(2'052'000, 38'297'600, 6'408'448));
}

// 62 tensors, 46,758,048 bytes (the same issue): nothing is lost on the way.
TEST(ResNetBuckets, HoldTheWholeNetwork) {
  const Workload workload = WorkloadOf("resnet-18");
  EXPECT_THAT(workload.parameters.size(), Eq(62u));
  EXPECT_EQ(workload.parameter_bytes(), Bytes{46'758'048});
}

}  // namespace
}  // namespace stepsim
