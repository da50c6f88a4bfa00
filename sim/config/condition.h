// Does it hold? A condition over named values, as in `where:` of a sweep and in --fail-if:
//
//   exposed > 5% or step_time > 1.2 s
//   plan.tensor_parallel * plan.pipeline_parallel <= 64 and plan.strategy in (ddp, fsdp2)
//
// | what | how |
// | --- | --- |
// | values | 12, 1e6, 5% (0.05), 80 GiB, 400 Gb/s, 'text', true, false, null |
// | names | of fields and metrics; quantities have a unit and are compared with quantities |
// | arithmetic | + - * / mod, of quantities where it has a meaning: bytes / time is a bandwidth |
// | comparison | == != < <= > >=, in (a, b, c); texts and truth values only == != in |
// | logic | not, and, or, parentheses |
//
// A text that is compared with a name of texts needs no quotes. A field that is not set equals null
// and nothing else. Dividing by zero gives a value that fulfils no comparison but !=.
//
// Kinds and units are checked when the condition is read, before there is any value:
//
//   const Condition condition("nodes > 4", place, names);       // ConfigError
//   condition.names();                                          // {"nodes"}
//   condition.Holds({8.0})                                      // values in the order of names()
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "sim/base/diagnostics.h"
#include "sim/base/units.h"

namespace stepsim {

enum class ConditionKind { kNumber, kText, kBool };

struct ConditionType {
  ConditionKind kind = ConditionKind::kNumber;
  Unit unit = Unit::kNone;  // of numbers
  // What a plain 1 beside it means, in the base unit: 1 of step_time_s is a second; 0: a quantity
  // must be compared with a quantity.
  double plain = 0;
  std::vector<std::string> choices;  // of texts, where only these exist
  bool is_share = false;             // of a whole: beside it 5 would mean 500 %
};

// A name that a condition may use.
struct ConditionName {
  std::string name;
  ConditionType type;
};

// Numbers in the base unit; monostate: not set.
using ConditionValue = std::variant<std::monostate, double, bool, std::string>;

class Condition {
 public:
  // Throws ConfigError at `place`.
  Condition(std::string_view text, const Place& place, const std::vector<ConditionName>& known);

  const std::string& text() const { return text_; }
  // Those used, each once, by their first use.
  const std::vector<ConditionName>& names() const { return names_; }

  // REQUIRES: a value for each of names(), of its kind or monostate.
  bool Holds(const std::vector<ConditionValue>& values) const;

  // "exposed 7.3%, step_time 1.31 s": what it was judged by.
  std::string DescribeValues(const std::vector<ConditionValue>& values) const;

  // One instruction of the condition: it takes its operands from a stack and puts its result there.
  struct Step {
    enum class Kind { kLiteral, kName, kOperator };
    Kind kind = Kind::kLiteral;
    ConditionValue literal;
    std::size_t index = 0;  // of names(), or of the operator
  };

 private:
  std::string text_;
  std::vector<ConditionName> names_;
  std::vector<Step> steps_;
};

}  // namespace stepsim
