// Public questions of practitioners that tensor parallelism answers: what the simulator must say.
// Each test names its case ("UC076") and thread; the measured figures are theirs.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "models/run_step.h"
#include "tests/support/shipped.h"

namespace stepsim {
namespace {

using Sets = std::vector<std::string>;

StepReport Run(const std::string& text, const Sets& sets) {
  StepReport report = RunStep(testing::LoadText(text, sets)).report;
  testing::ExpectIdentity(report);
  return report;
}

double Mfu(const StepReport& report) { return report.mfu(); }

}  // namespace
}  // namespace stepsim
