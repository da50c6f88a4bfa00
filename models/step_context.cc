#include "models/step_context.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/pipeline/replay.h"
#include "models/spec/pipeline_rules.h"
#include "models/topology/mesh.h"
#include "models/workload/model_flops.h"
#include "sim/base/units.h"

namespace stepsim {
namespace {

std::string Title(const JobSpec& job) {
  if (!job.name.empty()) return job.name;
  return fmt::format("{}, {} on {} x {}", job.model.name, job.plan.strategy, job.gpus(),
                     job.hardware.gpu.name);
}

// Values that the job itself does not state: they shaped the prediction unseen. Origins name files
// without their folders ("job.yaml:7"). How a framework's file is understood is an assumption too.
std::vector<StepContext::Assumption> Assumptions(const ResolvedJob& resolved) {
  const std::string& file = resolved.job.file;
  const std::string in_the_job = file.substr(file.find_last_of('/') + 1) + ":";
  std::vector<StepContext::Assumption> assumptions;
  for (const ValueOrigin& value : resolved.origins) {
    const bool is_stated =
        value.origin == "--set" || (resolved.has_file && value.origin.rfind(in_the_job, 0) == 0);
    if (!is_stated) assumptions.push_back({value.field, value.value, value.origin});
  }
  return assumptions;
}

// "calibrated by 'h200-2026' (2026-11-30)".
std::string CalibrationText(const CalibrationSpec& calibration) {
  const std::string date = calibration.date.empty() ? "" : fmt::format(" ({})", calibration.date);
  return fmt::format("calibrated by '{}'{}", calibration.name, date);
}

// Where the times come from; how far to trust them is added once they are known (step_trust.h).
std::string Confidence(const JobSpec& job) {
  const bool communicates = job.plan.communicates() && job.gpus() > 1;
  const std::size_t points = job.hardware.calibration.size();
  std::string text = fmt::format("{} from preset '{}', ",
                                 communicates ? "kernels and links" : "kernels", job.hardware.name);
  if (!job.calibration.name.empty()) return text + CalibrationText(job.calibration);
  if (points == 0) return text + "not calibrated";
  return text + fmt::format("{} collective{} measured", points, points == 1 ? "" : "s");
}

// A rank is busy with every micro-batch in each of its chunks; of a bidirectional pipeline, where
// it holds two stages, each of them sees half of the micro-batches.
std::optional<PipelineShape> PipelineOf(const JobSpec& job) {
  if (job.plan.pipeline_parallel == 1) return std::nullopt;
  const PipelineSchedule schedule = ScheduleOf(job);
  const ScheduleShape& shape = schedule.shape;
  PipelineShape pipeline{.schedule = schedule.name,
                         .stages = schedule.stages(),
                         .chunks = shape.chunks,
                         .microbatches = shape.microbatches,
                         .bubble_fraction = std::nullopt,
                         .formula = ""};
  const bool is_from_file = job.plan.pipeline.file_schedule != nullptr;
  const ScheduleRow* row = is_from_file ? nullptr : FindSchedule(schedule.name);
  if (row == nullptr || row->idle == nullptr) return pipeline;
  const ChunkTimes times;
  const std::optional<double> idle = row->idle(shape, times);
  if (!idle) return pipeline;
  const double busy =
      static_cast<double>(shape.chunks) * shape.microbatches * (times.forward + times.backward());
  pipeline.bubble_fraction = *idle / (*idle + busy);
  pipeline.formula = row->idle_formula;
  return pipeline;
}

}  // namespace

std::vector<std::int32_t> InFlight(const JobSpec& job, const std::vector<RankInfo>& ranks) {
  if (job.plan.pipeline_parallel == 1) return {};
  const ScheduleReplay replay = Replay(ScheduleOf(job));
  const Mesh mesh(job.plan, job.gpus());
  std::vector<std::int32_t> in_flight;
  for (const RankInfo& rank : ranks) {
    const std::int64_t place = mesh.PlaceOf(rank.global_rank, MeshAxis::kPipeline);
    in_flight.push_back(replay.ranks[static_cast<std::size_t>(place)].peak_live);
  }
  return in_flight;
}

StepContext MakeStepContext(const ResolvedJob& resolved, const Workload& workload) {
  const JobSpec& job = resolved.job;
  const double replicas = static_cast<double>(job.replicas());
  const double microsteps = replicas * static_cast<double>(job.batch.gradient_accumulation_steps);
  StepContext context;
  context.job = Title(job);
  context.job_file = job.file;
  context.hardware = job.hardware.name;
  context.model = job.model.name;
  context.strategy = job.plan.strategy;
  context.gpus = job.gpus();
  context.samples_per_step = workload.samples * microsteps;
  context.tokens_per_step = workload.tokens * microsteps;
  for (auto& [convention, flops] : ModelFlops(job)) {
    context.model_flops.emplace_back(convention, flops * microsteps);
  }
  context.mfu_convention = job.mfu_convention;
  // The workload is what one tensor and context parallel rank does of the whole network.
  context.hardware_flops =
      HardwareFlops(workload) * microsteps *
      static_cast<double>(job.plan.tensor_parallel * job.plan.context_parallel);
  context.peak = PeakOf(job.hardware.gpu, job.precision.compute);
  context.peak_dtype = job.precision.compute;
  context.gpu_memory = job.memory_limit();
  context.allocator_slack = job.memory.allocator_slack;
  context.confidence = Confidence(job);
  context.assumptions = Assumptions(resolved);
  context.notes = resolved.notes;
  context.warnings = resolved.warnings;
  context.pipeline = PipelineOf(job);
  context.resolved_json = resolved.resolved_json;
  return context;
}

}  // namespace stepsim
