// How does the text of a condition become steps? The grammar behind condition.h.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "sim/config/condition.h"

namespace stepsim {

enum class ConditionOperator : std::size_t {
  kNot,
  kNegate,
  kAnd,
  kOr,
  kEqual,
  kUnequal,
  kLess,
  kLessOrEqual,
  kGreater,
  kGreaterOrEqual,
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kModulo,
};

struct ParsedCondition {
  std::vector<ConditionName> names;
  std::vector<Condition::Step> steps;
};

// Throws ConfigError.
ParsedCondition ParseCondition(std::string_view text, const Place& place,
                               const std::vector<ConditionName>& known);

}  // namespace stepsim
