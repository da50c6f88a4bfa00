#include "sim/config/condition.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <utility>

#include "sim/base/check.h"
#include "sim/config/condition_parser.h"

namespace stepsim {
namespace {

using Op = ConditionOperator;

bool IsSet(const ConditionValue& value) { return !std::holds_alternative<std::monostate>(value); }

// What is not set is not true.
bool Truth(const ConditionValue& value) {
  const bool* truth = std::get_if<bool>(&value);
  return truth != nullptr && *truth;
}

double Calculate(Op op, double left, double right) {
  switch (op) {
    case Op::kAdd:
      return left + right;
    case Op::kSubtract:
      return left - right;
    case Op::kMultiply:
      return left * right;
    case Op::kDivide:
      return right == 0 ? std::numeric_limits<double>::quiet_NaN() : left / right;
    default:
      return right == 0 ? std::numeric_limits<double>::quiet_NaN() : std::fmod(left, right);
  }
}

bool Compare(Op op, const ConditionValue& left, const ConditionValue& right) {
  const double* a = std::get_if<double>(&left);
  const double* b = std::get_if<double>(&right);
  if (a == nullptr || b == nullptr) {
    if (op == Op::kEqual) return left == right;
    return op == Op::kUnequal && left != right;
  }
  switch (op) {
    case Op::kEqual:
      return *a == *b;
    case Op::kUnequal:
      return *a < *b || *a > *b;  // false when one of them is no number
    case Op::kLess:
      return *a < *b;
    case Op::kLessOrEqual:
      return *a <= *b;
    case Op::kGreater:
      return *a > *b;
    default:
      return *a >= *b;
  }
}

ConditionValue Apply(Op op, const ConditionValue& left, const ConditionValue& right) {
  if (op == Op::kAnd) return Truth(left) && Truth(right);
  if (op == Op::kOr) return Truth(left) || Truth(right);
  if (op <= Op::kGreaterOrEqual) return Compare(op, left, right);
  if (!IsSet(left) || !IsSet(right)) return {};
  return Calculate(op, std::get<double>(left), std::get<double>(right));
}

ConditionValue Pop(std::vector<ConditionValue>& stack) {
  ConditionValue value = std::move(stack.back());
  stack.pop_back();
  return value;
}

std::string Text(const ConditionType& type, const ConditionValue& value) {
  if (!IsSet(value)) return "not set";
  if (const bool* truth = std::get_if<bool>(&value)) return *truth ? "true" : "false";
  if (const std::string* text = std::get_if<std::string>(&value)) return fmt::format("'{}'", *text);
  const double number = std::get<double>(value);
  switch (type.unit) {
    case Unit::kTime:
      return FormatTime(number);
    case Unit::kBytes:
      return FormatMemory(Bytes{static_cast<std::int64_t>(number)});
    case Unit::kBandwidth:
      return FormatBandwidth(number);
    case Unit::kFlopRate:
      return FormatFlopRate(number);
    default:
      return fmt::format("{:.6g}", number);
  }
}

}  // namespace

Condition::Condition(std::string_view text, const Place& place,
                     const std::vector<ConditionName>& known)
    : text_(text) {
  ParsedCondition parsed = ParseCondition(text_, place, known);
  names_ = std::move(parsed.names);
  steps_ = std::move(parsed.steps);
}

bool Condition::Holds(const std::vector<ConditionValue>& values) const {
  SIM_CHECK(values.size() == names_.size(), "a condition gets a value for each of its names");
  std::vector<ConditionValue> stack;
  for (const Step& step : steps_) {
    if (step.kind == Step::Kind::kLiteral) {
      stack.push_back(step.literal);
      continue;
    }
    if (step.kind == Step::Kind::kName) {
      stack.push_back(values[step.index]);
      continue;
    }
    const Op op = static_cast<Op>(step.index);
    ConditionValue right = Pop(stack);
    if (op == Op::kNot) {
      stack.emplace_back(!Truth(right));
    } else if (op == Op::kNegate) {
      stack.push_back(IsSet(right) ? ConditionValue(-std::get<double>(right)) : ConditionValue());
    } else {
      const ConditionValue left = Pop(stack);
      stack.push_back(Apply(op, left, right));
    }
  }
  SIM_CHECK(stack.size() == 1, "a condition leaves one value");
  return Truth(stack.front());
}

std::string Condition::DescribeValues(const std::vector<ConditionValue>& values) const {
  SIM_CHECK(values.size() == names_.size(), "a condition gets a value for each of its names");
  std::string text;
  for (std::size_t i = 0; i < names_.size(); ++i) {
    if (!text.empty()) text += ", ";
    text += fmt::format("{} {}", names_[i].name, Text(names_[i].type, values[i]));
  }
  return text;
}

}  // namespace stepsim
