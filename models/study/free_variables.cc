#include <fmt/format.h>

#include <array>
#include <cmath>

#include "models/study/required.h"
#include "sim/base/units.h"

namespace stepsim {
namespace {

std::string Always(const JobSpec&) { return ""; }

std::string NeedsSeveralGpus(const JobSpec& job) {
  return job.gpus() == 1 ? "one GPU sends nothing" : "";
}

const LinkSpec& SlowLink(const JobSpec& job) {
  return job.nodes > 1 ? job.hardware.network.link : job.hardware.intra_node;
}

// Network links are sold in bits, links within a node in bytes.
std::string Bandwidth(const JobSpec& job, double value) {
  if (job.nodes == 1) return FormatBandwidth(value) + " per GPU inside the node";
  const double gigabits = value * 8 / 1e9;
  if (gigabits >= 1000) return fmt::format("{} Gb/s per NIC", FormatCount(std::round(gigabits)));
  return fmt::format("{:.3g} Gb/s per NIC", gigabits);
}

constexpr double kMostBatch = 4096, kMostSteps = 256, kMostNodes = 4096;

constexpr std::array kVariables = {
    FreeVariable{"network", "bandwidth of the slowest link: network, or inside the only node",
                 false, false, NeedsSeveralGpus,
                 [](const JobSpec& j) { return SlowLink(j).bandwidth.value; }, 1.0 / 1024, 1024,
                 [](const JobSpec& j, double value) {
                   const char* link = j.nodes > 1 ? "network.link" : "intra_node";
                   return Changes{fmt::format("hardware.{}.bandwidth={}", link,
                                              WriteQuantity(value, Unit::kBandwidth))};
                 },
                 Bandwidth},
    FreeVariable{
        "tokens", "samples (with their tokens) per GPU and micro-step", true, false, Always,
        [](const JobSpec& j) { return static_cast<double>(j.batch.micro_batch_size); }, 1,
        kMostBatch,
        [](const JobSpec& j, double value) {
          return BatchChanges(j, static_cast<std::int64_t>(value),
                              j.batch.gradient_accumulation_steps);
        },
        [](const JobSpec& j, double value) {
          const double samples = value * static_cast<double>(j.batch.gradient_accumulation_steps);
          if (TransformerOf(j) == nullptr) {
            return fmt::format("{} sample{} per GPU and step", FormatCount(samples),
                               samples == 1 ? "" : "s");
          }
          const double tokens = samples * static_cast<double>(j.batch.sequence_length);
          return fmt::format("{} tokens per GPU and step (micro-batch {})", FormatCount(tokens),
                             FormatCount(value));
        }},
    FreeVariable{
        "accumulation", "micro-steps per optimizer step", true, false, Always,
        [](const JobSpec& j) { return static_cast<double>(j.batch.gradient_accumulation_steps); },
        1, kMostSteps,
        [](const JobSpec& j, double value) {
          return BatchChanges(j, j.batch.micro_batch_size, static_cast<std::int64_t>(value));
        },
        [](const JobSpec&, double value) {
          return fmt::format("{} micro-step{}", FormatCount(value), value == 1 ? "" : "s");
        }},
    FreeVariable{"nodes", "nodes, each with the batch it has now", true, true, Always,
                 [](const JobSpec& j) { return static_cast<double>(j.nodes); }, 1, kMostNodes,
                 [](const JobSpec& j, double value) {
                   Changes changes = BatchChanges(j, j.batch.micro_batch_size,
                                                  j.batch.gradient_accumulation_steps);
                   changes.push_back(fmt::format("nodes={}", static_cast<std::int64_t>(value)));
                   if (j.is_given("plan.data_parallel")) {
                     changes.push_back("plan.data_parallel=null");
                   }
                   return changes;
                 },
                 [](const JobSpec& j, double value) {
                   return fmt::format("{} node{} ({} GPUs)", FormatCount(value),
                                      value == 1 ? "" : "s",
                                      FormatCount(value * static_cast<double>(j.gpus_per_node)));
                 }},
};

}  // namespace

std::span<const FreeVariable> FreeVariables() { return kVariables; }

const FreeVariable* FindFreeVariable(std::string_view name) {
  for (const FreeVariable& variable : kVariables) {
    if (variable.name == name) return &variable;
  }
  return nullptr;
}

}  // namespace stepsim
