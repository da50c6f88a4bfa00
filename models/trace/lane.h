// What did one device do? The spans of one rank on a clock of its own, each with its class, phase,
// step and launch; collectives with operation, size, group and site.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/trace/kernel_rules.h"
#include "models/trace/measured_run.h"
#include "models/trace/site_rules.h"
#include "models/trace/trace_data.h"
#include "sim/base/time.h"
#include "sim/graph/work.h"

namespace stepsim {

struct LaneCall {
  CollectiveOp op{};
  DType dtype = DType::kFp32;
  std::int64_t bytes = 0;       // as nccl-tests counts them; 0: not known
  std::int64_t group_size = 0;  // 0: not known
  std::int64_t sequence = -1;
  std::string group_name, group_description;
  std::vector<std::int32_t> ranks;  // empty: not known, or not all
  std::string group_key;            // equal on all members
  Site site = Site::kGradientReduce;
  bool is_guess = false;
  std::string label;
};

struct LaneSpan {
  SimTime begin{}, end{};
  std::optional<SimTime> launch;  // when the call that launched it began
  std::uint32_t name = 0;         // index into Lane::names
  std::uint32_t call = kNoIndex;  // index into Lane::calls
  std::uint32_t stream = 0;       // index into Lane::streams
  std::int32_t step = -1;         // index into Lane::marks; -1: before the first
  KernelKind kind;
  Phase phase = Phase::kOther;
  bool is_communication() const { return kind.kernel_class == KernelClass::kCommunication; }
  bool is_copy() const { return kind.kernel_class == KernelClass::kCopy; }
};

// On the host's side of the same clock.
struct StepMark {
  std::int64_t number = 0;
  SimTime begin{}, end{};
};

struct Lane {
  std::int64_t rank = -1;  // -1: the file does not say
  std::int64_t world_size = 0;
  std::string file, device;
  bool is_host_only = false;
  bool has_launches = false;
  TraceMoment base;  // time zero, on the clock of the file
  std::vector<std::string> names;
  std::vector<std::string> streams;
  std::vector<LaneSpan> spans;  // by begin
  std::vector<LaneCall> calls;
  std::vector<StepMark> marks;  // by begin
  std::vector<std::string> warnings;
};

// The devices in a file, in order.
std::vector<Lane> MakeLanes(const TraceData& data, const TraceOptions& options);

// Which annotations mark steps, and with which number.
class StepNames {
 public:
  explicit StepNames(const std::string& pattern);  // "": the usual names
  ~StepNames();
  StepNames(const StepNames&) = delete;
  StepNames& operator=(const StepNames&) = delete;

  // The row of the usual names that fits, the smallest wins over the file; nothing: no step.
  struct Match {
    std::size_t row = 0;
    std::optional<std::int64_t> number;
  };
  std::optional<Match> Find(const std::string& annotation) const;

 private:
  struct Pattern;
  std::unique_ptr<Pattern> pattern_;
};

}  // namespace stepsim
