#include "models/validation/predict_step.h"

#include <algorithm>
#include <cstdint>

#include "models/simulate_job.h"
#include "models/step_context.h"
#include "models/workload/workload.h"
#include "sim/metrics/build_report.h"

namespace stepsim {
namespace {

JobSpec Scaled(JobSpec job, const MachineScale& scale) {
  GpuSpec& gpu = job.hardware.gpu;
  gpu.gemm_efficiency *= scale.compute;
  gpu.attention_efficiency *= scale.compute;
  gpu.memory_efficiency *= scale.compute;
  job.hardware.intra_node.efficiency *= scale.network;
  job.hardware.network.link.efficiency *= scale.network;
  return job;
}

StepPrediction Simulated(const JobSpec& job) {
  const Workload workload = BuildWorkload(job);
  const SimulatedStep step = SimulateJob(job, workload);
  StepContext context;
  context.allocator_slack = job.memory.allocator_slack;
  const StepReport report =
      BuildTotals(step.graph, step.priced.costs, step.timeline, std::move(context));
  const RankAccount& account = report.account();
  StepPrediction prediction;
  prediction.seconds = ToSeconds(account.step);
  prediction.compute = ToSeconds(account.compute);
  prediction.contention = ToSeconds(account.contention);
  prediction.exposed = ToSeconds(account.exposed_total());
  prediction.peer_wait = ToSeconds(account.peer_wait);
  prediction.bubble = ToSeconds(account.bubble);
  prediction.host = ToSeconds(account.host);
  prediction.idle = ToSeconds(account.idle);
  prediction.communication = ToSeconds(account.communication);
  prediction.peak_bytes = ToDouble(report.memory.total);
  return prediction;
}

// Two numbers of micro-batches from which on a step only repeats itself; first == 0: it is short.
struct ShorterSteps {
  std::int64_t first = 0, second = 0;
};
ShorterSteps ShorterStepsOf(const JobSpec& job) {
  const std::int64_t steps = job.batch.gradient_accumulation_steps;
  const std::int64_t stages = job.plan.pipeline_parallel;
  ShorterSteps shorter;
  if (stages == 1) {
    shorter = {3, 4};  // the first adds to no gradient, the last reduces
  } else if (job.plan.pipeline.virtual_stages > 1) {
    shorter = {2 * stages, 3 * stages};  // whole groups of the interleaving
  } else {
    shorter = {2 * stages, 2 * stages + 4};
  }
  return shorter.second < steps ? shorter : ShorterSteps{};
}

JobSpec WithSteps(const JobSpec& job, std::int64_t steps) {
  JobSpec changed = job;
  changed.batch.gradient_accumulation_steps = steps;
  changed.batch.global_batch_size.reset();
  return changed;
}

constexpr double StepPrediction::*kLinear[] = {
    &StepPrediction::seconds, &StepPrediction::compute, &StepPrediction::contention,
    &StepPrediction::exposed, &StepPrediction::bubble,  &StepPrediction::peer_wait,
    &StepPrediction::host,    &StepPrediction::idle,    &StepPrediction::communication};

StepPrediction WholeStep(const JobSpec& job) {
  const ShorterSteps shorter = ShorterStepsOf(job);
  if (shorter.first == 0) return Simulated(job);
  const StepPrediction first = Simulated(WithSteps(job, shorter.first));
  StepPrediction second = Simulated(WithSteps(job, shorter.second));
  const double more = static_cast<double>(job.batch.gradient_accumulation_steps - shorter.second) /
                      static_cast<double>(shorter.second - shorter.first);
  for (const auto member : kLinear) {
    second.*member = std::max(0.0, second.*member + more * (second.*member - first.*member));
  }
  return second;
}

}  // namespace

StepPrediction PredictStep(const ResolvedJob& resolved, const MachineScale& scale) {
  const JobSpec& job = resolved.job;
  const bool is_scaled = scale.compute != 1 || scale.network != 1;
  StepPrediction prediction = WholeStep(is_scaled ? Scaled(job, scale) : job);
  const StepContext context = MakeStepContext(resolved, BuildWorkload(job));
  prediction.memory_bytes = ToDouble(job.memory_limit());
  prediction.gpus = static_cast<double>(job.gpus());
  for (const auto& [name, flops] : context.model_flops) {
    prediction.model_flops.emplace_back(name, flops.value);
    if (name == "palm" && context.peak.value > 0) {
      prediction.mfu = flops.value / (prediction.seconds * prediction.gpus * context.peak.value);
    }
  }
  return prediction;
}

}  // namespace stepsim
