#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

#include "models/spec/expert_tokens.h"
#include "models/spec/gpu_generation.h"
#include "models/spec/spec_fields.h"

namespace stepsim {
namespace {

using std::chrono::microseconds;

// models/README.md, "Host", says where these come from.
constexpr Duration kEagerLaunch = microseconds(10);
constexpr Duration kCompiledLaunch = microseconds(6);
constexpr Duration kCollectiveCall = microseconds(15);
constexpr Duration kEventHandover = microseconds(2);
constexpr Duration kGraphLaunch = microseconds(7);
constexpr Duration kGraphNode = std::chrono::nanoseconds(300);

constexpr std::array kPriorityNames = {
    EnumName<StreamPriority>{StreamPriority::kFramework, "framework"},
    EnumName<StreamPriority>{StreamPriority::kDefault, "default"},
    EnumName<StreamPriority>{StreamPriority::kHigh, "high"},
};

Duration Scaled(Duration time, double scale) {
  return Duration(std::llround(static_cast<double>(time.count()) * scale));
}

}  // namespace

const StructTable<HostSpec>& HostFields() {
  static const StructTable<HostSpec> table{
      Field("launch", &HostSpec::launch,
            "time of the host thread per kernel launch; 0: the times below are 0 unless given")
          .Unset("10 us, with kernels: compiled 6 us"),
      Field("collective_call", &HostSpec::collective_call,
            "time of the host thread per call of a collective")
          .Unset("15 us, and at least launch"),
      Field(
          "event_handover", &HostSpec::event_handover,
          "time on the device from the end of a kernel on one stream to the start of the kernel on "
          "another stream that waits for it by an event")
          .Unset("2 us"),
      Field("graph_launch", &HostSpec::graph_launch,
            "time of the host thread per launch of a CUDA graph")
          .Unset("7 us"),
      Field("cuda_graphs", &HostSpec::cuda_graphs,
            "every micro-step is one CUDA graph: no launches and calls by the host"),
      Field(
          "synchronize", &HostSpec::synchronize,
          "the host waits for the device at the end of every step, as loss.item() does, instead of "
          "running ahead"),
      Field(
          "max_connections", &HostSpec::max_connections,
          "CUDA_DEVICE_MAX_CONNECTIONS: hardware queues that the streams share; with 1 kernels of "
          "all streams start in launch order")
          .Unset(
              "8; 1 before Blackwell with tensor or context parallelism of Megatron-LM's layers, "
              "whose launcher asks for it")
          .Range(1, 32)
          .Aliases({"cuda_device_max_connections"}),
      Field("stream_priority", &HostSpec::stream_priority, kPriorityNames,
            "of the communication streams: high takes the SMs that come free first; framework: as "
            "the "
            "strategy makes them"),
  };
  return table;
}

HostTimes TimesOf(const JobSpec& job) {
  const HostSpec& host = job.host;
  const bool is_compiled = job.kernels == KernelMode::kCompiled;
  // Whoever says that launching is free means an ideal host.
  const double scale = host.launch == Duration::zero() ? 0 : job.hardware.host_time_scale;
  HostTimes times;
  times.launch = host.launch.value_or(Scaled(is_compiled ? kCompiledLaunch : kEagerLaunch, scale));
  times.collective_call =
      host.collective_call.value_or(std::max(Scaled(kCollectiveCall, scale), times.launch));
  times.event_handover = host.event_handover.value_or(Scaled(kEventHandover, scale));
  times.graph_launch = host.graph_launch.value_or(Scaled(kGraphLaunch, scale));
  times.graph_node = Scaled(kGraphNode, scale);
  return times;
}

// Megatron-LM's launcher wants its collectives, which are launched first, to start before the
// products that they run beside; Blackwell's scheduler does so by itself.
std::int64_t ConnectionsOf(const JobSpec& job) {
  constexpr std::int64_t kDriver = 8;
  const bool is_pytorch =
      Uses(job, "fsdp1") || Uses(job, "fsdp2") || job.plan.tensor.overlap == TensorOverlap::kAsync;
  const bool has_exchanges = job.plan.tensor_parallel > 1 || job.plan.context_parallel > 1;
  const bool pairs = job.plan.expert.overlap_microbatches;  // for which it wants more than one
  const bool is_new =
      GenerationOf(job.hardware.gpu.compute_capability) >= GpuGeneration::kBlackwell;
  return job.host.max_connections.value_or(is_pytorch || !has_exchanges || pairs || is_new ? kDriver
                                                                                           : 1);
}

bool HostReadsExpertCounts(const JobSpec& job) {
  const TransformerSpec* spec = TransformerOf(job);
  if (spec == nullptr || !spec->has_experts() || job.plan.expert.pad_to_capacity) return false;
  if (GathersTokens(job)) return job.plan.expert_parallel > 1;
  return job.plan.expert_parallel * job.plan.expert_tensor_parallel() > 1 || Uses(job, "megatron");
}

std::string_view HostWaitInStep(const JobSpec& job) {
  if (HostReadsExpertCounts(job)) return "the number of tokens of each expert";
  const ZeroPlan& zero = job.plan.zero;
  if (job.plan.strategy == "zero") {
    if (zero.stage == 3) return "DeepSpeed's stage 3";
    if (zero.overlaps()) return "DeepSpeed's overlap_comm";
    return job.precision.compute == DType::kFp16 ? "DeepSpeed's overflow check of fp16" : "";
  }
  const Fsdp1Plan& fsdp1 = job.plan.fsdp1;
  if (job.plan.strategy != "fsdp1" || fsdp1.sharding_strategy == ShardingStrategy::kNoShard) {
    return "";
  }
  if (fsdp1.iteration == TrainingIteration::kFirst) return "FSDP1's first iteration";
  return fsdp1.limit_all_gathers && !job.plan.ideal ? "FSDP1's limit_all_gathers" : "";
}

// FSDP2 makes its gather and reduce_scatter streams with high priority, FSDP1 under HYBRID_SHARD
// with the limiter on; the others ask for none.
StreamPriority PriorityOf(const JobSpec& job) {
  if (job.host.stream_priority != StreamPriority::kFramework) return job.host.stream_priority;
  const Fsdp1Plan& fsdp1 = job.plan.fsdp1;
  const bool is_high =
      job.plan.strategy == "fsdp2" || (job.plan.strategy == "fsdp1" && fsdp1.limit_all_gathers &&
                                       IsHybrid(fsdp1.sharding_strategy));
  return is_high ? StreamPriority::kHigh : StreamPriority::kDefault;
}

}  // namespace stepsim
