// Predictions against published measurements. tests/data/nccl_curves_small.csv holds nccl-tests
// results of fourteen systems with their sources; the bounds here are the errors published in
// models/README.md, widened for the smaller sample. They only ever get tighter.
#include "models/calibration/collective_validation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "models/calibration/error_statistics.h"
#include "models/spec/load_job.h"
#include "tests/support/shipped.h"

namespace stepsim {
namespace {

std::vector<MeasuredCollective> SmallTable() {
  const std::string path = "tests/data/nccl_curves_small.csv";
  return ReadMeasuredCollectives(testing::ReadRepositoryFile(path), path);
}

class Validation : public ::testing::Test {
 protected:
  double MedianError(const std::vector<Prediction>& predictions, LinkClass link_class) const {
    std::vector<double> errors;
    for (const Prediction& p : predictions) {
      if (!validation_.IsScored(p.point) || p.is_calibration || !p.is_predicted) continue;
      if (validation_.system(p.point).link_class != link_class) continue;
      errors.push_back(p.Error(validation_.points()[p.point]));
    }
    EXPECT_GE(errors.size(), 10u);
    return Summarize(errors).median;
  }
  ValidationOptions Shipped(KnownSizes calibration = KnownSizes::kNone) const {
    return {.calibration = calibration,
            .corrections = LoadCorrections("nccl", testing::ShippedConfigs())};
  }

  CollectiveValidation validation_{SmallTable(), testing::ShippedConfigs()};
};

TEST_F(Validation, ShippedCorrectionsReachThePublishedAccuracy) {
  const std::vector<Prediction> model = validation_.Predict(Shipped());
  EXPECT_LT(MedianError(model, LinkClass::kNvlink), 0.07);
  EXPECT_LT(MedianError(model, LinkClass::kInfiniband), 0.07);
  EXPECT_LT(MedianError(model, LinkClass::kCloud), 0.12);
}

TEST_F(Validation, TwoPointsPerCurveHelp) {
  const std::vector<Prediction> model = validation_.Predict(Shipped(KnownSizes::kTwoPoint));
  EXPECT_LT(MedianError(model, LinkClass::kNvlink), 0.07);
}

TEST_F(Validation, BeatsNcclsTableAndTheTextbook) {
  const double model = MedianError(validation_.Predict(Shipped()), LinkClass::kInfiniband);
  const double bare =
      MedianError(validation_.Predict({.predictor = Predictor::kBareNccl}), LinkClass::kInfiniband);
  const double naive = MedianError(validation_.Predict({.predictor = Predictor::kNaiveRing}),
                                   LinkClass::kInfiniband);
  EXPECT_LT(3 * model, bare);
  EXPECT_LT(3 * model, naive);
}

TEST_F(Validation, CalibratedPredictionsPassThroughTheirPoints) {
  for (const KnownSizes calibration : {KnownSizes::kTwoPoint, KnownSizes::kKnots}) {
    int told = 0;
    for (const Prediction& p : validation_.Predict(Shipped(calibration))) {
      if (!p.is_calibration) continue;
      ++told;
      EXPECT_NEAR(p.Error(validation_.points()[p.point]), 0, 1e-6);
    }
    EXPECT_GT(told, 20);
  }
}

// Leaving a system out means out: whatever its own times are, its prediction stays.
TEST(LeaveOneOut, APoisonedSystemDoesNotChangeItsOwnPrediction) {
  std::vector<MeasuredCollective> table = SmallTable();
  const CollectiveValidation honest(table, testing::ShippedConfigs());
  const std::string poisoned = "crusoe_h100_2n";
  for (MeasuredCollective& point : table) {
    if (point.system_id == poisoned) point.seconds *= 100;
  }
  const CollectiveValidation spoilt(table, testing::ShippedConfigs());
  const auto before = honest.Predict({.leave_one_out = true});
  const auto after = spoilt.Predict({.leave_one_out = true});
  bool changed_elsewhere = false;
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (table[i].system_id == poisoned) {
      EXPECT_EQ(before[i].seconds, after[i].seconds);
    } else {
      changed_elsewhere = changed_elsewhere || before[i].seconds != after[i].seconds;
    }
  }
  EXPECT_TRUE(changed_elsewhere);  // the others do see it
}

TEST(ValidationTable, RowsWithoutAProfileAreKept) {
  std::vector<MeasuredCollective> table = SmallTable();
  table.front().gpu = "Q9000";
  const CollectiveValidation validation(table, testing::ShippedConfigs());
  const auto predictions = validation.Predict({});
  ASSERT_EQ(predictions.size(), table.size());
  EXPECT_FALSE(predictions.front().is_predicted);
  EXPECT_FALSE(validation.IsScored(0));
}

}  // namespace
}  // namespace stepsim
