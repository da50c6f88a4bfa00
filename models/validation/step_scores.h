// What do many errors come to? Medians and tails by group, by source and averaged over sources, the
// share of pairs that are put in the right order, and how far peak memory is off.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "models/calibration/error_statistics.h"
#include "models/validation/validate_steps.h"

namespace stepsim {

struct StepScore {
  ErrorSummary errors;
  double within_5 = 0, within_10 = 0, within_20 = 0;  // shares of the rows
  std::size_t rows = 0;                               // of the group
  std::size_t skipped = 0, oom = 0;                   // of them
};

using StepRows = std::vector<const ValidatedStep*>;

StepScore ScoreOf(const StepRows& rows);

struct StepGroup {
  std::string name;
  StepRows rows;
};
// Rows by the text of a column, in the order of names. "" is "(not stated)".
std::vector<StepGroup> GroupsBy(const PublishedTable& table, const StepRows& rows,
                                std::string_view column);

// Medians and p90s of the sources' scored rows, averaged over the sources.
struct SourceAverage {
  std::size_t sources = 0;
  double median = 0, p90 = 0;
  std::size_t within_bias = 0;  // sources whose bias is within kMostBias
};
inline constexpr double kMostBias = 0.06;
SourceAverage AverageOverSources(const PublishedTable& table, const StepRows& rows);

// Pairs of one source whose measured times differ by more than `gap`.
struct OrderScore {
  std::size_t pairs = 0, right = 0;
  double share() const {
    return pairs == 0 ? 0 : static_cast<double>(right) / static_cast<double>(pairs);
  }
};
OrderScore OrderOf(const PublishedTable& table, const StepRows& rows, double gap = 0.10);

// predicted / published - 1 of peak memory, where it is published.
ErrorSummary MemoryErrors(const StepRows& rows);

}  // namespace stepsim
