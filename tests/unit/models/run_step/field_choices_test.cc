// Words that a job may choose from stand in the field table of models/spec; what they mean stands
// in a table of the module that carries them out. The two must be one list, in one order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "models/parallel/strategy.h"
#include "models/spec/spec_fields.h"
#include "models/workload/model_flops.h"
#include "sim/config/describe_fields.h"

namespace stepsim {
namespace {

std::vector<std::string> ChoicesOf(const std::string& path) {
  for (const FieldPath& field : ListFields(JobFields().fields(), "")) {
    if (field.path == path) return field.row->choices;
  }
  ADD_FAILURE() << "no field " << path;
  return {};
}

template <class Rows>
std::vector<std::string> NamesOf(const Rows& rows) {
  std::vector<std::string> names;
  for (const auto& row : rows) names.emplace_back(row.name);
  return names;
}

TEST(FieldChoices, AreTheRowsOfTheTables) {
  EXPECT_EQ(ChoicesOf("plan.strategy"), NamesOf(Strategies()));
  EXPECT_EQ(ChoicesOf("mfu_convention"), NamesOf(FlopConventions()));
}

}  // namespace
}  // namespace stepsim
