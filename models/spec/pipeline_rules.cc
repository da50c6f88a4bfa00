#include "models/spec/pipeline_rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "models/spec/job_rules.h"
#include "sim/base/nearest.h"

namespace stepsim {
namespace {

constexpr std::string_view kSchedule = "plan.pipeline.schedule";

bool HasPipeline(const JobSpec& job) { return job.plan.pipeline_parallel > 1; }
bool IsMegatron(const JobSpec& job) { return RuntimeOf(job) == PipelineRuntime::kMegatron; }

// The default of every framework: the order that a name of PyTorch's and one of Megatron's share
// differs where micro-batches do not come out even.
const ScheduleRow* RowOf(const JobSpec& job) {
  const ScheduleRow* row = FindSchedule(job.plan.pipeline.schedule);
  if (row != nullptr && row->name == "interleaved_1f1b" && IsMegatron(job)) {
    row = FindSchedule(kMegatronInterleaved);
  }
  const bool is_joined =
      row != nullptr && row->name == kMegatronInterleaved && job.plan.expert.overlap_microbatches;
  return is_joined ? FindSchedule(kMegatronPaired) : row;
}

ScheduleShape ShapeOf(const JobSpec& job, const ScheduleRow& row) {
  const PipelinePlan& plan = job.plan.pipeline;
  return {.ranks = static_cast<std::int32_t>(job.plan.pipeline_parallel),
          .chunks = plan.virtual_stages > 0 ? static_cast<std::int32_t>(plan.virtual_stages)
                                            : row.default_chunks,
          .microbatches = static_cast<std::int32_t>(job.batch.gradient_accumulation_steps),
          .group = static_cast<std::int32_t>(plan.microbatch_group_size)};
}

// What of the job a field of the shape comes from.
std::string_view PathOf(std::int32_t ScheduleShape::*field) {
  if (field == &ScheduleShape::ranks) return "plan.pipeline_parallel";
  if (field == &ScheduleShape::chunks) return "plan.pipeline.virtual_stages";
  if (field == &ScheduleShape::group) return "plan.pipeline.microbatch_group_size";
  return "batch.gradient_accumulation_steps";
}

// ---- Keys without effect ----

bool IsInterleavedMegatron(const JobSpec& job) {
  const ScheduleRow* row = RowOf(job);
  return row != nullptr && IsMegatronsInterleaving(row->name);
}
constexpr std::string_view kPytorchs = "PyTorch's runtime (plan.pipeline.runtime)";
constexpr bool (*kIsPytorch)(const JobSpec&) = [](const JobSpec& j) { return !IsMegatron(j); };

constexpr std::array kRows = {
    IneffectiveKey{"plan.pipeline.overlap_p2p_comm", kPytorchs, kIsPytorch},
    IneffectiveKey{"plan.pipeline.batch_p2p_comm", kPytorchs, kIsPytorch},
    IneffectiveKey{"plan.pipeline.batch_p2p_sync", kPytorchs, kIsPytorch},
    IneffectiveKey{"plan.pipeline.overlap_p2p_comm_warmup_flush", kPytorchs, kIsPytorch},
    IneffectiveKey{"plan.pipeline.deallocate_pipeline_outputs", kPytorchs, kIsPytorch},
    IneffectiveKey{"plan.pipeline.eager_communicators",
                   "Megatron-LM's runtime (plan.pipeline.runtime)", IsMegatron},
    IneffectiveKey{"plan.pipeline.microbatch_group_size",
                   "a schedule other than Megatron-LM's interleaving",
                   [](const JobSpec& j) { return !IsInterleavedMegatron(j); }},
    IneffectiveKey{"plan.pipeline.overlap_forward_backward", "a model without experts",
                   [](const JobSpec& j) {
                     return TransformerOf(j) == nullptr || !TransformerOf(j)->has_experts();
                   }},
    IneffectiveKey{"plan.pipeline.balance", "plan.pipeline.layers_per_stage",
                   [](const JobSpec& j) { return !j.plan.pipeline.layers_per_stage.empty(); }},
};

class PipelineChecker {
 public:
  explicit PipelineChecker(const JobProblems& problems)
      : problems_(problems), job_(problems.job), plan_(problems.job.plan.pipeline) {}

  void Check() {
    const TransformerSpec* spec = TransformerOf(job_);
    if (spec == nullptr) {
      problems_.Report("plan.pipeline_parallel",
                       fmt::format("found {} with a model that is a list of layers, allowed: 1; a "
                                   "transformer can be cut into stages",
                                   job_.plan.pipeline_parallel));
      return;
    }
    if (job_.plan.strategy == "fsdp1") {
      problems_.Report("plan.pipeline_parallel",
                       fmt::format("found {} with strategy fsdp1, which PyTorch's pipelines do not "
                                   "take, allowed with: fsdp2, ddp, megatron, none",
                                   job_.plan.pipeline_parallel));
    }
    if (!CheckShape()) return;
    const std::int64_t stages = job_.plan.pipeline_parallel * ChunksPerRank(job_);
    CheckStages(*spec, stages);
    CheckTransfers();
  }

 private:
  // false: there is no schedule to go on with.
  bool CheckShape() {
    if (problems_.AnyInvalid({kSchedule, "plan.pipeline_parallel", "plan.pipeline.virtual_stages",
                              "plan.pipeline.microbatch_group_size",
                              "batch.gradient_accumulation_steps"})) {
      return false;
    }
    if (plan_.file_schedule != nullptr) return CheckFile(*plan_.file_schedule);
    if (plan_.schedule.ends_with(".csv")) return false;  // reported where it was read
    const ScheduleRow* row = RowOf(job_);
    if (row == nullptr) {
      std::vector<std::string> names;
      for (const ScheduleRow& each : Schedules()) names.emplace_back(each.name);
      const std::string nearest = Nearest(plan_.schedule, names);
      problems_.Report(
          kSchedule,
          fmt::format("found '{}', allowed: a file that ends with .csv, {}{}", plan_.schedule,
                      fmt::join(names, ", "),
                      nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest)));
      return false;
    }
    const ScheduleShape shape = ShapeOf(job_, *row);
    const std::string problem = row->Problem(shape);
    if (problem.empty()) return true;
    const ShapeProblem detail = row->rule != nullptr ? row->rule(shape) : ShapeProblem{};
    problems_.Report(detail.field != nullptr ? PathOf(detail.field) : kSchedule, problem);
    return false;
  }

  bool CheckFile(const PipelineSchedule& schedule) {
    const auto compare = [&](std::string_view path, std::int64_t found, std::int64_t file) {
      if (found == file) return true;
      problems_.Report(path,
                       fmt::format("found {}, allowed: the {} of {}", found, file, plan_.schedule));
      return false;
    };
    const bool has_ranks =
        compare("plan.pipeline_parallel", job_.plan.pipeline_parallel, schedule.shape.ranks);
    const bool has_microbatches =
        compare("batch.gradient_accumulation_steps", job_.batch.gradient_accumulation_steps,
                schedule.shape.microbatches);
    if (plan_.virtual_stages != 0) {
      compare("plan.pipeline.virtual_stages", plan_.virtual_stages, schedule.shape.chunks);
    }
    return has_ranks && has_microbatches;
  }

  void CheckStages(const TransformerSpec& spec, std::int64_t stages) {
    if (problems_.AnyInvalid({"model.transformer.layers"})) return;
    if (!plan_.layers_per_stage.empty()) return CheckSplit(spec, stages);
    // Embedding and head fill a stage each where they count as layers.
    const std::int64_t dealt = spec.layers + (plan_.balance == StageBalance::kEnds ? 2 : 0);
    if (dealt < stages) {
      problems_.Report(
          "plan.pipeline_parallel",
          fmt::format("pipeline_parallel ({}) x virtual_stages ({}) = {} stages, allowed: at most "
                      "the {} layers of model {}; nearest valid: {} x {}",
                      job_.plan.pipeline_parallel, ChunksPerRank(job_), stages, spec.layers,
                      job_.model.name, std::min(job_.plan.pipeline_parallel, dealt),
                      std::max<std::int64_t>(dealt / job_.plan.pipeline_parallel, 1)));
      return;
    }
    const bool counts_units =
        plan_.balance == StageBalance::kLayers || plan_.balance == StageBalance::kEnds;
    if (!IsMegatron(job_) || !counts_units) return;
    if (dealt % stages == 0) return;
    problems_.Report(
        "plan.pipeline_parallel",
        fmt::format("{} layers{} do not come out even over {} stages, as Megatron-LM wants them; "
                    "nearest valid: {} stages, or plan.pipeline.layers_per_stage",
                    dealt, plan_.balance == StageBalance::kEnds ? " (two for the ends)" : "",
                    stages, fmt::join(NearestDivisors(dealt, stages), " or ")));
  }

  void CheckSplit(const TransformerSpec& spec, std::int64_t stages) const {
    constexpr std::string_view kPath = "plan.pipeline.layers_per_stage";
    const std::vector<double>& split = plan_.layers_per_stage;
    const double sum = std::accumulate(split.begin(), split.end(), 0.0);
    const auto part =
        std::find_if(split.begin(), split.end(), [](double n) { return std::floor(n) != n; });
    if (part != split.end()) {
      problems_.Report(kPath, fmt::format("found {} in stage {}, allowed: whole numbers", *part,
                                          part - split.begin()));
    } else if (sum != static_cast<double>(spec.layers) ||
               static_cast<std::int64_t>(split.size()) != stages) {
      problems_.Report(kPath,
                       fmt::format("found {} numbers that sum to {}, allowed: one for each of the "
                                   "{} stages, {} layers in all",
                                   split.size(), sum, stages, spec.layers));
    } else {
      const auto empty = std::find(split.begin() + 1, split.end() - 1, 0.0);
      if (empty == split.end() - 1) return;
      problems_.Report(kPath, fmt::format("found no layer in stage {} (of 0 to {}), allowed: 0 in "
                                          "the first, which has the embedding, and in the last, "
                                          "which has the head; at least 1 in between",
                                          empty - split.begin(), stages - 1));
    }
  }

  void CheckTransfers() {
    const auto refuse = [&](std::string_view key, bool is_on) {
      if (!is_on) return;
      problems_.Report(fmt::format("plan.pipeline.{}", key),
                       "found 'true', which is not modelled, allowed: 'false'");
    };
    refuse("variable_seq_lengths", plan_.variable_seq_lengths);
    refuse("defer_embedding_wgrad_compute", plan_.defer_embedding_wgrad_compute);
    if (plan_.overlap_forward_backward) CheckJoined();
    if (!IsMegatron(job_)) return;
    const bool interleaves = ChunksPerRank(job_) > 1;
    if (plan_.overlap_p2p_comm.value_or(false) && !interleaves) {
      problems_.Report("plan.pipeline.overlap_p2p_comm",
                       "found 'true' without interleaving, where Megatron-LM has nothing to "
                       "overlap, allowed: false, or virtual_stages above 1");
    }
    if (interleaves && !plan_.overlap_p2p_comm.value_or(true) && job_.plan.pipeline_parallel < 3) {
      problems_.Report(
          "plan.pipeline.overlap_p2p_comm",
          fmt::format("found 'false' with pipeline_parallel {}, allowed: true; without "
                      "overlap Megatron-LM interleaves more than 2 stages only",
                      job_.plan.pipeline_parallel));
    }
  }

  // Does the schedule join passes at all, and is there something that one hides of the other?
  void CheckJoined() {
    constexpr std::string_view kKey = "plan.pipeline.overlap_forward_backward";
    const PipelineSchedule schedule = ScheduleOf(job_);
    const auto is_joined = [](const Action& action) { return action.overlaps_previous; };
    const bool joins =
        std::any_of(schedule.ranks.begin(), schedule.ranks.end(),
                    [&](const auto& r) { return std::any_of(r.begin(), r.end(), is_joined); });
    if (!joins) {
      problems_.Report(kKey,
                       fmt::format("found 'true' with schedule {}, which joins no forward and "
                                   "backward, allowed: false, or with dualpipe, dualpipev or "
                                   "a file with OVERLAP_F_B",
                                   plan_.schedule));
    }
  }

  const JobProblems& problems_;
  const JobSpec& job_;
  const PipelinePlan& plan_;
};

}  // namespace

std::span<const IneffectiveKey> IneffectivePipelineKeys() { return kRows; }

PipelineRuntime RuntimeOf(const JobSpec& job) {
  const PipelineRuntime runtime = job.plan.pipeline.runtime;
  if (runtime != PipelineRuntime::kAuto) return runtime;
  return Uses(job, "megatron") ? PipelineRuntime::kMegatron : PipelineRuntime::kPytorch;
}

PipelineSchedule ScheduleOf(const JobSpec& job) {
  if (job.plan.pipeline.file_schedule != nullptr) return *job.plan.pipeline.file_schedule;
  const ScheduleRow* row = RowOf(job);
  return row->Make(ShapeOf(job, *row));
}

std::int64_t ChunksPerRank(const JobSpec& job) {
  const PipelinePlan& plan = job.plan.pipeline;
  if (plan.file_schedule != nullptr) return plan.file_schedule->shape.chunks;
  const ScheduleRow* row = RowOf(job);
  return row == nullptr ? 1 : ShapeOf(job, *row).chunks;
}

std::int64_t ParallelPlan::copies() const {
  if (pipeline_parallel == 1) return 1;
  const ScheduleRow* row = FindSchedule(pipeline.schedule);
  const bool is_bidirectional =
      pipeline.file_schedule != nullptr
          ? pipeline.file_schedule->placement == StagePlacement::kBidirectional
          : row != nullptr && row->placement == StagePlacement::kBidirectional;
  return is_bidirectional ? 2 : 1;
}

std::string_view ScheduleNameOf(const JobSpec& job) {
  const ScheduleRow* row = RowOf(job);
  return row == nullptr ? "" : row->name;
}

bool WaitsForTransfers(const JobSpec& job) {
  if (!HasPipeline(job) || !IsMegatron(job) || job.plan.pipeline.file_schedule != nullptr) {
    return false;
  }
  const PipelinePlan& plan = job.plan.pipeline;
  const ScheduleRow* row = RowOf(job);
  const bool interleaves = IsMegatronsInterleaving(row->name);
  const bool is_single =
      row->placement == StagePlacement::kLoop && !row->splits_backward && ChunksPerRank(job) == 1;
  if (!interleaves && !is_single) return false;  // sail-sg's and DeepSeek's runtimes
  const bool overlaps = plan.overlap_p2p_comm.value_or(interleaves);
  return plan.batch_p2p_sync && plan.batch_p2p_comm.value_or(!overlaps);
}

bool PairsMicrobatches(const JobSpec& job) {
  return job.plan.expert.overlap_microbatches ||
         (HasPipeline(job) && job.plan.pipeline.overlap_forward_backward);
}

bool DelaysWeightGradients(const JobSpec& job) {
  return job.plan.expert.delay_weight_gradients.value_or(IsMegatron(job) &&
                                                         !job.plan.expert.overlap_microbatches);
}

void CheckPipeline(const JobProblems& problems) {
  if (HasPipeline(problems.job)) PipelineChecker(problems).Check();
}

}  // namespace stepsim
