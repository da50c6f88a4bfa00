// What does "pcie.step_time_s / base.step_time_s" come to?
//
//   Evaluate("2 * (slow - fast)", [](const std::string& name) { return name == "slow" ? 3 : 1; })
//
// Numbers, names (letters, digits, '_' and '.'), + - * / and parentheses.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace stepsim::testing {

// Throws std::invalid_argument, with the expression and the place in it.
double Evaluate(std::string_view expression,
                const std::function<double(const std::string& name)>& value_of);

}  // namespace stepsim::testing
