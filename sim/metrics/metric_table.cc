#include "sim/metrics/metric_table.h"

#include <array>
#include <string>

namespace stepsim {
namespace {

double Ratio(double numerator, double denominator) {
  return denominator > 0 ? numerator / denominator : 0;
}

double PerGpuSecond(const StepReport& report, double per_step) {
  return Ratio(per_step, report.step_time_s() * static_cast<double>(report.context.gpus));
}

template <Duration RankAccount::*part>
double Seconds(const StepReport& report) {
  return ToSeconds(report.account().*part);
}

template <Site site>
double Exposed(const StepReport& report) {
  return ToSeconds(report.account().exposed[static_cast<std::size_t>(site)]);
}

double ExposedTotal(const StepReport& report) {
  return ToSeconds(report.account().exposed_total());
}

double MfuPalm(const StepReport& report) { return Mfu(report, "palm"); }
double MfuMegatron(const StepReport& report) { return Mfu(report, "megatron"); }
double MfuTorchtitan(const StepReport& report) { return Mfu(report, "torchtitan"); }
double MfuCausal(const StepReport& report) { return Mfu(report, "causal"); }

double TokensPerSecondPerGpu(const StepReport& report) {
  return PerGpuSecond(report, report.context.tokens_per_step);
}

double SamplesPerSecond(const StepReport& report) {
  return Ratio(report.context.samples_per_step, report.step_time_s());
}

double TflopsPerGpu(const StepReport& report) {
  for (const auto& [name, flops] : report.context.model_flops) {
    if (name == report.context.mfu_convention) return PerGpuSecond(report, flops.value) / 1e12;
  }
  return 0;
}

double BubbleFraction(const StepReport& report) {
  return Ratio(ToSeconds(report.account().bubble), report.step_time_s());
}

constexpr std::array kMetrics = {
    Metric{"step_time_s", "s", "Time of the reported step on the slowest rank.",
           Seconds<&RankAccount::step>},
    Metric{"compute_s", "s",
           "A compute kernel runs; the time it would take without anything beside it.",
           Seconds<&RankAccount::compute>},
    Metric{"contention_s", "s", "What compute kernels lose to tasks that run beside them.",
           Seconds<&RankAccount::contention>},
    Metric{"exposed_total_s", "s",
           "Nothing computes while data is being transferred, all sites together.", ExposedTotal},
    Metric{"exposed_gradient_reduce_s", "s", "Exposed: gradients are summed across ranks.",
           Exposed<Site::kGradientReduce>},
    Metric{"exposed_parameter_gather_s", "s", "Exposed: sharded parameters are collected.",
           Exposed<Site::kParameterGather>},
    Metric{"exposed_tensor_parallel_s", "s", "Exposed: collectives within split layers.",
           Exposed<Site::kTensorParallel>},
    Metric{"exposed_pipeline_transfer_s", "s", "Exposed: transfers between pipeline stages.",
           Exposed<Site::kPipelineTransfer>},
    Metric{"exposed_context_parallel_s", "s", "Exposed: exchange of keys and values.",
           Exposed<Site::kContextParallel>},
    Metric{"exposed_expert_parallel_s", "s", "Exposed: dispatch to experts and back.",
           Exposed<Site::kExpertParallel>},
    Metric{"exposed_optimizer_s", "s", "Exposed: communication of the optimizer.",
           Exposed<Site::kOptimizer>},
    Metric{"peer_wait_s", "s",
           "A collective waits for a rank outside its pipeline; nothing computes.",
           Seconds<&RankAccount::peer_wait>},
    Metric{"bubble_s", "s", "Nothing computes: another pipeline stage is not there yet.",
           Seconds<&RankAccount::bubble>},
    Metric{"host_s", "s", "Nothing runs: the launching thread has not issued the next kernel.",
           Seconds<&RankAccount::host>},
    Metric{"idle_s", "s", "Nothing runs, for any other reason.", Seconds<&RankAccount::idle>},
    Metric{"communication_s", "s", "A communication kernel is resident (hidden or not).",
           Seconds<&RankAccount::communication>},
    Metric{"profiler_exposed_s", "s",
           "A communication kernel is resident and no compute kernel runs: what a profiler calls "
           "exposed, waiting for peers included.",
           Seconds<&RankAccount::profiler_exposed>},
    Metric{"overlap_fraction", "fraction",
           "1 - profiler_exposed / communication; 0 without communication.",
           [](const StepReport& report) { return report.account().overlap_fraction(); }, true},
    Metric{"mfu_palm", "fraction",
           "Model FLOPs utilisation as PaLM counts: every parameter, full attention.", MfuPalm,
           true},
    Metric{"mfu_megatron", "fraction",
           "Model FLOPs utilisation as Megatron-LM counts: padded vocabulary, causal attention.",
           MfuMegatron, true},
    Metric{"mfu_torchtitan", "fraction",
           "Model FLOPs utilisation as torchtitan counts: no embedding lookup, full attention.",
           MfuTorchtitan, true},
    Metric{"mfu_causal", "fraction",
           "Model FLOPs utilisation, attention counted only where the causal mask lets it look.",
           MfuCausal, true},
    Metric{"hfu", "fraction", "Hardware FLOPs utilisation: recomputation included.", Hfu, true},
    Metric{"tokens_per_s_per_gpu", "tokens/s", "Throughput; 0 for networks without tokens.",
           TokensPerSecondPerGpu, true},
    Metric{"samples_per_s", "samples/s", "Throughput of the whole job in sequences or images.",
           SamplesPerSecond, true},
    Metric{"tflops_per_gpu", "TFLOP/s", "Model FLOPs per second and GPU, in the job's convention.",
           TflopsPerGpu, true},
    Metric{"peak_memory_bytes", "bytes", "Highest memory use of any simulated rank.",
           [](const StepReport& report) { return ToDouble(report.memory.total); }},
    Metric{"bubble_fraction", "fraction", "bubble / step.", BubbleFraction},
};

}  // namespace

std::span<const Metric> Metrics() { return kMetrics; }

}  // namespace stepsim
