#include "tools/stepsim/measured_value.h"

#include <fmt/format.h>

#include <optional>

#include "sim/base/diagnostics.h"
#include "sim/base/units.h"

namespace stepsim {

double ParseShare(const std::string& text, const std::string& option) {
  const bool is_percent = !text.empty() && text.back() == '%';
  const std::optional<double> number =
      ParseNumber(is_percent ? text.substr(0, text.size() - 1) : text);
  const double share = number.value_or(0) / (is_percent ? 100 : 1);
  if (number && share > 0 && share <= 1) return share;
  throw ConfigError(Place{option, 0, 0},
                    fmt::format("found '{}', allowed: a share above 0 and up to 100%, such as 5% "
                                "or 0.05",
                                text));
}

double ParseSeconds(const std::string& text, const std::string& option) {
  const ParsedQuantity time = ParseQuantity(text, Unit::kTime);
  if (time.ok() && time.value > 0 && time.value <= 86'400) return time.value;
  throw ConfigError(Place{option, 0, 0},
                    fmt::format("found '{}', allowed: a time above 0 and up to a day, such as 4.6s "
                                "or 850ms",
                                text));
}

}  // namespace stepsim
