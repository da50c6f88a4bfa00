#include "tests/support/random_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

namespace stepsim::testing {
namespace {

// The engine is specified to the bit; the library's distributions are not.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  std::int64_t Between(std::int64_t low, std::int64_t high) {
    const auto span = static_cast<std::uint64_t>(high - low + 1);
    return low + static_cast<std::int64_t>(engine_() % span);
  }
  double Real(double low, double high) {
    return low + (high - low) * static_cast<double>(Between(0, 1'000'000)) / 1e6;
  }
  bool Chance(double probability) { return Real(0, 1) < probability; }
  template <class T>
  T Pick(std::initializer_list<T> choices) {
    return choices.begin()[Between(0, static_cast<std::int64_t>(choices.size()) - 1)];
  }

 private:
  std::mt19937_64 engine_;
};

LinkSpec RandomLink(Random& random, double slowest, double fastest) {
  LinkSpec link;
  link.type = "link";
  link.bandwidth = {random.Real(slowest, fastest)};
  link.efficiency = random.Real(0.5, 1);
  link.latency = Duration{random.Between(0, 40'000'000)};
  return link;
}

// Tensor cores are never slower than the ordinary units.
HardwareSpec RandomHardware(Random& random) {
  HardwareSpec hardware;
  hardware.name = "random";
  GpuSpec& gpu = hardware.gpu;
  gpu.name = "random";
  const double fp32 = random.Real(5e12, 100e12);
  const double fp16 = fp32 * random.Real(1, 16);
  gpu.peak = {{fp32}, {fp32 * random.Real(1, 8)}, {fp16}, {fp16}, {2 * fp16}};
  gpu.hbm_bandwidth = {random.Real(0.3e12, 8e12)};
  gpu.memory = {std::int64_t{80} << 30};
  gpu.gemm_efficiency = random.Real(0.3, 1);
  gpu.attention_efficiency = random.Real(0.3, 1);
  gpu.memory_efficiency = random.Real(0.5, 1);
  gpu.kernel_latency = Duration{random.Between(0, 10'000'000)};
  hardware.gpus_per_node = random.Between(1, 8);
  hardware.intra_node = RandomLink(random, 10e9, 900e9);
  hardware.network.name = "random";
  hardware.network.nics_per_node = random.Between(1, 8);
  hardware.network.link = RandomLink(random, 1e9, 50e9);
  return hardware;
}

TransformerSpec RandomTransformer(Random& random) {
  TransformerSpec spec;
  spec.layers = random.Between(1, 4);
  spec.kv_heads = random.Between(1, 4);
  spec.heads = spec.kv_heads * random.Between(1, 4);
  spec.head_dim = 32 * random.Between(1, 4);
  spec.hidden_size = spec.heads * spec.head_dim;
  spec.ffn_size = 64 * random.Between(1, 40);
  spec.gated_mlp = random.Chance(0.5);
  spec.vocab_size = random.Between(1, 60'000);
  spec.vocab_multiple = random.Pick<std::int64_t>({1, 64, 128});
  spec.tied_embeddings = random.Chance(0.5);
  spec.positions =
      random.Pick({PositionKind::kLearned, PositionKind::kRotary, PositionKind::kNone});
  spec.max_positions = spec.positions == PositionKind::kLearned ? 512 : 0;
  spec.norm = random.Pick({NormKind::kLayerNorm, NormKind::kRmsNorm});
  spec.qkv_bias = random.Chance(0.5);
  spec.output_bias = random.Chance(0.5);
  spec.mlp_bias = random.Chance(0.5);
  spec.causal = random.Chance(0.7);
  spec.dropout = random.Pick({0.0, 0.1});
  spec.token_types = random.Pick<std::int64_t>({0, 2});
  spec.embedding_norm = random.Chance(0.3);
  spec.final_norm = random.Chance(0.7);
  spec.pooler = random.Chance(0.3);
  spec.next_sentence_head = spec.pooler && random.Chance(0.5);
  spec.mlm_head = !spec.causal && random.Chance(0.7);
  return spec;
}

LayerSpec RandomLayer(Random& random, std::int64_t index) {
  LayerSpec layer;
  layer.name = fmt::format("l{}", index);
  const std::int64_t tensors = random.Between(0, 3);
  for (std::int64_t i = 0; i < tensors; ++i) {
    ParameterSpec parameter{fmt::format("l{}.p{}", index, i), random.Between(1, 4'000'000), {}};
    if (random.Chance(0.2)) parameter.dtype = random.Pick({DType::kFp32, DType::kFp16});
    layer.parameters.push_back(parameter);
  }
  if (random.Chance(0.7)) layer.forward_flops = {random.Real(0, 50e9)};
  if (random.Chance(0.3)) layer.backward_flops = Flops{random.Real(0, 100e9)};
  layer.forward_bytes = {random.Between(0, 20'000'000)};
  if (random.Chance(0.3)) layer.backward_bytes = Bytes{random.Between(0, 50'000'000)};
  layer.saved_bytes = {random.Between(0, 10'000'000)};
  if (random.Chance(0.2)) layer.buffers = {random.Between(0, 10'000)};
  return layer;
}

LayerListSpec RandomLayerList(Random& random) {
  LayerListSpec list;
  const std::int64_t layers = random.Between(1, 20);
  for (std::int64_t i = 0; i < layers; ++i) list.layers.push_back(RandomLayer(random, i));
  return list;
}

DdpPlan RandomDdp(Random& random) {
  DdpPlan plan;
  if (random.Chance(0.5)) plan.bucket_cap_mb = random.Real(0.001, 60);
  if (random.Chance(0.2)) plan.bucket_cap_mb_list = {random.Real(0.1, 5), random.Real(1, 30)};
  if (random.Chance(0.2)) plan.first_bucket_mb = random.Real(0.1, 5);
  plan.gradient_as_bucket_view = random.Chance(0.5);
  plan.find_unused_parameters = random.Chance(0.2);
  plan.static_graph = !plan.find_unused_parameters && random.Chance(0.2);
  plan.broadcast_buffers = random.Chance(0.7);
  plan.comm_hook = random.Pick(
      {CommHook::kNone, CommHook::kNone, CommHook::kFp16Compress, CommHook::kBf16Compress});
  plan.iteration = random.Chance(0.2) ? TrainingIteration::kFirst : TrainingIteration::kSteady;
  plan.no_sync = random.Chance(0.5);
  return plan;
}

Duration RandomTime(Random& random, std::int64_t most_us) {
  return Duration{random.Between(0, most_us * 1'000'000)};
}

HostSpec RandomHost(Random& random) {
  HostSpec host;
  if (random.Chance(0.8)) host.launch = RandomTime(random, random.Chance(0.3) ? 2'000 : 20);
  if (random.Chance(0.5)) host.collective_call = RandomTime(random, 100);
  if (random.Chance(0.5)) host.event_handover = RandomTime(random, 50);
  if (random.Chance(0.5)) host.graph_launch = RandomTime(random, 100);
  host.cuda_graphs = random.Chance(0.2);
  host.synchronize = random.Chance(0.3);
  host.max_connections = random.Pick<std::int64_t>({1, 2, 8});
  return host;
}

}  // namespace

ResolvedJob RandomJobWithHost(std::uint64_t seed) {
  ResolvedJob resolved = RandomJob(seed);
  Random random(~seed);
  JobSpec& job = resolved.job;
  job.host = RandomHost(random);
  job.kernels = random.Pick({KernelMode::kEager, KernelMode::kCompiled, KernelMode::kFused});
  if (job.plan.ddp.find_unused_parameters) job.host.cuda_graphs = false;
  return resolved;
}

ResolvedJob RandomJob(std::uint64_t seed) {
  Random random(seed);
  ResolvedJob resolved;
  JobSpec& job = resolved.job;
  job.name = fmt::format("random {}", seed);
  job.file = "random.yaml";
  job.hardware = RandomHardware(random);
  job.nodes = random.Between(1, 4);
  job.gpus_per_node = random.Between(1, job.hardware.gpus_per_node);
  job.model.name = "random";
  if (random.Chance(0.5)) {
    job.model.network = RandomTransformer(random);
  } else {
    job.model.network = RandomLayerList(random);
  }
  job.plan.strategy = random.Chance(0.9) ? "ddp" : "none";
  job.plan.data_parallel = job.gpus();
  job.plan.ddp = RandomDdp(random);
  job.batch = {random.Between(1, 4), random.Between(1, 512), random.Between(1, 3)};
  job.precision.compute =
      random.Pick({DType::kFp32, DType::kTf32, DType::kBf16, DType::kFp16, DType::kFp8});
  job.precision.parameters = random.Pick({DType::kFp32, DType::kBf16, DType::kFp16});
  job.optimizer = random.Pick({OptimizerKind::kAdamW, OptimizerKind::kSgd,
                               OptimizerKind::kSgdMomentum, OptimizerKind::kNone});
  job.collectives.model = random.Pick({CollectiveModel::kNccl, CollectiveModel::kAlphaBeta});
  job.collectives.all_reduce = random.Chance(0.6) ? "ring" : "hierarchical";
  job.host.launch = Duration{};
  job.contention = ContentionMode::kOff;
  job.mfu_convention = "causal";
  resolved.resolved_json = "{}";
  return resolved;
}

}  // namespace stepsim::testing
