#include "sim/config/condition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sim/base/diagnostics.h"

namespace stepsim {
namespace {

using ::testing::HasSubstr;

ConditionName Number(const std::string& name, Unit unit = Unit::kNone, double plain = 0) {
  return {name, {ConditionKind::kNumber, unit, plain, {}}};
}
ConditionName Text(const std::string& name, std::vector<std::string> choices = {}) {
  return {name, {ConditionKind::kText, Unit::kNone, 0, std::move(choices)}};
}

const std::vector<ConditionName>& Known() {
  static const std::vector<ConditionName> names = {
      Number("nodes"),
      Number("tp"),
      Number("exposed"),
      Number("memory", Unit::kBytes),
      Number("step_time", Unit::kTime),
      Number("step_time_s", Unit::kTime, 1),
      Number("tflops", Unit::kFlopRate, 1e12),
      Number("bandwidth", Unit::kBandwidth),
      Text("network"),
      Text("plan.strategy", {"ddp", "fsdp2", "zero3"}),
      {"is_fast", {ConditionKind::kBool, Unit::kNone, 0, {}}},
  };
  return names;
}

// The values of every name above, by the same order.
bool Holds(const std::string& text) {
  const std::vector<ConditionValue> all = {8.0,
                                           2.0,
                                           0.06,
                                           90e9,
                                           1.5,
                                           1.5,
                                           300e12,
                                           50e9,
                                           std::string("ethernet-25g"),
                                           std::string("fsdp2"),
                                           true};
  const Condition condition(text, {}, Known());
  std::vector<ConditionValue> values;
  for (const ConditionName& name : condition.names()) {
    for (std::size_t i = 0; i < Known().size(); ++i) {
      if (Known()[i].name == name.name) values.push_back(all[i]);
    }
  }
  return condition.Holds(values);
}

std::string ErrorOf(const std::string& text) {
  try {
    Condition(text, {"sweep.yaml", 3, 5}, Known());
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.diagnostics().size(), 1u);
    EXPECT_EQ(error.diagnostics().front().place.ToString(), "sweep.yaml:3:5");
    return error.diagnostics().front().message;
  }
  return "";
}

TEST(Condition, Compares) {
  EXPECT_TRUE(Holds("nodes == 8"));
  EXPECT_FALSE(Holds("nodes != 8"));
  EXPECT_TRUE(Holds("nodes >= 8"));
  EXPECT_FALSE(Holds("nodes > 8"));
  EXPECT_TRUE(Holds("nodes <= 8"));
  EXPECT_FALSE(Holds("nodes < 8"));
}

TEST(Condition, AndBindsTighterThanOrAndNotTighterThanBoth) {
  EXPECT_TRUE(Holds("nodes == 8 or nodes == 1 and nodes == 2"));
  EXPECT_FALSE(Holds("(nodes == 8 or nodes == 1) and nodes == 2"));
  EXPECT_TRUE(Holds("not nodes == 1 and nodes == 8"));
  EXPECT_FALSE(Holds("not (nodes == 1 or nodes == 8)"));
  EXPECT_TRUE(Holds("nodes == 8 || nodes == 1 && nodes == 2"));
  EXPECT_TRUE(Holds("!(nodes == 1)"));
}

TEST(Condition, Calculates) {
  EXPECT_TRUE(Holds("nodes * tp == 16"));
  EXPECT_TRUE(Holds("nodes + tp * 3 == 14"));
  EXPECT_TRUE(Holds("(nodes + tp) * 3 == 30"));
  EXPECT_TRUE(Holds("nodes - 3 - 2 == 3"));  // from the left
  EXPECT_TRUE(Holds("nodes / tp / 2 == 2"));
  EXPECT_TRUE(Holds("nodes mod 3 == 2"));
  EXPECT_TRUE(Holds("-nodes < -7"));
  EXPECT_TRUE(Holds("nodes==8"));
  EXPECT_TRUE(Holds("nodes-8==0"));
}

TEST(Condition, PercentIsAHundredth) {
  EXPECT_TRUE(Holds("exposed > 5%"));
  EXPECT_FALSE(Holds("exposed > 7%"));
  EXPECT_THAT(ErrorOf("nodes % 3 == 1"), HasSubstr("'mod'"));
}

TEST(Condition, QuantitiesHaveUnits) {
  EXPECT_TRUE(Holds("memory > 80GiB"));  // 90e9 > 80 * 2^30 = 85.9e9
  EXPECT_FALSE(Holds("memory > 84 GiB"));
  EXPECT_TRUE(Holds("step_time > 1.2s and step_time < 1600ms"));
  EXPECT_TRUE(Holds("bandwidth == 400 Gb/s"));  // 400e9 / 8
  EXPECT_TRUE(Holds("bandwidth == 50 GB/s"));
  EXPECT_TRUE(Holds("memory / bandwidth == 1.8 s"));
  EXPECT_TRUE(Holds("bandwidth * step_time == 75GB"));
  EXPECT_TRUE(Holds("memory / step_time == 60 GB/s"));
  EXPECT_TRUE(Holds("100 GB/memory > 1.1"));  // the unit ends before the slash
  EXPECT_TRUE(Holds("2 * memory > 160 GiB"));
  EXPECT_TRUE(Holds("tflops >= 300 TFLOP/s"));
}

TEST(Condition, APlainNumberCountsInTheUnitOfTheName) {
  EXPECT_TRUE(Holds("step_time_s > 1.4"));
  EXPECT_FALSE(Holds("step_time_s > 1.6"));
  EXPECT_TRUE(Holds("1.4 < step_time_s"));
  EXPECT_TRUE(Holds("step_time_s < 1600 ms"));
  EXPECT_TRUE(Holds("tflops > 299"));
  EXPECT_TRUE(Holds("301 > tflops"));
  EXPECT_TRUE(Holds("step_time_s + 1 == 2.5 s"));
  EXPECT_THAT(ErrorOf("step_time > 1.2"), HasSubstr("found s beside a number without a unit"));
}

TEST(Condition, TextsNeedNoQuotesBesideATextName) {
  EXPECT_TRUE(Holds("network == ethernet-25g"));
  EXPECT_TRUE(Holds("network == 'ethernet-25g'"));
  EXPECT_TRUE(Holds("network != \"ethernet-10g\""));
  EXPECT_TRUE(Holds("'ethernet-25g' == network"));
  EXPECT_TRUE(Holds("plan.strategy in (ddp, fsdp2)"));
  EXPECT_FALSE(Holds("plan.strategy in [ddp, zero3]"));
  EXPECT_TRUE(Holds("nodes in (4, 8)"));
  EXPECT_TRUE(Holds("nodes * 2 in (16, 32) and not nodes in (1, 2)"));
  EXPECT_THAT(ErrorOf("plan.strategy == fsdp3"), HasSubstr("did you mean 'fsdp2'?"));
  EXPECT_THAT(ErrorOf("network < ethernet"), HasSubstr("found a text here"));
}

TEST(Condition, TruthValuesStandAlone) {
  EXPECT_TRUE(Holds("is_fast"));
  EXPECT_FALSE(Holds("not is_fast"));
  EXPECT_TRUE(Holds("is_fast == true"));
  EXPECT_THAT(ErrorOf("nodes and is_fast"), HasSubstr("before 'and'"));
  EXPECT_THAT(ErrorOf("is_fast and nodes"), HasSubstr("behind 'and'"));
  EXPECT_THAT(ErrorOf("not nodes"), HasSubstr("behind 'not'"));
  EXPECT_THAT(ErrorOf("nodes + 1"), HasSubstr("allowed: a comparison"));
}

TEST(Condition, WhatIsNotSetEqualsNullOnly) {
  const auto holds = [](const std::string& text) {
    return Condition(text, {}, {Number("cap")}).Holds({ConditionValue{}});
  };
  EXPECT_TRUE(holds("cap == null"));
  EXPECT_FALSE(holds("cap != null"));
  EXPECT_FALSE(holds("cap == 25"));
  EXPECT_TRUE(holds("cap != 25"));
  EXPECT_FALSE(holds("cap < 25"));
  EXPECT_FALSE(holds("cap >= 25"));
  EXPECT_FALSE(holds("-cap * 2 < 25"));
}

TEST(Condition, DividingByZeroFulfilsNothing) {
  EXPECT_FALSE(Holds("nodes / (tp - 2) > 0"));
  EXPECT_FALSE(Holds("nodes / (tp - 2) <= 0"));
  EXPECT_FALSE(Holds("nodes / (tp - 2) != 1"));
  EXPECT_FALSE(Holds("nodes mod (tp - 2) == 0"));
}

TEST(Condition, NamesAreListedOnce) {
  const Condition condition("nodes > 1 and tp > 1 and nodes < 9", {}, Known());
  ASSERT_EQ(condition.names().size(), 2u);
  EXPECT_EQ(condition.names()[0].name, "nodes");
  EXPECT_EQ(condition.names()[1].name, "tp");
}

TEST(Condition, DescribesWhatItWasJudgedBy) {
  const Condition condition("memory > 80 GiB and network == x and is_fast", {}, Known());
  EXPECT_EQ(condition.DescribeValues({85899345920.0, std::string("y"), ConditionValue{}}),
            "memory 80.0 GiB, network 'y', is_fast not set");
}

TEST(Condition, WrongTextsAreNamed) {
  EXPECT_THAT(ErrorOf(""), HasSubstr("found nothing"));
  EXPECT_THAT(ErrorOf("   "), HasSubstr("found nothing"));
  EXPECT_THAT(ErrorOf("node > 4"), HasSubstr("did you mean 'nodes'?"));
  EXPECT_THAT(ErrorOf("strategy == ddp"), HasSubstr("did you mean 'plan.strategy'?"));
  EXPECT_THAT(ErrorOf("nodes = 4"), HasSubstr("allowed: '=='"));
  EXPECT_THAT(ErrorOf("nodes >"), HasSubstr("found the end"));
  EXPECT_THAT(ErrorOf("(nodes > 4"), HasSubstr("no ')'"));
  EXPECT_THAT(ErrorOf("nodes > 4)"), HasSubstr("found ')'"));
  EXPECT_THAT(ErrorOf("1 < nodes < 4"), HasSubstr("second comparison"));
  EXPECT_THAT(ErrorOf("nodes > 4x"), HasSubstr("found 'x' as a unit"));
  EXPECT_THAT(ErrorOf("memory > step_time"), HasSubstr("found bytes beside s"));
  EXPECT_THAT(ErrorOf("memory * step_time > 1"), HasSubstr("bytes times s"));
  EXPECT_THAT(ErrorOf("network == 'x"), HasSubstr("second quote"));
  EXPECT_THAT(ErrorOf("nodes == ddp"), HasSubstr("unknown name 'ddp'"));
  EXPECT_THAT(ErrorOf("nodes in 4"), HasSubstr("no list behind 'in'"));
  EXPECT_THAT(ErrorOf("nodes in (4"), HasSubstr("in the list"));
  EXPECT_THAT(ErrorOf(std::string(5000, '(')), HasSubstr("at most 4096"));
  EXPECT_THAT(ErrorOf(std::string(2000, '(')), HasSubstr("nested"));
  EXPECT_THAT(ErrorOf(std::string(2000, '-')), HasSubstr("nested"));
}

}  // namespace
}  // namespace stepsim
