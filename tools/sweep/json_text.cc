#include "tools/sweep/json_text.h"

#include <fmt/format.h>

#include <cmath>
#include <type_traits>
#include <vector>

#include "sim/report/text_buffer.h"

namespace stepsim {

std::string JsonNumber(double value) {
  constexpr double kExact = 1e15;  // whole numbers up to here are written without an exponent
  if (!std::isfinite(value)) return "null";
  if (std::abs(value) < kExact && value == std::floor(value)) {
    return fmt::format("{}", static_cast<std::int64_t>(value));
  }
  return fmt::format("{}", value);
}

namespace {

template <class T, class Write>
std::string List(const std::vector<T>& items, Write write) {
  std::string text = "[";
  for (const T& item : items) text += (text.size() > 1 ? "," : "") + write(item);
  return text + "]";
}

}  // namespace

std::string JsonValue(const FieldValue& value) {
  return std::visit(
      [](const auto& held) -> std::string {
        using T = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<T, std::monostate>) return "null";
        if constexpr (std::is_same_v<T, bool>) return held ? "true" : "false";
        if constexpr (std::is_same_v<T, std::int64_t>) return fmt::format("{}", held);
        if constexpr (std::is_same_v<T, double>) return JsonNumber(held);
        if constexpr (std::is_same_v<T, std::string>) return QuoteJson(held);
        if constexpr (std::is_same_v<T, std::vector<double>>) return List(held, JsonNumber);
        if constexpr (std::is_same_v<T, std::vector<std::string>>) {
          return List(held, [](const std::string& text) { return QuoteJson(text); });
        }
        return "null";
      },
      value);
}

}  // namespace stepsim
