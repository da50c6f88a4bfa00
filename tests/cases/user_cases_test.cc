// Does the simulator answer what practitioners asked in public? Every entry of tests/cases/*.yaml
// is one test. A case that passes must; one that does not yet must not start to without being told.
//
// Each test leaves its words and figures in GoogleTest's report; tools/dev/user_cases.py makes
// results/validation/user_cases.md of it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "tests/support/run_case.h"
#include "tests/support/shipped.h"
#include "tests/support/user_case.h"

namespace stepsim::testing {

// GoogleTest prints parameters with it.
void PrintTo(const UserCase& user_case, std::ostream* out) { *out << user_case.id; }

namespace {

class UserCases : public ::testing::TestWithParam<UserCase> {};

std::string ToleranceText(const CaseExpectation& e) {
  std::string text;
  if (e.value && e.within) {
    text = fmt::format("{:.4g} within {:.3g}%", *e.value, 100 * *e.within);
  } else if (e.value && *e.plus_minus == 0) {
    text = fmt::format("{:.6g}", *e.value);
  } else if (e.value) {
    text = fmt::format("{:.4g} +- {:.3g}", *e.value, *e.plus_minus);
  }
  if (e.at_least) text += fmt::format("{}at least {:.4g}", text.empty() ? "" : ", ", *e.at_least);
  if (e.at_most) text += fmt::format("{}at most {:.4g}", text.empty() ? "" : ", ", *e.at_most);
  return text;
}

std::string WhatWasAsked(const CaseExpectation& e) {
  if (e.kind == ExpectationKind::kOrdering) {
    std::string text;
    for (const std::string& value : e.order) {
      text += (text.empty() ? "" : e.strictly ? " < " : " <= ") + value;
    }
    return text;
  }
  return e.of + ": " + ToleranceText(e);
}

void Record(const std::string& key, const std::string& value) {
  ::testing::Test::RecordProperty(key, value);
}

// "not yet"
std::string VerdictText(CaseStatus status) {
  std::string text(ToString(status));
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

// Fails when a verdict is not the one that the case states.
void Compare(const UserCase& user_case, const CaseExpectation& e, const Verdict& verdict,
             const std::string& found) {
  const std::string about = fmt::format(
      "{}: {} ({})\n  {}\n  asked    {}: {}\n  reached  {}\n  found    {}\n  measured {}",
      user_case.place, user_case.id, user_case.source, user_case.question, e.claim, WhatWasAsked(e),
      verdict.reached, found.empty() ? "-" : found, user_case.measured);
  if (e.status == CaseStatus::kPass) {
    EXPECT_TRUE(verdict.holds) << about;
  } else {
    EXPECT_FALSE(verdict.holds) << about << "\n  It holds now: give it `status: pass`.";
  }
}

TEST_P(UserCases, SaysWhatWasMeasured) {
  const UserCase& user_case = GetParam();
  Record("case", user_case.id);
  Record("question", user_case.question);
  Record("source", user_case.source);
  Record("measured", user_case.measured);
  Record("missing", user_case.missing);
  Record("tier", std::string(ToString(user_case.tier)));
  Record("verdict", VerdictText(user_case.status));
  Record("why", user_case.why);
  CaseRun run(user_case);
  for (std::size_t i = 0; i < user_case.expect.size(); ++i) {
    const CaseExpectation& e = user_case.expect[i];
    const Verdict verdict = run.Judge(e);
    const std::string number = std::to_string(i + 1);
    Record("kind_" + number, std::string(ToString(e.kind)));
    Record("claim_" + number, e.claim);
    Record("asked_" + number, WhatWasAsked(e));
    Record("tolerance_" + number, ToleranceText(e));
    Record("reached_" + number, verdict.reached);
    Record("holds_" + number, verdict.holds ? "yes" : "no");
    Compare(user_case, e, verdict, run.Found());
  }
  std::string tests;
  for (const std::string& test : user_case.tests) tests += (tests.empty() ? "" : "; ") + test;
  Record("tests", tests);
  Record("found", run.Found());
}

// "tests/configs/resnet_buckets_test.cc ResNetBuckets.CapOf25InAReport"
TEST_P(UserCases, NamesTestsThatExist) {
  for (const std::string& test : GetParam().tests) {
    const std::size_t blank = test.find(' '), dot = test.rfind('.');
    ASSERT_TRUE(blank != std::string::npos && dot != std::string::npos && dot > blank) << test;
    const std::string head =
        "(" + test.substr(blank + 1, dot - blank - 1) + ", " + test.substr(dot + 1) + ")";
    EXPECT_THAT(ReadRepositoryFile(test.substr(0, blank)), ::testing::HasSubstr(head))
        << GetParam().place;
  }
}

// A case passes when everything in it does.
TEST_P(UserCases, StatusIsThatOfItsExpectations) {
  const UserCase& user_case = GetParam();
  const bool all_pass =
      std::all_of(user_case.expect.begin(), user_case.expect.end(),
                  [](const CaseExpectation& e) { return e.status == CaseStatus::kPass; });
  if (!user_case.expect.empty() && user_case.status == CaseStatus::kPass) {
    EXPECT_TRUE(all_pass) << user_case.place;
  }
  if (!all_pass) {
    EXPECT_EQ(user_case.status, CaseStatus::kNotYet) << user_case.place;
  }
}

// results/validation/user_cases.md is of these cases.
TEST_P(UserCases, HasItsRowInTheTable) {
  const UserCase& user_case = GetParam();
  EXPECT_THAT(ReadRepositoryFile("results/validation/user_cases.md"),
              ::testing::HasSubstr(fmt::format("\n| [{}]({}) | {} | ", user_case.id,
                                               user_case.source, VerdictText(user_case.status))))
      << "run tools/dev/user_cases.py";
}

INSTANTIATE_TEST_SUITE_P(Shipped, UserCases, ::testing::ValuesIn(ShippedUserCases()),
                         [](const auto& row) { return row.param.id; });

TEST(UserCaseFiles, NoCaseIsThereTwice) {
  std::set<std::string> ids;
  for (const UserCase& one : ShippedUserCases()) {
    EXPECT_TRUE(ids.insert(one.id).second) << one.place;
  }
}

}  // namespace
}  // namespace stepsim::testing
