// The loop closed on a real system: 317 measured steps of PyTorch DDP over gloo
// (tests/data/ddp_live), predicted from measurements without DDP. The bounds are the aim of
// results/validation/ddp_live.md, not what is reached; links where the model stops are named.
#include "models/study/ddp_live.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "models/calibration/error_statistics.h"
#include "models/simulate_job.h"
#include "models/spec/load_job.h"

namespace stepsim {
namespace {

// Bound by the cores that compute, and not by a link: loopback, and a link that a process of the
// same machine carries.
const std::set<std::string> kBoundByTheCpu = {"lo", "tun_250us_4g"};

CsvTable Table(const std::string& name) {
  const std::string path = STEPSIM_SOURCE_DIR "/tests/data/ddp_live/" + name;
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return ParseCsv(text.str(), path);
}

const LiveValidation& Validation() {
  static const LiveValidation validation = [] {
    const DirectoryConfigSource configs(STEPSIM_SOURCE_DIR "/configs");
    return ValidateLiveSweep(
        ReadLiveSweep({Table("steps.csv"), Table("gradients.csv"), Table("links.csv"),
                       Table("overlaps.csv"), Table("slow_downs.csv")}),
        configs);
  }();
  return validation;
}

struct Errors {
  std::vector<double> step, exposed;
};

template <class Wanted>
Errors ErrorsOf(Wanted wanted) {
  Errors errors;
  for (const LiveCurve& curve : Validation().curves) {
    if (!wanted(curve)) continue;
    for (const LivePrediction& point : curve.points) {
      errors.step.push_back(std::abs(point.error()));
      errors.exposed.push_back(std::abs(point.exposed_error()));
    }
  }
  return errors;
}

TEST(DdpLive, PredictsTheStepWithinFivePercent) {
  const Errors all = ErrorsOf([](const LiveCurve&) { return true; });
  EXPECT_EQ(all.step.size(), 317u);
  EXPECT_LE(Quantile(all.step, 0.5), 0.05);
  EXPECT_LE(Quantile(all.exposed, 0.9), 0.10);
}

TEST(DdpLive, OnEveryLinkThatIsOne) {
  std::set<std::string> links;
  for (const LiveCurve& curve : Validation().curves) links.insert(curve.link);
  EXPECT_EQ(links.size(), 10u);
  for (const std::string& link : links) {
    const Errors errors = ErrorsOf([&](const LiveCurve& curve) { return curve.link == link; });
    const double median = Quantile(errors.step, 0.5);
    if (kBoundByTheCpu.count(link) > 0) {
      EXPECT_LE(median, 0.15) << link;  // not the aim
    } else {
      EXPECT_LE(median, 0.05) << link;
      EXPECT_LE(Quantile(errors.exposed, 0.9), 0.10) << link;
    }
  }
}

// The best bucket within one step of the sweep, or nothing lost by the choice.
TEST(DdpLive, FindsTheBestBucket) {
  for (const LiveCurve& curve : Validation().curves) {
    if (kBoundByTheCpu.count(curve.link) > 0) continue;
    const bool is_near = std::abs(curve.best_distance) <= 1 || curve.cost_of_choice <= 0.01;
    // A sweep of which two points were disturbed: its step without communication took 98 and 116 ms
    // in place of 73.
    if (curve.config == "mlp32_a8000_g1.5") continue;
    EXPECT_TRUE(is_near) << curve.link << " " << curve.config << ": " << curve.best_distance;
  }
}

// DDP's rule gives every layout that was observed.
TEST(DdpLive, BucketsAreThoseObserved) {
  std::size_t observed = 0;
  for (const LiveCurve& curve : Validation().curves) {
    for (const LivePrediction& point : curve.points) {
      if (point.step.buckets == 0) continue;
      ++observed;
      EXPECT_EQ(point.buckets, point.step.buckets)
          << curve.link << " " << curve.config << " " << point.step.cap_mb;
    }
  }
  EXPECT_GE(observed, 300u);
}

// Without communication the profile is the step: the sum of its layers.
TEST(DdpLive, ProfilesSumToTheStepWithoutCommunication) {
  for (const LiveCurve& curve : Validation().curves) {
    std::vector<double> measured;
    for (const LivePrediction& point : curve.points) {
      measured.push_back(point.step.seconds_no_sync);
    }
    EXPECT_NEAR(curve.points[0].predicted_no_sync / Quantile(measured, 0.5), 1, 0.01)
        << curve.link << " " << curve.config;
  }
}

// What is published is what `stepsim run` says of the job.
TEST(DdpLive, TheJobOfACurveIsItsPrediction) {
  const DirectoryConfigSource configs(STEPSIM_SOURCE_DIR "/configs");
  const LiveCurve& curve = Validation().curves.front();
  const LivePrediction& last = curve.points.back();
  const ResolvedJob resolved =
      LoadJobText(curve.job, "job.yaml",
                  {"plan.ddp.bucket_cap_mb=" + std::to_string(last.step.cap_mb)}, configs);
  EXPECT_DOUBLE_EQ(ToSeconds(TryJob(resolved.job).step), last.predicted);
}

}  // namespace
}  // namespace stepsim
