#include "models/parallel/ddp_buckets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace stepsim {
namespace {

using testing::ElementsAre;

std::vector<std::string> Split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

std::vector<std::string> Words(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

// The rows of a table whose cells hold no commas before the free-text source; comments skipped.
std::vector<std::vector<std::string>> ReadTable(const std::string& name) {
  std::ifstream file(std::string(STEPSIM_SOURCE_DIR) + "/tests/data/" + name);
  std::vector<std::vector<std::string>> rows;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line[0] != '#') rows.push_back(Split(line, ','));
  }
  if (!rows.empty()) rows.erase(rows.begin());  // the header
  return rows;
}

struct AssignmentCase {
  std::string name;
  bool is_construction = false;
  std::vector<Bytes> limits;
  std::vector<std::string> names;
  std::vector<ParameterTensor> parameters;  // in the order walked
  std::string buckets;
  std::vector<std::int64_t> bytes;
};

std::vector<AssignmentCase> ReadCases() {
  std::vector<AssignmentCase> cases;
  for (const auto& row : ReadTable("ddp_buckets.csv")) {
    AssignmentCase c;
    c.name = row[0];
    c.is_construction = row[1] == "construction_unused";
    for (const std::string& limit : Words(row[2])) {
      c.limits.push_back(Bytes{limit == "unlimited" ? INT64_MAX : std::stoll(limit)});
    }
    for (const std::string& tensor : Words(row[3])) {
      const auto cells = Split(tensor, ':');
      const DType dtype = *ParseDType(cells[1]);
      c.names.push_back(cells[0]);
      c.parameters.push_back({cells[0], std::stoll(cells[2]) / ElementSize(dtype).value, dtype});
    }
    c.buckets = row[4];
    for (const std::string& bytes : Words(row[5])) c.bytes.push_back(std::stoll(bytes));
    cases.push_back(c);
  }
  return cases;
}

TEST(AssignBuckets, ReproducesTheFrameworksOwnAssignments) {
  const auto cases = ReadCases();
  ASSERT_EQ(cases.size(), 9u);
  for (const AssignmentCase& c : cases) {
    std::vector<std::int32_t> order;
    for (std::size_t i = 0; i < c.parameters.size(); ++i) order.push_back(static_cast<int>(i));
    auto buckets = AssignBuckets(c.parameters, order, c.limits, c.is_construction);
    if (c.is_construction) std::reverse(buckets.begin(), buckets.end());
    std::string text;
    std::vector<std::int64_t> bytes;
    for (const Bucket& bucket : buckets) {
      if (!text.empty()) text += " |";
      for (const std::int32_t p : bucket.parameters) {
        text += (text.empty() ? "" : " ") + c.names[static_cast<std::size_t>(p)];
      }
      bytes.push_back(bucket.bytes.value);
    }
    EXPECT_EQ(text, c.buckets) << c.name;
    EXPECT_EQ(bytes, c.bytes) << c.name;
  }
}

// schedules 1.1: unset means 25 MiB with a 1 MiB first bucket; an explicit number, even 25, makes
// the first bucket as large as the others; a list holds per bucket and its last cap repeats.
TEST(BucketLimits, FollowTheConstructor) {
  const Bytes mib{1 << 20};
  EXPECT_THAT(BucketLimits({}), ElementsAre(mib, mib * 25));
  EXPECT_THAT(BucketLimits({.bucket_cap_mb = 25}), ElementsAre(mib * 25, mib * 25));
  EXPECT_THAT(BucketLimits({.bucket_cap_mb = 35, .first_bucket_mb = 1}),
              ElementsAre(mib, mib * 35));
  EXPECT_THAT(BucketLimits({.bucket_cap_mb_list = {2, 4, 8}}),
              ElementsAre(mib * 2, mib * 4, mib * 8));
}

// Three tensors of 1 MiB, used in the order 0 1 2, so that gradients arrive 2 1 0.
Workload ThreeTensors() {
  Workload workload;
  for (std::int32_t i = 0; i < 3; ++i) {
    workload.parameters.push_back({"p" + std::to_string(i), 1 << 18, DType::kFp32});
    Operator op;
    op.parameters_ready = {i};
    workload.units.push_back({"u", {op}});
  }
  return workload;
}

std::vector<std::vector<std::int32_t>> Indices(const std::vector<Bucket>& buckets) {
  std::vector<std::vector<std::int32_t>> indices;
  for (const Bucket& bucket : buckets) indices.push_back(bucket.parameters);
  return indices;
}

TEST(PlanBuckets, RebuildsFromArrivalOrder) {
  EXPECT_THAT(Indices(PlanBuckets({.bucket_cap_mb = 2}, ThreeTensors())),
              ElementsAre(ElementsAre(2, 1), ElementsAre(0)));
}

TEST(PlanBuckets, FirstIterationHasOneBucketInRegistrationOrder) {
  EXPECT_THAT(Indices(PlanBuckets({.iteration = TrainingIteration::kFirst}, ThreeTensors())),
              ElementsAre(ElementsAre(0, 1, 2)));
}

// Never rebuilt: the small bucket holds the first registered parameters and is launched last.
TEST(PlanBuckets, UnusedParametersKeepTheReversedConstruction) {
  DdpPlan plan{.bucket_cap_mb_list = {1, 2}, .find_unused_parameters = true};
  EXPECT_THAT(Indices(PlanBuckets(plan, ThreeTensors())),
              ElementsAre(ElementsAre(1, 2), ElementsAre(0)));
  plan.static_graph = true;  // then the rebuild takes place
  EXPECT_THAT(Indices(PlanBuckets(plan, ThreeTensors())),
              ElementsAre(ElementsAre(2), ElementsAre(1, 0)));
}

}  // namespace
}  // namespace stepsim
