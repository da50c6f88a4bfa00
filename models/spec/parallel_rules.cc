#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "models/spec/expert_tokens.h"
#include "models/spec/job_rules.h"
#include "models/spec/mesh_order.h"

namespace stepsim {
namespace {

constexpr std::string_view kDegrees = "tensor_parallel x context_parallel x pipeline_parallel";

bool HasNoTensor(const JobSpec& job) { return job.plan.tensor_parallel == 1; }
// PyTorch's tensor parallelism comes with its FSDP; the other strategies are Megatron-LM's and
// DeepSpeed's, which share their layers.
bool UsesDTensor(const JobSpec& job) { return Uses(job, "fsdp1") || Uses(job, "fsdp2"); }
bool HasNoContext(const JobSpec& job) { return job.plan.context_parallel == 1; }
bool HasNoPipeline(const JobSpec& job) { return job.plan.pipeline_parallel == 1; }
bool HasNoUserBuffers(const JobSpec& job) {
  return job.plan.tensor.overlap != TensorOverlap::kUserBuffers;
}

constexpr std::string_view kUserBuffers = "plan.tensor.overlap other than user_buffers";

constexpr std::array kRows = {
    IneffectiveKey{"plan.tensor", "plan.tensor_parallel: 1", HasNoTensor},
    IneffectiveKey{"plan.context", "plan.context_parallel: 1", HasNoContext},
    IneffectiveKey{"plan.pipeline", "plan.pipeline_parallel: 1", HasNoPipeline},
    IneffectiveKey{"plan.tensor.bulk_wgrad", kUserBuffers, HasNoUserBuffers},
    IneffectiveKey{"plan.tensor.bulk_dgrad", kUserBuffers, HasNoUserBuffers},
    IneffectiveKey{"plan.tensor.overlap_ag", kUserBuffers, HasNoUserBuffers},
    IneffectiveKey{"plan.tensor.overlap_rs", kUserBuffers, HasNoUserBuffers},
    IneffectiveKey{"plan.tensor.overlap_rs_dgrad", kUserBuffers, HasNoUserBuffers},
    IneffectiveKey{"plan.tensor.num_splits", kUserBuffers, HasNoUserBuffers},
    IneffectiveKey{"plan.tensor.use_copy_engine", kUserBuffers, HasNoUserBuffers},
};

// The largest number of copies of the network, and the GPUs that they take.
std::string NearestWorlds(std::int64_t gpus, std::int64_t ranks) {
  const std::int64_t below = gpus / ranks * ranks;
  return below == 0 ? fmt::format("{} GPUs", ranks)
                    : fmt::format("{} or {} GPUs", below, below + ranks);
}

// Can every tensor-parallel rank have the same part of the network?
class TensorChecker {
 public:
  explicit TensorChecker(const JobProblems& problems)
      : problems_(problems), job_(problems.job), ranks_(problems.job.plan.tensor_parallel) {}

  void Check() {
    const TransformerSpec* spec = TransformerOf(job_);
    if (spec == nullptr) {
      Report(kDegree,
             "found {} with a model that is a list of layers, allowed: 1; a transformer "
             "can be cut",
             ranks_);
      return;
    }
    CheckDivides("heads", "model.transformer.heads", spec->heads);
    CheckKeyHeads(spec->heads, spec->kv_heads);
    CheckDivides("ffn_size", "model.transformer.ffn_size", spec->ffn_size);
    CheckSequence();
    CheckOverlapStaysOnANode();
    const bool needs_cut_sequence = job_.plan.tensor.overlap != TensorOverlap::kNone;
    if (needs_cut_sequence && !job_.plan.sequence_parallel()) {
      Report("plan.tensor.overlap",
             "found '{}' with sequence_parallel: false, allowed: none, or sequence_parallel: true",
             job_.plan.tensor.overlap == TensorOverlap::kAsync ? "async_tp" : "user_buffers");
    }
  }

 private:
  template <typename... Args>
  void Report(std::string_view path, fmt::format_string<Args...> text, Args&&... args) const {
    problems_.Report(path, fmt::format(text, std::forward<Args>(args)...));
  }

  void CheckDivides(std::string_view name, std::string_view path, std::int64_t size) const {
    if (problems_.AnyInvalid({path}) || size % ranks_ == 0) return;
    Report(kDegree, "tensor_parallel ({}) must divide {} ({}) of model {}; nearest valid: {}",
           ranks_, name, size, job_.model.name, fmt::join(NearestDivisors(size, ranks_), " or "));
  }

  // Fewer heads of keys than ranks: equally many ranks have each. Meaningless where the heads of
  // queries are wrong already.
  void CheckKeyHeads(std::int64_t heads, std::int64_t key_heads) const {
    if (problems_.AnyInvalid({"model.transformer.kv_heads"}) || heads % ranks_ != 0) return;
    if (key_heads % ranks_ == 0 || ranks_ % key_heads == 0) return;
    Report(kDegree,
           "tensor_parallel ({}) must divide kv_heads ({}) of model {} or be a multiple "
           "of it; nearest valid: {}",
           ranks_, key_heads, job_.model.name,
           ranks_ < key_heads
               ? fmt::format("{}", fmt::join(NearestDivisors(key_heads, ranks_), " or "))
               : fmt::format("{} or {}", ranks_ / key_heads * key_heads,
                             (ranks_ / key_heads + 1) * key_heads));
  }

  void CheckSequence() const {
    if (!job_.plan.sequence_parallel() ||
        problems_.AnyInvalid({"batch.sequence_length", "plan.context_parallel"})) {
      return;
    }
    const std::int64_t parts = ranks_ * job_.plan.context_parallel;
    const std::int64_t tokens = job_.batch.sequence_length;
    if (tokens % parts == 0) return;
    const std::int64_t below = tokens / parts * parts;
    const std::string nearest =
        below == 0 ? fmt::format("{}", parts) : fmt::format("{} or {}", below, below + parts);
    Report("batch.sequence_length",
           "sequence parallelism cuts sequence_length ({}) into {} equal parts; nearest valid: {}, "
           "or plan.tensor.sequence_parallel: false",
           tokens, parts, nearest);
  }

  // Peers' memory is read over NVLink or PCIe, not over the network.
  void CheckOverlapStaysOnANode() const {
    if (job_.plan.tensor.overlap == TensorOverlap::kNone ||
        problems_.AnyInvalid({"gpus_per_node", "plan.mesh_order"})) {
      return;
    }
    const bool is_inner = job_.plan.mesh_order.rfind("tp", 0) == 0;
    if (is_inner && job_.gpus_per_node % ranks_ == 0) return;
    Report("plan.tensor.overlap",
           "tensor_parallel ({}) ranks must share a node of {} GPUs, innermost in mesh_order '{}', "
           "to read each other's memory; nearest valid: none, or tensor_parallel {}",
           ranks_, job_.gpus_per_node, job_.plan.mesh_order,
           fmt::join(NearestDivisors(job_.gpus_per_node, std::min(ranks_, job_.gpus_per_node)),
                     " or "));
  }

  static constexpr std::string_view kDegree = "plan.tensor_parallel";

  const JobProblems& problems_;
  const JobSpec& job_;
  const std::int64_t ranks_;
};

}  // namespace

bool HidesInputGradients(const JobSpec& job) {
  return job.plan.tensor.async_input_gradient.value_or(!UsesDTensor(job));
}

bool RegathersInput(const JobSpec& job) {
  return job.plan.tensor.regather_input.value_or(!UsesDTensor(job));
}

bool GathersTokens(const JobSpec& job) { return UsesDTensor(job) && job.plan.tensor_parallel > 1; }

std::span<const IneffectiveKey> IneffectiveParallelKeys() { return kRows; }

void DeriveReplicas(JobSpec& job, FieldReading& reading) {
  ParallelPlan& plan = job.plan;
  if (plan.data_parallel != 0) return;
  plan.data_parallel = job.replicas();
  SetOrigin(reading, "plan.data_parallel", plan.data_parallel,
            plan.model_ranks() == 1 ? "all GPUs" : "GPUs that the other degrees leave");
}

void CheckDegrees(const JobProblems& problems) {
  const JobSpec& job = problems.job;
  const ParallelPlan& plan = job.plan;
  if (problems.AnyInvalid({"plan.data_parallel", "plan.tensor_parallel", "plan.context_parallel",
                           "plan.pipeline_parallel"})) {
    return;
  }
  if (!IsMeshOrder(plan.mesh_order)) {
    problems.Report("plan.mesh_order",
                    fmt::format("found '{}', allowed: tp, cp, dp and pp, each once, innermost "
                                "first; nearest valid: tp-cp-dp-pp",
                                plan.mesh_order));
  }
  const std::int64_t ranks = plan.model_ranks();
  if (job.gpus() % ranks != 0) {
    problems.Report("plan", fmt::format("{} = {} x {} x {} = {} must divide nodes x gpus_per_node "
                                        "({} x {} = {}); nearest valid: {}",
                                        kDegrees, plan.tensor_parallel, plan.context_parallel,
                                        plan.pipeline_parallel, ranks, job.nodes, job.gpus_per_node,
                                        job.gpus(), NearestWorlds(job.gpus(), ranks)));
    return;
  }
  if (plan.data_parallel == job.replicas()) return;
  if (ranks == 1) {
    problems.Report("plan.data_parallel",
                    fmt::format("data_parallel ({}) must equal nodes x gpus_per_node ({} x {}); "
                                "nearest valid: {}, or 0 for all GPUs",
                                plan.data_parallel, job.nodes, job.gpus_per_node, job.gpus()));
    return;
  }
  problems.Report("plan.data_parallel",
                  fmt::format("data_parallel ({}) x {} ({}) must equal nodes x gpus_per_node ({} x "
                              "{}); nearest valid: {}, or 0 for all that are left",
                              plan.data_parallel, kDegrees, ranks, job.nodes, job.gpus_per_node,
                              job.replicas()));
}

void CheckTensor(const JobProblems& problems) {
  const bool is_on = problems.job.plan.tensor_parallel > 1;
  if (is_on && !problems.AnyInvalid({"plan.tensor_parallel"})) TensorChecker(problems).Check();
}

}  // namespace stepsim
