// What does the step mean? Everything that the writers show: one struct, filled once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/dtype.h"
#include "sim/base/quantity.h"
#include "sim/base/time.h"
#include "sim/graph/task_costs.h"
#include "sim/graph/task_graph.h"
#include "sim/metrics/accounting.h"
#include "sim/metrics/exposure_cause.h"

namespace stepsim {

// The pipeline of a job, and what the theory says of it.
struct PipelineShape {
  std::string schedule;  // "1f1b"
  std::int64_t stages = 1;
  std::int64_t chunks = 1;  // stages per rank
  std::int64_t microbatches = 1;
  // Idle over step, where a closed form holds: equal stages, free transfers, equal passes
  // (forward, input and weight gradient), nothing but the schedule.
  std::optional<double> bubble_fraction;
  std::string formula;  // of the idle time: "(p-1)(tF+tB)"
};

// What the simulator cannot know by itself: given by the model layer.
struct StepContext {
  std::string job;       // "llama-3.2-3b, DDP on 16 x A100-SXM-80GB"
  std::string job_file;  // as given by the user
  std::string hardware;  // profile name
  std::string model;
  std::string strategy;
  std::int64_t gpus = 1;
  double samples_per_step = 0;  // global batch, in sequences or images
  double tokens_per_step = 0;   // 0 when the network has no tokens (images)
  std::vector<std::pair<std::string, Flops>> model_flops;  // per step, all GPUs, by MFU convention
  std::string mfu_convention;                              // the one in the summary
  Flops hardware_flops;  // executed, recomputation included, per step, all GPUs
  FlopRate peak;         // per GPU, dense, of peak_dtype
  DType peak_dtype = DType::kBf16;
  Bytes gpu_memory;            // what a job may take
  double allocator_slack = 1;  // reserved over allocated, of what comes and goes
  std::string confidence;      // "links from preset (not calibrated): +-25%"
  std::vector<std::string> warnings;
  std::vector<std::string> notes;  // what a user should know, but need not act on
  struct Assumption {
    std::string field;   // "plan.ddp.bucket_cap_mb"
    std::string value;   // "25 MiB"
    std::string origin;  // "default", "configs/hardware/a100.yaml:12", "--set"
  };
  std::vector<Assumption> assumptions;
  std::optional<PipelineShape> pipeline;
  std::string resolved_json;  // the whole job with presets expanded, a JSON object
};

struct CollectiveReport {
  TaskId task{};     // the member on the reported rank
  std::string name;  // "all_reduce bucket 5"
  Site site = Site::kNone;
  CollectiveOp op{};
  DType dtype = DType::kFp32;
  Bytes bytes;
  std::int64_t group_size = 1;
  std::string group;
  std::string algorithm, protocol;
  std::int32_t microstep = 0;
  SimTime ready{}, start{}, transfer_start{}, end{};  // relative to the begin of the step
  Duration hidden{};   // resident while compute runs on the reported rank
  Duration exposed{};  // resident while none does
  // The part of `exposed` in which it waits for another stage of its pipeline: bubble.
  Duration exposed_wait{};
  Duration exposed_transfer() const { return exposed - exposed_wait; }
  // t_comm <= compute still to run when the transfer begins: what is left over, negative where it
  // cannot hide (slack.h).
  Duration slack{};
  std::string first_use;  // the kernel that waits for it first; empty when none does
  Duration slowed{};      // the part of the transfer that others beside it have added
  ExposureCause cause_kind = ExposureCause::kHidden;
  std::string cause;  // why it is exposed, in words with figures; empty when hidden
  // How much shorter the step would be without it; known for the largest exposed ones only.
  std::optional<Duration> saved;
};

struct MicrostepReport {
  std::int32_t microstep = 0;
  bool is_reducing = false;  // the one that sends the gradients
  RankAccount account;
};

// The moment at which a rank holds the most.
struct MemoryPeak {
  std::vector<std::pair<std::string, Bytes>> at_peak;  // by category; the sum is `total`
  Bytes total;       // that the GPU must have: reserved, and what the process itself takes
  Bytes allocated;   // tensors
  Bytes reserved;    // by the allocator: tensors and its slack
  std::string task;  // that allocates; empty: the step begins with it
  Phase phase = Phase::kOther;
  std::int32_t microstep = 0;
  Duration time{};  // from the begin of the step
};

// Of the rank with the highest peak, and of each.
struct MemoryReport : MemoryPeak {
  std::size_t highest_rank = 0;
  std::vector<MemoryPeak> ranks;
};

struct StepReport {
  StepContext context;
  Window window;                   // the reported step, on the slowest rank
  std::size_t reported_rank = 0;   // index into ranks: the slowest
  std::vector<RankAccount> ranks;  // one per simulated rank
  std::vector<RankInfo> rank_infos;
  // Of each rank of a pipeline: micro-batches whose activations it keeps at most, counted in each
  // of its chunks. Empty: not known.
  std::vector<std::int32_t> in_flight;
  std::vector<MicrostepReport> microsteps;
  std::vector<CollectiveReport> collectives;   // of the reported rank, by start
  IdVector<WorkId, CollectiveChoice> choices;  // how each collective is carried out
  MemoryReport memory;                         // of the rank with the highest peak

  const RankAccount& account() const { return ranks[reported_rank]; }
  double step_time_s() const { return ToSeconds(account().step); }
};

// Model FLOPs / (step time x GPUs x peak), as a fraction. 0 when the peak is unknown.
double Mfu(const StepReport& report, const std::string& convention);
double Hfu(const StepReport& report);

// "does not fit: 90.3 GiB needed, 80.0 GiB per GPU"; "" when it fits or the capacity is unknown.
std::string MemoryWarning(const StepReport& report);

}  // namespace stepsim
