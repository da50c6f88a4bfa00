// Does the simulator say what a case expects? Simulates the variants that are asked for, each once.
//
//   CaseRun run(user_case);
//   const Verdict verdict = run.Judge(user_case.expect[0]);
//   // verdict.holds, verdict.reached ("1.31")
#pragma once

#include <map>
#include <string>

#include "sim/metrics/step_report.h"
#include "tests/support/user_case.h"

namespace stepsim::testing {

struct Verdict {
  bool holds = false;
  std::string reached;  // "1.31", "0.51 <= 0.66", or why there is no number
};

class CaseRun {
 public:
  // REQUIRES: `user_case` lives as long as this.
  explicit CaseRun(const UserCase& user_case) : case_(user_case) {}

  // Never throws what a job throws: then nothing holds, and `reached` says why.
  Verdict Judge(const CaseExpectation& expectation);
  // What was found for the unknowns so far: "link = 4.2 (Gb/s of a port)".
  std::string Found() const;

 private:
  double Value(const std::string& expression);
  double ValueOf(const std::string& name);
  double Solve(const CaseUnknown& unknown);
  double Bisect(const CaseUnknown& unknown);
  double Measure(const CaseVariant& variant, const std::string& metric);
  std::vector<std::string> SetsOf(const CaseVariant& variant);
  const StepReport& Report(const ConfigNode& job, const std::vector<std::string>& sets);
  Verdict JudgeOrder(const CaseExpectation& expectation);
  Verdict JudgeValue(const CaseExpectation& expectation);

  const UserCase& case_;
  std::map<std::string, double> known_;  // unknowns that are found, or being tried
  std::map<std::string, StepReport> reports_;
};

}  // namespace stepsim::testing
