#include "models/parallel/step_memory.h"

namespace stepsim {
namespace {

constexpr const char* kActivations = "activations";
constexpr const char* kActivationGradients = "activation_gradients";
constexpr const char* kGradients = "gradients";
constexpr const char* kWorkspace = "workspace";

}  // namespace

StepMemory::StepMemory(const JobSpec& job, const Workload& workload, RankProgram& rank)
    : job_(job),
      workload_(workload),
      rank_(rank),
      shardings_(ShardingsOf(job)),
      life_(GradientLifeOf(job)),
      optimizer_workspace_(OptimizerWorkspace(job, workload)),
      is_kept_(workload.parameters.size()),
      is_passing_(workload.parameters.size()) {
  for (const auto& [category, bytes] : StaticMemory(job, workload)) {
    rank_.graph().AddResidentMemory(rank_.rank(), category, bytes);
  }
}

// With the first of the kernels; where there are none, when what came before has ended.
void StepMemory::TakeAtStart(TaskSpan kernels, const char* category, Bytes bytes) {
  if (bytes.value == 0) return;
  const bool has_kernels = kernels.first != kNoId<TaskId>;
  const TaskId task = has_kernels ? kernels.first : rank_.Record(rank_.compute()).last;
  rank_.graph().AddMemoryEvent(task, /*at_end=*/!has_kernels, category, bytes);
}

// When everything that compute has been given so far has ended.
void StepMemory::GiveBackNow(const char* category, Bytes bytes) {
  if (bytes.value == 0) return;
  rank_.graph().AddMemoryEvent(rank_.Record(rank_.compute()).last, /*at_end=*/true, category,
                               Bytes{} - bytes);
}

void StepMemory::Forward(TaskId task, const Operator& op) {
  TakeAtStart({task, task}, kActivations, op.kept());
  TakeAtStart({task, task}, kWorkspace, op.forward_workspace);
  GiveBackNow(kWorkspace, op.forward_workspace);
}

void StepMemory::Rerun(TaskId task, const Rerun::Step& step) {
  TakeAtStart({task, task}, kActivations, step.remade);
}

void StepMemory::BeginBackward(TaskSpan kernels, const Operator& op) {
  TakeAtStart(kernels, kActivationGradients, op.gradients_made);
  TakeAtStart(kernels, kWorkspace, op.backward_workspace);
  TakeAtStart(kernels, kGradients, op.weight_gradients_made);
}

// The second half's own gradients begin with it.
void StepMemory::EndInputGradient(const Operator& op) {
  GiveBackNow(kWorkspace, op.backward_workspace);
  GiveBackNow(kGradients, op.weight_gradients_made);
}

void StepMemory::BeginWeightGradient(TaskSpan kernels, const Operator& op) {
  TakeAtStart(kernels, kWorkspace, op.backward_workspace);
  TakeAtStart(kernels, kGradients, op.weight_gradients_made);
}

void StepMemory::EndBackward(const Operator& op) {
  GiveBackNow(kActivations, op.saved + op.held);
  GiveBackNow(kActivationGradients, op.gradients_taken);
  GiveBackNow(kWorkspace, op.backward_workspace);
  GiveBackNow(kGradients, op.weight_gradients_taken);
}

void StepMemory::GradientBegins(TaskSpan kernels, std::int32_t parameter, std::int64_t microstep,
                                bool accumulates) {
  const auto p = static_cast<std::size_t>(parameter);
  const ParameterTensor& tensor = workload_.parameters[p];
  const bool is_new = !life_.is_static && microstep >= life_.first_microstep && is_kept_[p] == 0;
  if (is_new) {
    is_kept_[p] = 1;
    const Sharding& sharding = shardings_.Of(tensor.is_expert);
    const std::int64_t shards = sharding.gradient_shards;
    const bool is_whole = shards == 1 && !life_.is_left_to_strategy;
    const Bytes kept = is_whole
                           ? tensor.bytes()
                           : SizeOf(sharding.gradient, (tensor.elements + shards - 1) / shards);
    TakeAtStart(kernels, kGradients, kept);
    gradients_ += kept;
  }
  // A second tensor beside the one that is kept.
  const bool passes = life_.is_copied || (accumulates && !is_new);
  if (!passes || life_.is_left_to_strategy) return;
  is_passing_[p] = 1;
  TakeAtStart(kernels, kGradients, tensor.bytes());
}

void StepMemory::GradientIsUsed(std::int32_t parameter) {
  const auto p = static_cast<std::size_t>(parameter);
  if (is_passing_[p] == 0) return;
  is_passing_[p] = 0;
  GiveBackNow(kGradients, workload_.parameters[p].bytes());
}

void StepMemory::Optimizer(TaskSpan kernels) {
  TakeAtStart(kernels, kWorkspace, optimizer_workspace_);
  GiveBackNow(kWorkspace, optimizer_workspace_);
  GiveBackNow(kGradients, gradients_);
  gradients_ = {};
  is_kept_.assign(is_kept_.size(), 0);
}

void StepMemory::AddContext() {
  const auto communicators = static_cast<std::int64_t>(rank_.communicator_count());
  rank_.graph().AddResidentMemory(rank_.rank(), "context",
                                  job_.memory.context + job_.memory.communicator * communicators);
  rank_.graph().AddResidentMemory(rank_.rank(), kWorkspace, ProductWorkspace(job_));
}

}  // namespace stepsim
