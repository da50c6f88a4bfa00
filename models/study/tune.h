// Which settings of a job make its step fastest, within a memory budget?
//
//   const Tuning tuned = Tune(variants, {.memory = Bytes{std::int64_t{80} << 30}});
//   tuned.points[tuned.winner].changes    // {"plan.ddp.bucket_cap_mb=100", ...}
//
// Each knob alone; every split of the GPUs with every micro-batch; then knob after knob from the
// best point on, until none helps (coordinate descent). What brings nothing is taken back. Every
// number shown was simulated.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/study/knobs.h"
#include "models/study/pareto.h"
#include "models/study/variants.h"
#include "sim/base/quantity.h"
#include "sim/base/time.h"

namespace stepsim {

// body(0) ... body(count - 1), in any order, on as many threads as one likes. The results do not
// depend on it.
using ForEachIndex =
    std::function<void(std::size_t count, const std::function<void(std::size_t)>&)>;
void ForEachInOrder(std::size_t count, const std::function<void(std::size_t)>& body);

struct TuneOptions {
  std::vector<const Knob*> knobs;  // empty: all
  Bytes memory;                    // of a GPU; 0: the job's limit
  bool keeps_batch = true;         // else points are compared by GPU time per sample
  std::size_t most_points = 0;     // 0: no bound
  std::function<bool()> is_over;   // asked before each point; empty: never
  ForEachIndex for_each = ForEachInOrder;
};

// One job that was simulated.
struct TunePoint {
  std::string label;  // "bucket 100 MiB, micro_batch 4 x 2 micro-steps"; "as it is"
  Changes changes;    // `stepsim run JOB --set` of each gives this point
  Duration step{};
  double seconds = 0;  // of the base's samples at this rate: what points are compared by
  double samples = 0;  // of a step
  double exposed = 0;  // share of the step
  double mfu = 0;
  Bytes memory;
  bool fits = false;
};

inline constexpr std::string_view kOutOfTime = "out of time";

// One value of one knob, the rest of the job as it is.
struct TriedKnobValue {
  std::string label;
  std::optional<std::size_t> point;  // unset: refused, or out of time
  std::string problem;               // why
  bool is_base = false;
};

struct KnobCurve {
  const Knob* knob = nullptr;
  std::vector<TriedKnobValue> values;
  std::optional<Plateau> plateau;  // of the values that fit: indices of `values`
};

struct Tuning {
  std::vector<TunePoint> points;  // [0] is the job as it is
  std::vector<KnobCurve> curves;
  std::size_t winner = 0;
  std::vector<std::size_t> pareto;  // of all points, from the fastest to the leanest
  Bytes memory;                     // the budget
  std::size_t refused = 0;          // variants that the rules or the frameworks do not admit
  std::size_t failed = 0;           // variants that cannot run
  std::size_t skipped = 0;          // out of time, or of points: the search ended early
  int rounds = 0;                   // of the descent
};

// Throws ConfigError or SimulationError when the job as it is cannot be simulated.
Tuning Tune(const JobVariants& variants, const TuneOptions& options);

}  // namespace stepsim
