// A report with round numbers, made by hand: what the writers show is checked against it.
//
// 16 GPUs, step 800 ms = 680 compute + 12 contention + 96 exposed + 4 peer wait + 8 host.
#pragma once

#include <utility>

#include "sim/metrics/step_report.h"

namespace stepsim::testing {

constexpr Duration Milliseconds(std::int64_t ms) { return Duration{ms * 1'000'000'000}; }

inline RankAccount HandMadeAccount() {
  RankAccount account;
  account.step = Milliseconds(800);
  account.compute = Milliseconds(680);
  account.contention = Milliseconds(12);
  account.exposed[static_cast<std::size_t>(Site::kGradientReduce)] = Milliseconds(92);
  account.exposed[static_cast<std::size_t>(Site::kOptimizer)] = Milliseconds(4);
  account.peer_wait = Milliseconds(4);
  account.host = Milliseconds(8);
  account.communication = Milliseconds(240);
  account.profiler_exposed = Milliseconds(100);
  return account;
}

inline CollectiveReport HandMadeCollective(std::string name, Bytes bytes, Duration exposed,
                                           std::string cause) {
  CollectiveReport collective;
  collective.name = std::move(name);
  collective.site = Site::kGradientReduce;
  collective.bytes = bytes;
  collective.group_size = 16;
  collective.group = "dp";
  collective.algorithm = "ring";
  collective.protocol = "simple";
  collective.ready = kStepBegin + Milliseconds(600);
  collective.start = kStepBegin + Milliseconds(610);
  collective.transfer_start = kStepBegin + Milliseconds(614);
  collective.end = kStepBegin + Milliseconds(700);
  collective.hidden = Milliseconds(5);
  collective.exposed = exposed;
  if (!cause.empty()) collective.cause_kind = ExposureCause::kTail;
  collective.cause = std::move(cause);
  collective.saved = exposed;
  collective.slack = Duration::zero() - exposed;
  collective.first_use = "optimizer";
  return collective;
}

inline StepReport HandMadeReport() {
  StepReport report;
  StepContext& context = report.context;
  context.job = "llama-3.2-3b with DDP on 16 x A100-80GB";
  context.job_file = "configs/jobs/llama.yaml";
  context.hardware = "a100-80g-dgx";
  context.model = "llama-3.2-3b";
  context.strategy = "ddp";
  context.gpus = 16;
  context.samples_per_step = 32;
  context.tokens_per_step = 131072;
  // 0.8 s x 16 x 312e12 = 3.9936e15 FLOP could have been computed; 40% of that is 1.59744e15.
  context.model_flops = {{"palm", {1.59744e15}}, {"causal", {1.39776e15}}};
  context.mfu_convention = "palm";
  context.hardware_flops = {1.9968e15};
  context.peak = {312e12};
  context.peak_dtype = DType::kBf16;
  context.gpu_memory = {80LL << 30};
  context.confidence = "links from preset (not calibrated): +-25%";
  context.assumptions = {{"plan.ddp.bucket_cap_mb", "25 MiB", "default"}};
  context.resolved_json = R"({"model": {"name": "llama-3.2-3b"}, "nodes": 2})";
  report.window = {kStepBegin, kStepBegin + Milliseconds(800)};
  report.ranks = {HandMadeAccount()};
  report.rank_infos = {{.global_rank = 0, .stands_for = 16}};
  report.microsteps = {{0, true, HandMadeAccount()}};
  report.collectives = {
      HandMadeCollective("all_reduce bucket 3", {100'000'000}, Milliseconds(3), "queued"),
      HandMadeCollective("all_reduce bucket 4", {50'000'000}, Milliseconds(0), ""),
      HandMadeCollective("all_reduce bucket 5", {1'580'000'000}, Milliseconds(88),
                         "ready last, nothing left to hide behind"),
      HandMadeCollective("all_reduce loss", {4}, Milliseconds(1), "waits for the slowest rank"),
      HandMadeCollective("all_reduce norm", {8}, Milliseconds(4), "latency"),
  };
  report.memory.at_peak = {{"parameters", {12'900'000'000}},
                           {"optimizer_states", {25'700'000'000}},
                           {"gradients", {0}},
                           {"activations", {20'100'000'000}}};
  report.memory.total = report.memory.reserved = {58'700'000'000};
  report.memory.allocated = {57'000'000'000};
  report.memory.task = "layers.0.qkv.wgrad";
  report.memory.phase = Phase::kBackward;
  report.memory.time = Milliseconds(300);
  return report;
}

// Two stages of 1F1B with four micro-batches, one bubble of 8 ms more on the first. Closed form:
// (p-1)(tF+tB) = 3 units idle beside 4 x 3 that are busy.
inline StepReport HandMadePipeline() {
  StepReport report = HandMadeReport();
  report.context.pipeline = PipelineShape{"1f1b", 2, 1, 4, 3.0 / 15, "(p-1)(tF+tB)"};
  report.ranks = {HandMadeAccount(), HandMadeAccount()};
  report.ranks[0].compute -= Milliseconds(8);
  report.ranks[0].bubble += Milliseconds(8);
  report.rank_infos = {{0, 8, "pp 0"}, {8, 8, "pp 1"}};
  report.reported_rank = 1;
  report.in_flight = {2, 1};
  report.memory.ranks = {report.memory, report.memory};
  return report;
}

}  // namespace stepsim::testing
