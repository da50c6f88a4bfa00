#include "models/spec/check_job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>

#include "models/spec/check_collectives.h"
#include "models/spec/job_rules.h"
#include "models/spec/sharding.h"
#include "sim/base/units.h"

namespace stepsim {
namespace {

bool UsesDdp(const JobSpec& job) { return Uses(job, "ddp"); }

// ---- Keys without effect ----

bool KeepsFirstBuckets(const JobSpec& job) {
  return job.plan.ddp.find_unused_parameters && !job.plan.ddp.static_graph;
}
bool HasOneBucket(const JobSpec& job) {
  return UsesDdp(job) && job.plan.ddp.iteration == TrainingIteration::kFirst &&
         !KeepsFirstBuckets(job);
}
bool UsesGraphs(const JobSpec& job) { return job.host.cuda_graphs; }
bool HasCapList(const JobSpec& job) { return !job.plan.ddp.bucket_cap_mb_list.empty(); }
bool HasNoPositionTable(const JobSpec& job) {
  const TransformerSpec* spec = TransformerOf(job);
  return spec != nullptr && spec->positions != PositionKind::kLearned;
}

constexpr std::array kIneffective = {
    IneffectiveKey{"plan.ddp", "plan.strategy: {strategy}",
                   [](const JobSpec& j) { return !UsesDdp(j); }},
    IneffectiveKey{"plan.data_parallel", "plan.strategy: none",
                   [](const JobSpec& j) { return !j.plan.communicates(); }},
    IneffectiveKey{"collectives", "plan.strategy: none",
                   [](const JobSpec& j) { return !j.plan.communicates(); }},
    IneffectiveKey{"plan.ddp.bucket_cap_mb", "plan.ddp.bucket_cap_mb_list", HasCapList},
    IneffectiveKey{"plan.ddp.first_bucket_mb", "plan.ddp.bucket_cap_mb_list", HasCapList},
    IneffectiveKey{"plan.ddp.bucket_cap_mb", "plan.ddp.iteration: first, which has one bucket",
                   HasOneBucket},
    IneffectiveKey{"plan.ddp.bucket_cap_mb_list", "plan.ddp.iteration: first, which has one bucket",
                   HasOneBucket},
    IneffectiveKey{"plan.ddp.first_bucket_mb", "plan.ddp.iteration: first, which has one bucket",
                   HasOneBucket},
    IneffectiveKey{
        "plan.ddp.iteration",
        "plan.ddp.find_unused_parameters: true, which keeps the first iteration's buckets",
        KeepsFirstBuckets},
    IneffectiveKey{"plan.ddp.no_sync", "batch.gradient_accumulation_steps: 1",
                   [](const JobSpec& j) { return j.batch.gradient_accumulation_steps == 1; }},
    IneffectiveKey{"batch.sequence_length", "a model that is a list of layers",
                   [](const JobSpec& j) { return TransformerOf(j) == nullptr; }},
    IneffectiveKey{"kernels", "a model that is a list of layers",
                   [](const JobSpec& j) { return TransformerOf(j) == nullptr; }},
    IneffectiveKey{"loss", "a model that is a list of layers",
                   [](const JobSpec& j) { return TransformerOf(j) == nullptr; }},
    IneffectiveKey{"attention", "a model that is a list of layers",
                   [](const JobSpec& j) { return TransformerOf(j) == nullptr; }},
    IneffectiveKey{"optimizer_impl", "optimizer: none",
                   [](const JobSpec& j) { return j.optimizer == OptimizerKind::kNone; }},
    IneffectiveKey{"model.transformer.max_positions", "positions that are not learned",
                   HasNoPositionTable},
    IneffectiveKey{"network", "nodes: 1", [](const JobSpec& j) { return j.nodes == 1; }},
    IneffectiveKey{"host.launch", "host.cuda_graphs: true", UsesGraphs},
    IneffectiveKey{"simulate.launch_overhead", "host.cuda_graphs: true", UsesGraphs},
    IneffectiveKey{"host.collective_call", "host.cuda_graphs: true", UsesGraphs},
    IneffectiveKey{"host.graph_launch", "host.cuda_graphs: false",
                   [](const JobSpec& j) { return !UsesGraphs(j); }},
    IneffectiveKey{"host.collective_call", "plan.strategy: none",
                   [](const JobSpec& j) { return !j.plan.communicates(); }},
    IneffectiveKey{"host.event_handover", "plan.strategy: none",
                   [](const JobSpec& j) { return !j.plan.communicates(); }},
    IneffectiveKey{"host.stream_priority", "plan.strategy: none",
                   [](const JobSpec& j) { return !j.plan.communicates(); }},
};

std::vector<std::span<const IneffectiveKey>> AllRules() {
  return {kIneffective,
          IneffectiveFsdpKeys(),
          IneffectiveZeroKeys(),
          IneffectiveMemoryKeys(),
          IneffectiveCollectiveKeys(),
          IneffectiveParallelKeys(),
          IneffectivePipelineKeys(),
          IneffectiveExpertKeys()};
}

// A given key at or below `path` is reported once, at the highest one that was given.
class EffectChecker {
 public:
  EffectChecker(const JobSpec& job, FieldReading& reading) : job_(job), reading_(reading) {}

  void Check(std::span<const IneffectiveKey> rules) {
    for (const IneffectiveKey& rule : rules) {
      const auto given = reading_.given.find(rule.path);
      if (given == reading_.given.end() || !rule.holds(job_)) continue;
      const bool is_inside_another =
          std::any_of(reported_.begin(), reported_.end(),
                      [&](const std::string& path) { return IsAtOrBelow(rule.path, path); });
      if (is_inside_another) continue;
      reported_.emplace_back(rule.path);
      const bool is_set = OriginText(given->second) == "--set";
      reading_.diagnostics.Add(
          given->second,
          fmt::format("{}: has no effect with {}{}", rule.path, ReasonOf(rule.reason),
                      is_set ? "" : fmt::format("; take it out with --set {}=null", rule.path)),
          std::string(rule.path));
    }
  }

 private:
  std::string ReasonOf(std::string_view reason) const {
    return fmt::format(fmt::runtime(reason), fmt::arg("strategy", job_.plan.strategy));
  }

  const JobSpec& job_;
  FieldReading& reading_;
  std::vector<std::string> reported_;
};

// A network of one node can only be set by hand: a profile always has one.
void CheckNetworkSettings(const JobSpec& job, FieldReading& reading) {
  constexpr std::string_view kPrefix = "hardware.network";
  if (job.nodes != 1) return;
  for (auto it = reading.given.lower_bound(kPrefix);
       it != reading.given.end() && it->first.rfind(kPrefix, 0) == 0; ++it) {
    if (OriginText(it->second) != "--set" || reading.IsGiven("network")) continue;
    reading.diagnostics.Add(it->second, fmt::format("{}: has no effect with nodes: 1", it->first),
                            it->first);
  }
}

// ---- Contradictions ----

class JobChecker {
 public:
  JobChecker(const JobSpec& job, FieldReading& reading)
      : job_(job), reading_(reading), problems_{job, reading} {}

  void Check() {
    CheckCluster();
    CheckPeak();
    if (const TransformerSpec* spec = TransformerOf(job_)) {
      CheckHeads(*spec);
      CheckPositions(*spec);
      CheckHeadsBehindTheEncoder(*spec);
      CheckTransformerSize(*spec);
      CheckTaskCount(spec->layers);
    } else {
      const auto& list = std::get<LayerListSpec>(job_.model.network);
      CheckLayerListSize(list);
      CheckTaskCount(static_cast<std::int64_t>(list.layers.size()));
    }
    CheckHost();
    CheckDdp();
    CheckFsdp(problems_);
    CheckZero(problems_);
    CheckMegatron(problems_);
    CheckMemory(problems_);
    CheckTensor(problems_);
    CheckContext(problems_);
    CheckSimulate(problems_);
    CheckPipeline(problems_);
    CheckExperts(problems_);
  }

  void CheckCluster() {
    const std::int64_t available = job_.hardware.gpus_per_node;
    if (!AnyInvalid({"gpus_per_node", "hardware.gpus_per_node"}) &&
        job_.gpus_per_node > available) {
      Report("gpus_per_node", fmt::format("found {}, allowed: at most the {} of hardware {}",
                                          job_.gpus_per_node, available, job_.hardware.name));
    }
    if (AnyInvalid({"gpus_per_node", "hardware.gpus_per_node", "nodes"})) return;
    constexpr std::int64_t kMostGpus = 10'000'000;
    if (job_.gpus() > kMostGpus) {
      Report("nodes", fmt::format("found {} x {} GPUs, allowed: at most {}", job_.nodes,
                                  job_.gpus_per_node, kMostGpus));
    }
    if (job_.plan.communicates()) CheckDegrees(problems_);
    constexpr std::int64_t kMostUnfolded = 8192;
    if (job_.simulate.all_ranks && job_.gpus() > kMostUnfolded) {
      Report("simulate.ranks", fmt::format("found 'all' for {} GPUs, allowed: at most {} GPUs, or "
                                           "'folded'",
                                           job_.gpus(), kMostUnfolded));
    }
  }

 private:
  bool AnyInvalid(std::initializer_list<std::string_view> paths) const {
    return problems_.AnyInvalid(paths);
  }
  void Report(std::string_view path, std::string_view message) { problems_.Report(path, message); }

  void CheckPeak() {
    const std::string peak = fmt::format("hardware.gpu.peak.{}", ToString(job_.precision.compute));
    if (AnyInvalid({"precision.compute", "hardware.gpu", "hardware.gpu.peak", peak})) return;
    const auto can_compute_in = [&](DType dtype) {
      return PeakOf(job_.hardware.gpu, dtype).value > 0 &&
             (TransformerOf(job_) == nullptr ||
              PeakOf(job_.hardware.gpu, ActivationType(dtype)).value > 0);
    };
    if (can_compute_in(job_.precision.compute)) return;
    std::vector<std::string_view> names;
    for (const DType dtype :
         {DType::kFp32, DType::kTf32, DType::kBf16, DType::kFp16, DType::kFp8}) {
      if (can_compute_in(dtype)) names.push_back(ToString(dtype));
    }
    Report(
        "precision.compute",
        fmt::format("found '{}', for which hardware {} has no peak, allowed: {}",
                    ToString(job_.precision.compute), job_.hardware.name, fmt::join(names, ", ")));
  }

  void CheckHeads(const TransformerSpec& spec) {
    if (AnyInvalid({"model.transformer.heads", "model.transformer.kv_heads"})) return;
    if (spec.heads % spec.kv_heads == 0) return;
    Report(
        "model.transformer.kv_heads",
        fmt::format("heads ({}) must be a multiple of kv_heads ({}); nearest valid: {}", spec.heads,
                    spec.kv_heads, fmt::join(NearestDivisors(spec.heads, spec.kv_heads), ", ")));
  }

  void CheckPositions(const TransformerSpec& spec) {
    if (!reading_.IsGiven("batch.sequence_length")) {
      Report("batch.sequence_length", "missing, allowed: a whole number of tokens of at least 1");
      return;
    }
    if (spec.positions != PositionKind::kLearned ||
        AnyInvalid({"batch.sequence_length", "model.transformer.max_positions"})) {
      return;
    }
    if (spec.max_positions == 0) {
      reading_.diagnostics.Add(reading_.PlaceOf("model.transformer.positions"),
                               "model.transformer.max_positions: missing, allowed: the rows of the "
                               "learned position table");
    } else if (job_.batch.sequence_length > spec.max_positions) {
      Report("batch.sequence_length",
             fmt::format("sequence_length ({}) must not exceed the max_positions ({}) of model {}; "
                         "nearest valid: {}",
                         job_.batch.sequence_length, spec.max_positions, job_.model.name,
                         spec.max_positions));
    }
  }

  void CheckHeadsBehindTheEncoder(const TransformerSpec& spec) {
    if (spec.next_sentence_head && !spec.pooler) {
      Report("model.transformer.next_sentence_head",
             "found 'true' with pooler: false, allowed: both or neither");
    }
  }

  void CheckTransformerSize(const TransformerSpec& spec) {
    const auto real = [](std::int64_t n) { return static_cast<double>(n); };
    const double attention =
        2 * real(spec.hidden_size) * real(spec.head_dim) * (real(spec.heads) + real(spec.kv_heads));
    const double mlp = (spec.gated_mlp ? 3 : 2) * real(spec.hidden_size) * real(spec.ffn_size);
    const double vocabulary = 2 * (real(spec.vocab_size) + real(spec.vocab_multiple));
    const double table = vocabulary + real(spec.max_positions) + real(spec.token_types);
    const double experts =
        real(spec.experts.count) * real(spec.experts.ffn_size) + real(spec.experts.shared_ffn_size);
    const double mixture = 3 * real(spec.hidden_size) * experts;
    CheckParameters(
        real(spec.layers) * (attention + mlp + mixture) + real(spec.hidden_size) * table,
        "model.transformer");
    // The widest activation, and the scores of attention.
    const double tokens = real(job_.batch.micro_batch_size) * real(job_.batch.sequence_length);
    const double routed =
        real(spec.experts.top_k) * std::max(real(spec.experts.ffn_size), real(spec.hidden_size)) *
        std::max(job_.plan.expert.imbalance, job_.plan.expert.capacity_factor.value_or(1));
    const double width = std::max({real(spec.ffn_size), real(spec.hidden_size), routed,
                                   real(spec.heads) * real(spec.head_dim), vocabulary,
                                   real(spec.heads) * real(job_.batch.sequence_length)});
    CheckActivations(tokens * width * real(spec.layers));
  }

  void CheckLayerListSize(const LayerListSpec& list) {
    double elements = 0;
    double bytes = 0;
    for (const LayerSpec& layer : list.layers) {
      for (const ParameterSpec& p : layer.parameters) elements += static_cast<double>(p.elements);
      bytes += ToDouble(layer.forward_bytes) * 3 + ToDouble(layer.saved_bytes);
      bytes += ToDouble(layer.backward_bytes.value_or(Bytes{}));
      bytes += ToDouble(layer.buffers);
    }
    CheckParameters(elements, "model.layers");
    CheckActivations(bytes * static_cast<double>(job_.batch.micro_batch_size));
  }

  void CheckParameters(double count, std::string_view path) {
    constexpr double kMost = 1e15;
    if (count <= kMost) return;
    Report(path, fmt::format("found about {} parameters, allowed: at most {}", FormatCount(count),
                             FormatCount(kMost)));
  }

  // Everything that is computed from these sizes must stay below 2^63.
  void CheckActivations(double size) {
    constexpr double kMost = 3e16;  // eager kernels move up to 120 bytes for each
    if (size <= kMost) return;
    Report("batch", fmt::format("found activations of about {} elements in a micro-step, allowed: "
                                "at most {}",
                                FormatCount(size), FormatCount(kMost)));
  }

  void CheckTaskCount(std::int64_t layers) {
    constexpr double kMost = 250'000;  // about 2 GB of tasks
    const double ranks = job_.simulate.all_ranks ? static_cast<double>(job_.gpus()) : 1.0;
    const double count = static_cast<double>(layers) * ranks *
                         static_cast<double>(job_.batch.gradient_accumulation_steps) *
                         static_cast<double>(job_.simulate.steps);
    if (count <= kMost) return;
    Report("simulate",
           fmt::format("found {} layers x micro-steps x steps x simulated ranks, allowed: at most "
                       "{}",
                       FormatCount(count), FormatCount(kMost)));
  }

  void CheckHost() {
    if (reading_.IsGiven("simulate.launch_overhead") && reading_.IsGiven("host.launch")) {
      Report("simulate.launch_overhead", "found beside host.launch, allowed: one of the two");
    }
    const std::string_view wait = HostWaitInStep(job_);
    if (UsesGraphs(job_) && !wait.empty() && !AnyInvalid({"host.cuda_graphs"})) {
      Report("host.cuda_graphs",
             fmt::format("found 'true' with {}, where the host waits for the device within a step "
                         "and nothing can be captured, allowed: 'false'",
                         wait));
    }
    if (UsesDdp(job_) && UsesGraphs(job_) && KeepsFirstBuckets(job_)) {
      Report(
          "host.cuda_graphs",
          "found 'true' with plan.ddp.find_unused_parameters: true, allowed: one of the two: the "
          "search runs on the host and cannot be captured");
    }
  }

  void CheckDdp() {
    const DdpPlan& ddp = job_.plan.ddp;
    if (UsesDdp(job_) && ddp.find_unused_parameters && ddp.static_graph) {
      Report("plan.ddp.find_unused_parameters", "has no effect with plan.ddp.static_graph: true");
    }
    if (HasOneBucket(job_) && job_.simulate.steps > 1) {
      Report("simulate.steps",
             fmt::format("found {} with plan.ddp.iteration: first, which comes once, allowed: 1",
                         job_.simulate.steps));
    }
  }

  const JobSpec& job_;
  FieldReading& reading_;
  JobProblems problems_;
};

}  // namespace

void SetOrigin(FieldReading& reading, std::string_view path, std::string value,
               std::string_view origin) {
  for (ValueOrigin& entry : reading.origins) {
    if (entry.field != path) continue;
    entry.value = value;
    entry.origin = std::string(origin);
  }
}
void SetOrigin(FieldReading& reading, std::string_view path, std::int64_t value,
               std::string_view origin) {
  SetOrigin(reading, path, fmt::format("{}", value), origin);
}

void JobProblems::Report(std::string_view path, std::string_view message) const {
  reading.diagnostics.Add(reading.PlaceOf(path), fmt::format("{}: {}", path, message));
}

std::vector<std::int64_t> NearestDivisors(std::int64_t number, std::int64_t wanted) {
  std::vector<std::int64_t> divisors;
  for (std::int64_t d = std::min(wanted, number); d >= 1; --d) {
    if (number % d == 0) {
      divisors.push_back(d);
      break;
    }
  }
  for (std::int64_t d = wanted + 1; d <= number; ++d) {
    if (number % d == 0) {
      divisors.push_back(d);
      break;
    }
  }
  return divisors;
}

void DeriveTransformerDefaults(TransformerSpec& spec, const std::string& path,
                               FieldReading& reading) {
  const std::string prefix = path + ".";
  if (!reading.IsGiven(prefix + "kv_heads")) {
    spec.kv_heads = spec.heads;
    SetOrigin(reading, prefix + "kv_heads", spec.kv_heads, "heads");
  }
  ExpertsSpec& experts = spec.experts;
  if (spec.has_experts() && experts.ffn_size == 0) {
    experts.ffn_size = spec.ffn_size;
    SetOrigin(reading, prefix + "experts.ffn_size", experts.ffn_size, "ffn_size");
  }
  const bool is_known =
      !reading.IsInvalid(prefix + "hidden_size") && !reading.IsInvalid(prefix + "heads");
  if (reading.IsGiven(prefix + "head_dim") || !is_known) return;
  if (spec.hidden_size % spec.heads != 0) {
    reading.diagnostics.Add(
        reading.PlaceOf(prefix + "heads"),
        fmt::format("{}heads: hidden_size ({}) must be a multiple of heads ({}) where head_dim is "
                    "not given",
                    prefix, spec.hidden_size, spec.heads));
    return;
  }
  spec.head_dim = spec.hidden_size / spec.heads;
  SetOrigin(reading, prefix + "head_dim", spec.head_dim, "hidden_size / heads");
}

void DeriveDefaults(JobSpec& job, FieldReading& reading) {
  if (auto* spec = std::get_if<TransformerSpec>(&job.model.network)) {
    DeriveTransformerDefaults(*spec, "model.transformer", reading);
  }
  if (!reading.IsGiven("gpus_per_node")) {
    job.gpus_per_node = job.hardware.gpus_per_node;
    SetOrigin(reading, "gpus_per_node", job.gpus_per_node, "hardware.gpus_per_node");
  }
  DeriveReplicas(job, reading);
  DeriveBatch(job, reading);
  if (const auto launch = std::exchange(job.simulate.launch_overhead, std::nullopt)) {
    job.host.launch = launch;
    for (const ValueOrigin& entry : reading.origins) {
      if (entry.field != "simulate.launch_overhead") continue;
      SetOrigin(reading, "host.launch", entry.value, entry.field);
      break;
    }
  }
}

void CheckJob(const JobSpec& job, FieldReading& reading) {
  EffectChecker effect(job, reading);
  for (const auto rules : AllRules()) effect.Check(rules);
  CheckNetworkSettings(job, reading);
  JobChecker(job, reading).Check();
  if (job.plan.communicates()) CheckCollectives(job, reading);
}

void CheckCluster(const JobSpec& job, FieldReading& reading) {
  EffectChecker(job, reading).Check(IneffectiveCollectiveKeys());
  JobChecker(job, reading).CheckCluster();
  CheckCollectives(job, reading);
  if (job.nodes != 1 || !reading.IsGiven("network")) return;
  reading.diagnostics.Add(reading.PlaceOf("network"), "network: has no effect with nodes: 1");
}

std::vector<std::string_view> KeysWithoutEffect(const JobSpec& job) {
  std::vector<std::string_view> paths;
  for (const auto rules : AllRules()) {
    for (const IneffectiveKey& rule : rules) {
      if (rule.holds(job)) paths.push_back(rule.path);
    }
  }
  return paths;
}

bool IsPossible(const JobSpec& job) {
  FieldReading reading;  // nothing is given but what must be: contradictions alone
  if (TransformerOf(job) != nullptr) reading.given.try_emplace("batch.sequence_length");
  CheckJob(job, reading);
  return reading.diagnostics.empty();
}

std::vector<std::string> KeysToTakeOut(const JobSpec& job) {
  std::vector<std::string> paths;
  for (const std::string_view path : KeysWithoutEffect(job)) {
    const auto holds = [&](const std::string& above) { return IsAtOrBelow(path, above); };
    if (!job.is_given(path)) continue;
    if (std::none_of(paths.begin(), paths.end(), holds)) paths.emplace_back(path);
  }
  return paths;
}

}  // namespace stepsim
