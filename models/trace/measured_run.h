// What did the profiler see? Traces of one run, one file per rank, as the timeline that a
// simulation would give: the same graph, timeline, accounts, metrics and writers hold for both.
//
//   const MeasuredRun run = ReadTraces({"rank0.json.gz", "rank1.json.gz"}, {});
//   const MeasuredReport report = ReportStep(run, ChooseStep(run, {}));  // the median one
//   report.step.account().exposed_total()
//
// What a step of a trace is, and which rules cut it: models/README.md, "Measured runs".
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/trace/kernel_rules.h"
#include "models/trace/site_rules.h"
#include "sim/base/time.h"
#include "sim/graph/task_costs.h"
#include "sim/graph/task_graph.h"
#include "sim/metrics/accounting.h"
#include "sim/metrics/step_report.h"
#include "sim/timeline/timeline.h"

namespace stepsim {

struct TraceOptions {
  std::vector<SiteOverride> sites = {};
  std::string step_pattern = {};  // a regular expression for the annotations that mark steps
};

struct MeasuredRank {
  std::int64_t rank = 0;
  std::string file;
  std::string device;         // "NVIDIA A100-PG509-200"; may be empty
  bool is_host_only = false;  // operators of a CPU run stand for kernels
  bool has_launches = false;  // most kernels are known with the call that launched them
  Duration clock_offset{};    // added to the times of its file
  Window active;              // from the first kernel to the last
  std::size_t kernels = 0, collectives = 0;
};

// A step, from the end of the last kernel of the one before to the end of its own, on the slowest
// rank. The first one begins with its first kernel.
struct MeasuredStep {
  std::int64_t number = 0;  // the profiler's
  Window window;
};

struct MeasuredRun {
  TaskGraph graph;
  Timeline timeline;
  TaskCosts costs;                      // the measured durations: nothing is contention
  IdVector<TaskId, KernelKind> kinds;   // of every task
  IdVector<TaskId, SimTime> launched;   // when its launch began; SimTime::min(): not known
  std::vector<MeasuredRank> ranks;      // by rank; the graph has the same order
  std::vector<MeasuredStep> steps;      // in time order; at least one
  std::int64_t world_size = 0;          // 0: not known
  std::size_t matched_collectives = 0;  // met on two or more ranks
  std::size_t guessed_sites = 0;        // by the operation alone
  Duration clock_residual{};            // median of how far ends of one collective differ
  std::vector<std::string> warnings, notes;

  // Median from the launch to the begin of the compute kernels that begin inside the window.
  Duration LaunchDelay(RankId rank, Window window) const;
};

// Throws ConfigError for files that hold nothing that can be used; what is lost of the others is in
// `warnings`. Files: Chrome traces (.json, .json.gz) and Nsight Systems' .sqlite, known by content.
MeasuredRun ReadTraces(const std::vector<std::string>& files, const TraceOptions& options);
// The same of Chrome traces that are at hand: name and content, plain or gzipped.
MeasuredRun ReadTraceTexts(const std::vector<std::pair<std::string, std::string_view>>& files,
                           const TraceOptions& options);

struct StepChoice {
  enum class Kind : std::uint8_t { kMedian, kLast, kNumber, kAll };
  Kind kind = Kind::kMedian;
  std::int64_t number = 0;               // of kNumber
  std::optional<std::size_t> skip = {};  // first steps left out; default: 1 of three or more
};
// "median", "last", "all" or a number. Throws ConfigError.
StepChoice ParseStepChoice(std::string_view text);
// kAll: from the first to the last kernel of all, steps or not. Throws ConfigError when there is no
// such step.
MeasuredStep ChooseStep(const MeasuredRun& run, const StepChoice& choice);

// ---- What one window means ----

struct MeasuredSite {
  Site site = Site::kNone;
  CollectiveOp op{};
  std::size_t calls = 0;
  Bytes bytes;            // as nccl-tests counts them; 0: not known
  bool has_bytes = true;  // of all calls
  Duration resident{};    // sum over calls: as profilers count
  Duration waiting{};     // ... of which: for the slowest rank (several ranks only)
  Duration hidden{}, exposed{};
  double bus_bytes = 0;  // bytes times nccl-tests' factor, of calls with known size and group
  Duration bus_time{};   // their transfers
  double busbw() const;  // bytes/s; 0: not known
};

struct ClassTime {
  KernelClass kernel_class{};
  std::size_t kernels = 0;
  Duration busy{};  // sum of durations
};

enum class LaunchVerdict : std::uint8_t { kUnknown, kAhead, kPartly, kLaunchBound };
std::string_view ToString(LaunchVerdict verdict);

// Beside the account, of one rank.
struct MeasuredDetail {
  Duration compute_kernels{};  // union, without copies
  Duration copies{};           // union
  Duration communication{};    // union
  Duration busy{};             // union of all
  Duration exposed{};          // communication without compute kernels: T_exposed of profilers
  Duration exposed_beside_copies{};  // communication without compute kernels and copies
  double overlap_fraction() const;   // 1 - exposed / communication; 0 without communication
  std::vector<MeasuredSite> sites;   // per site and operation, the most exposed first
  std::vector<ClassTime> classes;    // the longest first
  Duration launch_delay{};           // median from the call to the begin of a compute kernel
  LaunchVerdict launches = LaunchVerdict::kUnknown;
};

struct MeasuredReport {
  MeasuredStep which;
  StepReport step;                    // as of a simulation; no model FLOPs, no memory
  std::vector<MeasuredDetail> ranks;  // by rank
  const MeasuredDetail& detail() const { return ranks[step.reported_rank]; }
};

// What each rank was doing, worked out once for the windows of many steps.
// REQUIRES: the run lives as long as it does; windows lie within [0, makespan].
class RunReporter {
 public:
  explicit RunReporter(const MeasuredRun& run);

  std::vector<RankAccount> Accounts(Window window) const;  // by rank
  // The rank whose last kernel of the window ends last: of equals the first.
  std::size_t SlowestRank(Window window) const;
  MeasuredReport Report(const MeasuredStep& step) const;

 private:
  const MeasuredRun& run_;
  std::vector<RankActivity> activities_;
  std::vector<std::vector<Interval>> copies_;  // by rank, unions
};
MeasuredReport ReportStep(const MeasuredRun& run, const MeasuredStep& step);

}  // namespace stepsim
