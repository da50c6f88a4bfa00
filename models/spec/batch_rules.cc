#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>
#include <vector>

#include "models/spec/job_rules.h"

namespace stepsim {
namespace {

constexpr std::string_view kGlobal = "batch.global_batch_size";
constexpr std::string_view kMicro = "batch.micro_batch_size";
constexpr std::string_view kAccumulation = "batch.gradient_accumulation_steps";
constexpr std::int64_t kMostAccumulation = 4096;
constexpr std::int64_t kLargestMicro = 1'000'000;
constexpr std::int64_t kMostGpus = 10'000'000;  // more are reported elsewhere

// The multiple at or below, unless that is 0, and the one above.
std::vector<std::int64_t> NearestMultiples(std::int64_t number, std::int64_t factor) {
  const std::int64_t below = number / factor * factor;
  if (below == 0) return {factor};
  return {below, below + factor};
}

}  // namespace

void DeriveBatch(JobSpec& job, FieldReading& reading) {
  const auto global = std::exchange(job.batch.global_batch_size, std::nullopt);
  const JobProblems problems{job, reading};
  if (!global || problems.AnyInvalid({"batch", kGlobal, kMicro, kAccumulation, "nodes",
                                      "gpus_per_node", "hardware.gpus_per_node"})) {
    return;
  }
  BatchSpec& batch = job.batch;
  if (job.gpus() > kMostGpus) return;
  const std::int64_t gpus = job.replicas();
  const std::string_view each = job.plan.model_ranks() == 1 ? "GPUs" : "replicas";
  const bool has_micro = reading.IsGiven(kMicro);
  if (has_micro && reading.IsGiven(kAccumulation)) {
    const std::int64_t product = batch.micro_batch_size * batch.gradient_accumulation_steps * gpus;
    if (product == *global) return;
    problems.Report(kGlobal, fmt::format("global_batch_size ({}) must equal micro_batch_size x "
                                         "gradient_accumulation_steps x {} ({} x {} x {}); "
                                         "nearest valid: {}",
                                         *global, each, batch.micro_batch_size,
                                         batch.gradient_accumulation_steps, gpus, product));
    return;
  }
  // The other of the two, and GPUs, must divide it.
  const std::int64_t known = has_micro ? batch.micro_batch_size : batch.gradient_accumulation_steps;
  std::int64_t& derived = has_micro ? batch.gradient_accumulation_steps : batch.micro_batch_size;
  const std::string_view known_name =
      has_micro ? "micro_batch_size" : "gradient_accumulation_steps";
  if (*global % (known * gpus) != 0) {
    problems.Report(kGlobal, fmt::format("global_batch_size ({}) must be a multiple of {} x {} "
                                         "({} x {}); nearest valid: {}",
                                         *global, known_name, each, known, gpus,
                                         fmt::join(NearestMultiples(*global, known * gpus), ", ")));
    return;
  }
  const std::int64_t most = has_micro ? kMostAccumulation : kLargestMicro;
  if (*global / (known * gpus) > most) {
    problems.Report(kGlobal,
                    fmt::format("found {}, allowed: at most {} with {} x {} = {} x {}", *global,
                                most * known * gpus, known_name, each, known, gpus));
    return;
  }
  derived = *global / (known * gpus);
  SetOrigin(reading, has_micro ? kAccumulation : kMicro, derived, kGlobal);
}

}  // namespace stepsim
