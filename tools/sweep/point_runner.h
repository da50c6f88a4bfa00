// What comes of one point? One line of JSON, the same on every run and in every shard:
//
//   {"index":3,"axes":{"nodes":4},"resolved":{"nodes":4},"metrics":{"step_time_s":0.81},"warnings":0}
//   {"index":4,"axes":{"nodes":5},"error":{"kind":"input","text":"..."}}
//   {"index":5,"axes":{"nodes":6},"filtered":"exposed < 5%"}
//
// `resolved`: the values of the swept fields in base units. Errors are "input" (no such job),
// "cannot_run" (a deadlock) or "internal" (a bug).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/study/prepared_step.h"
#include "models/study/variants.h"
#include "tools/sweep/grid.h"

namespace stepsim {

enum class PointKind { kDone, kFiltered, kInputError, kCannotRun, kInternalError };

struct PointRow {
  PointKind kind = PointKind::kDone;
  std::string line;   // with its end of line
  std::string error;  // of the error kinds
};

// Runs neighbouring points one after another; each thread has its own. What differs in costs alone
// shares one graph (models/study/prepared_step.h).
class PointRunner {
 public:
  // REQUIRES: both outlive this object.
  PointRunner(const Grid& grid, const JobVariants& variants);
  ~PointRunner();
  PointRunner(const PointRunner&) = delete;
  PointRunner& operator=(const PointRunner&) = delete;

  PointRow Run(std::uint64_t index);

 private:
  struct Filter {
    const StepCondition* condition = nullptr;
    std::vector<std::optional<std::size_t>> axes;  // of each name
  };
  struct Prepared;

  std::string Measure(const std::vector<const AxisValue*>& values, PointRow& row);
  // The first filter that does not hold.
  const Filter* Fails(const std::vector<const AxisValue*>& values, const JobSpec& job,
                      const StepReport* report) const;
  bool Prepare(const Changes& structure);
  std::string Describe(const JobSpec& job, const StepReport& report, std::size_t warnings) const;

  const Grid& grid_;
  const JobVariants& variants_;
  const std::vector<const Axis*> axes_;
  std::vector<bool> is_cost_;    // of axes_
  std::vector<Filter> filters_;  // that need more than the axes
  std::unique_ptr<Prepared> prepared_;
};

}  // namespace stepsim
