// Are cases read and judged as they are written? The format of tests/cases/*.yaml, with cases that
// must fail.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "sim/base/diagnostics.h"
#include "tests/support/expression.h"
#include "tests/support/run_case.h"
#include "tests/support/user_case.h"

namespace stepsim::testing {
namespace {

using ::testing::HasSubstr;

double Compute(const std::string& expression) {
  return Evaluate(expression, [](const std::string& name) {
    return name == "a.x" ? 3 : name == "b.x" ? 5 : throw std::invalid_argument(name);
  });
}

TEST(Expression, IsArithmetic) {
  EXPECT_DOUBLE_EQ(Compute("1 + 2 * a.x - b.x / (2 + 3)"), 6);
  EXPECT_DOUBLE_EQ(Compute("a.x - b.x - 1"), -3);  // from the left
  EXPECT_DOUBLE_EQ(Compute("0.5*b.x/2"), 1.25);
}

TEST(Expression, SaysWhatIsWrong) {
  for (const char* wrong : {"", "1 +", "(1", "1 2", "c.x", "1.2.3", "a.x % 2"}) {
    EXPECT_THROW(Compute(wrong), std::invalid_argument) << wrong;
  }
}

// A case of a job that takes no time to simulate.
std::string CaseText(const std::string& rest) {
  return "cases:\n"
         "  - id: UC000\n"
         "    question: q\n"
         "    source: s\n"
         "    measured: m\n"
         "    status: pass\n"
         "    job: lesson_serial\n" +
         rest;
}

std::string ProblemOf(const std::string& rest) {
  try {
    ReadUserCases(CaseText(rest), "c.yaml");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(ReadUserCases, RefusesWhatCannotBeJudged) {
  const std::string head = "    expect:\n      - {claim: c, reason: r, ";
  EXPECT_EQ(ProblemOf(head + "kind: bound, of: '1', at_most: 2}\n"), "");
  EXPECT_THAT(ProblemOf(head + "kind: bound, of: '1'}\n"), HasSubstr("or bounds"));
  EXPECT_THAT(ProblemOf(head + "kind: ratio, of: '1', value: 2}\n"), HasSubstr("plus_minus"));
  EXPECT_THAT(ProblemOf(head + "kind: ratio, value: 2, within: 0.1}\n"), HasSubstr("have `of`"));
  EXPECT_THAT(ProblemOf(head + "kind: ordering, order: ['1']}\n"), HasSubstr("an ordering"));
  EXPECT_THAT(ProblemOf(head + "kind: odering, of: '1'}\n"), HasSubstr("did you mean 'ordering'"));
  EXPECT_THAT(ProblemOf("    tests: []\n"), HasSubstr("nothing shows that it passes"));
  EXPECT_THAT(ProblemOf("    variants: [{name: base}]\n"), HasSubstr("two variants"));
}

Verdict Judge(const std::string& rest) {
  static UserCase user_case;
  user_case = ReadUserCases(CaseText(rest), "c.yaml").front();
  return CaseRun(user_case).Judge(user_case.expect.front());
}

Verdict JudgeOne(const std::string& expectation) {
  return Judge("    expect:\n      - {claim: c, reason: r, " + expectation + "}\n");
}

TEST(Judge, HoldsOrNot) {
  EXPECT_TRUE(JudgeOne("kind: ratio, of: 3 / 2, value: 1.4, plus_minus: 0.11").holds);
  EXPECT_FALSE(JudgeOne("kind: ratio, of: 3 / 2, value: 1.4, plus_minus: 0.09").holds);
  EXPECT_TRUE(JudgeOne("kind: ratio, of: '90', value: 100, within: 0.11").holds);
  EXPECT_FALSE(JudgeOne("kind: ratio, of: '90', value: 100, within: 0.09").holds);
  EXPECT_FALSE(JudgeOne("kind: exact, of: 0 / 0, value: 0, plus_minus: 1").holds);
  EXPECT_FALSE(JudgeOne("kind: bound, of: '3', at_least: 1, at_most: 2").holds);
  EXPECT_TRUE(JudgeOne("kind: ordering, order: ['1', '1', '2']").holds);
  EXPECT_FALSE(JudgeOne("kind: ordering, order: ['1', '1', '2'], strictly: true").holds);
  EXPECT_FALSE(JudgeOne("kind: ordering, order: ['1', '3', '2']").holds);
}

TEST(Judge, SaysWhyThereIsNoNumber) {
  EXPECT_THAT(JudgeOne("kind: bound, of: base.step_time, at_most: 1").reached,
              HasSubstr("did you mean 'step_time_s'"));
  EXPECT_THAT(JudgeOne("kind: bound, of: other.step_time_s, at_most: 1").reached,
              HasSubstr("found no variant 'other'"));
  const Verdict wrong = Judge(
      "    sets: [nods=2]\n"
      "    expect: [{claim: c, reason: r, kind: bound, of: base.step_time_s, at_most: 100}]\n");
  EXPECT_FALSE(wrong.holds);
  EXPECT_THAT(wrong.reached, HasSubstr("did you mean 'nodes'"));
}

// x^2 = 2, and a value that no x has.
TEST(Judge, FindsUnknowns) {
  const auto find = [](const std::string& is) {
    return Judge("    find: [{name: x, meaning: m, from: 0.1, to: 10, so_that: x * x, is: " + is +
                 "}]\n    expect: [{claim: c, reason: r, kind: inverse, of: x, value: 1.41421, "
                 "within: 0.0002}]\n");
  };
  EXPECT_TRUE(find("2").holds);
  EXPECT_FALSE(find("3").holds);
  EXPECT_THAT(find("200").reached, HasSubstr("it lies between 0.01 and 100"));
}

// What a set says is evaluated: the lesson's 28 GB over 75 x 1.5 instead of 150 GB/s, behind 150 ms
// of compute.
TEST(Judge, PutsUnknownsIntoSets) {
  const std::string text =
      "    find: [{name: x, meaning: m, from: 1, to: 4, so_that: x, is: 1.5}]\n"
      "    variants: [{name: slow, sets: ['hardware.intra_node.bandwidth=${75 * x} GB/s']}]\n"
      "    expect: [{claim: c, reason: r, kind: ratio, within: 0.001, value: 1.1848, of: "
      "slow.step_time_s / base.step_time_s}]\n";
  const Verdict verdict = Judge(text);
  EXPECT_TRUE(verdict.holds) << verdict.reached;
}

}  // namespace
}  // namespace stepsim::testing
