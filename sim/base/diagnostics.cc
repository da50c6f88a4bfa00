#include "sim/base/diagnostics.h"

#include <fmt/format.h>

#include <utility>

#include "sim/base/check.h"

namespace stepsim {
namespace {

std::string Join(const std::vector<Diagnostic>& diagnostics) {
  std::string text;
  for (const Diagnostic& d : diagnostics) {
    if (!text.empty()) text += '\n';
    text += d.ToString();
  }
  return text;
}

}  // namespace

void FailCheck(const char* condition, const char* file, int line, const std::string& message) {
  throw InternalError(
      fmt::format("{} [this is a bug in stepsim: {} at {}:{}]", message, condition, file, line));
}

std::string Place::ToString() const {
  if (line == 0) return file;
  return fmt::format("{}:{}:{}", file, line, column);
}

std::string Diagnostic::ToString() const {
  const std::string where = place.ToString();
  return where.empty() ? message : where + ": " + message;
}

ConfigError::ConfigError(std::vector<Diagnostic> diagnostics)
    : std::runtime_error(Join(diagnostics)), diagnostics_(std::move(diagnostics)) {}

ConfigError::ConfigError(Place place, std::string message)
    : ConfigError(std::vector<Diagnostic>{{std::move(place), std::move(message), {}}}) {}

void Diagnostics::Add(Place place, std::string message, std::string idle_key) {
  list_.push_back({std::move(place), std::move(message), std::move(idle_key)});
}

void Diagnostics::ThrowIfAny() const {
  if (!list_.empty()) throw ConfigError(list_);
}

}  // namespace stepsim
