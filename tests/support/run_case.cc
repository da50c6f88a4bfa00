#include "tests/support/run_case.h"

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>
#include <vector>

#include "models/run_step.h"
#include "tests/support/case_values.h"
#include "tests/support/expression.h"
#include "tests/support/shipped.h"

namespace stepsim::testing {
namespace {

// What rounding of sums may change.
constexpr double kRounding = 1e-9;

std::string NumberText(double value) { return fmt::format("{:.4g}", value); }

ResolvedJob Load(const ConfigNode& job, const std::vector<std::string>& sets) {
  if (job.IsMapping()) return LoadText(WriteJson(job), sets);
  const bool is_path = job.text.find('/') != std::string::npos;
  return LoadShipped(is_path ? RepositoryPath(job.text) : job.text, sets);
}

}  // namespace

Verdict CaseRun::Judge(const CaseExpectation& expectation) {
  try {
    return expectation.kind == ExpectationKind::kOrdering ? JudgeOrder(expectation)
                                                          : JudgeValue(expectation);
  } catch (const std::exception& error) {
    return {false, error.what()};
  }
}

std::string CaseRun::Found() const {
  std::string text;
  for (const auto& [name, value] : known_) {
    text += fmt::format("{}{} = {} ({})", text.empty() ? "" : ", ", name, NumberText(value),
                        case_.FindUnknown(name)->meaning);
  }
  return text;
}

Verdict CaseRun::JudgeOrder(const CaseExpectation& expectation) {
  Verdict verdict{true, ""};
  double last = -HUGE_VAL;
  for (const std::string& expression : expectation.order) {
    const double value = Value(expression);
    const bool is_ordered =
        expectation.strictly ? last < value : last <= value + kRounding * std::abs(value);
    verdict.holds = verdict.holds && is_ordered;
    if (!verdict.reached.empty())
      verdict.reached += last < value ? " < " : last > value ? " > " : " = ";
    verdict.reached += NumberText(value);
    last = value;
  }
  return verdict;
}

Verdict CaseRun::JudgeValue(const CaseExpectation& e) {
  const double reached = Value(e.of);
  bool holds = !std::isnan(reached);
  if (e.value) {
    const double allowed = e.within ? *e.within * std::abs(*e.value) : *e.plus_minus;
    holds = std::abs(reached - *e.value) <= allowed + kRounding * std::abs(*e.value);
  }
  if (e.at_least) holds = holds && reached >= *e.at_least;
  if (e.at_most) holds = holds && reached <= *e.at_most;
  return {holds, NumberText(reached)};
}

double CaseRun::Value(const std::string& expression) {
  return Evaluate(expression, [&](const std::string& name) { return ValueOf(name); });
}

double CaseRun::ValueOf(const std::string& name) {
  const std::size_t dot = name.find('.');
  const std::string first = name.substr(0, dot);
  if (dot == std::string::npos) {
    if (const auto known = known_.find(name); known != known_.end()) return known->second;
    if (const CaseUnknown* unknown = case_.FindUnknown(name)) return Solve(*unknown);
    throw std::invalid_argument(fmt::format("found no unknown '{}'", name));
  }
  static const CaseVariant base{.name = "base"};
  const CaseVariant* variant = first == base.name ? &base : case_.FindVariant(first);
  if (variant == nullptr) throw std::invalid_argument(fmt::format("found no variant '{}'", first));
  return Measure(*variant, name.substr(dot + 1));
}

double CaseRun::Solve(const CaseUnknown& unknown) {
  try {
    return known_[unknown.name] = Bisect(unknown);
  } catch (...) {
    known_.erase(unknown.name);
    throw;
  }
}

// On a logarithmic scale, to a ten-thousandth.
double CaseRun::Bisect(const CaseUnknown& unknown) {
  const auto excess = [&](double at) {
    known_[unknown.name] = at;
    return Value(unknown.so_that) - unknown.is;
  };
  double low = unknown.from, high = unknown.to;
  const double at_low = excess(low), at_high = excess(high);
  if (at_low * at_high > 0) {
    throw std::invalid_argument(
        fmt::format("no {} from {} to {} gives {} = {}: it lies between {} and {}", unknown.name,
                    NumberText(low), NumberText(high), unknown.so_that, NumberText(unknown.is),
                    NumberText(at_low + unknown.is), NumberText(at_high + unknown.is)));
  }
  while (std::abs(high / low - 1) > 1e-4) {
    const double middle = std::sqrt(low * high);
    ((excess(middle) > 0) == (at_low > 0) ? low : high) = middle;
  }
  return std::sqrt(low * high);
}

double CaseRun::Measure(const CaseVariant& variant, const std::string& metric) {
  const ConfigNode& job = variant.job.IsNull() ? case_.job : variant.job;
  const std::vector<std::string> sets = SetsOf(variant);
  if (variant.collective) return CollectiveValue(Load(job, sets).job, variant, metric);
  return ReportValue(Report(job, sets), metric);
}

std::vector<std::string> CaseRun::SetsOf(const CaseVariant& variant) {
  std::vector<std::string> sets = case_.sets;
  sets.insert(sets.end(), variant.sets.begin(), variant.sets.end());
  for (std::string& set : sets) {
    for (std::size_t at = set.find("${"); at != std::string::npos; at = set.find("${")) {
      const std::size_t end = set.find('}', at);
      if (end == std::string::npos) throw std::invalid_argument(set + ": found ${ without }");
      const double value = Value(set.substr(at + 2, end - at - 2));
      set.replace(at, end + 1 - at, fmt::format("{:.6g}", value));
    }
  }
  return sets;
}

const StepReport& CaseRun::Report(const ConfigNode& job, const std::vector<std::string>& sets) {
  std::string key = job.IsMapping() ? WriteJson(job) : job.text;
  for (const std::string& set : sets) key += "\n" + set;
  const auto found = reports_.find(key);
  if (found != reports_.end()) return found->second;
  StepReport report = RunStep(Load(job, sets)).report;
  ExpectIdentity(report);
  return reports_.emplace(key, std::move(report)).first->second;
}

}  // namespace stepsim::testing
