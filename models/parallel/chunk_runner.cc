#include "models/parallel/chunk_runner.h"

#include <utility>
#include <vector>

#include "models/workload/kernel_work.h"
#include "models/workload/optimizer_work.h"

namespace stepsim {
namespace {

// Does anything of an operator's backward belong to the second half of a split one?
bool HasWeightGradient(const Operator& op) {
  return !op.backward_weight.empty() || !op.parameters_ready.empty();
}

}  // namespace

ChunkRunner::Part ChunkRunner::WholeUnit(std::size_t unit) const {
  return {static_cast<std::int32_t>(unit), 0,
          static_cast<std::int32_t>(workload_.units[unit].operators.size())};
}

TaskId ChunkRunner::Forward(const Moment& moment) {
  TaskId first = kNoId<TaskId>;
  for (std::size_t u = 0; u < workload_.units.size(); ++u) {
    const TaskId kernel = Forward(moment, WholeUnit(u));
    if (first == kNoId<TaskId>) first = kernel;
  }
  return first;
}

TaskId ChunkRunner::Forward(const Moment& moment, const Part& part) {
  TaskId first = kNoId<TaskId>;
  if (part.begin == 0) strategy_.BeforeForward(moment, part.unit);
  for (std::int32_t i = part.begin; i < part.end; ++i) {
    const Operator& op = workload_.OperatorAt({part.unit, i});
    strategy_.BeforeForwardOf(moment, part.unit, op);
    const TaskSpan kernels = run_.Forward(op, NameOf(part.unit, op), ".forward");
    if (first == kNoId<TaskId>) first = kernels.first;
    memory_.Forward(kernels.first, op);
    strategy_.AfterForwardOf(moment, part.unit, op);
  }
  if (IsEnd(part)) strategy_.AfterForward(moment, part.unit);
  return first;
}

void ChunkRunner::Backward(const Moment& moment) {
  for (std::size_t u = workload_.units.size(); u-- > 0;) Backward(moment, WholeUnit(u));
  EndBackward(moment);
}

void ChunkRunner::Backward(const Moment& moment, const Part& part) {
  if (IsEnd(part)) strategy_.BeforeBackward(moment, part.unit);
  for (std::int32_t i = part.end; i-- > part.begin;) {
    RunAgainBefore(moment, {part.unit, i});
    BackwardOf(moment, part.unit, workload_.OperatorAt({part.unit, i}));
  }
  if (part.begin == 0) strategy_.AfterBackward(moment, part.unit);
}

void ChunkRunner::EndBackward(const Moment& moment) {
  rank_.SetPhase(Phase::kOther);
  strategy_.AfterLastBackward(moment);
}

// What a checkpoint has thrown away is made anew.
void ChunkRunner::RunAgainBefore(const Moment& moment, OperatorPlace place) {
  for (const Rerun& rerun : workload_.RerunsBefore(place)) {
    for (const Rerun::Step& step : rerun.steps) {
      const Operator& op = workload_.OperatorAt(step.place);
      strategy_.BeforeRerunOf(moment, step.place.unit, op);
      const TaskSpan kernels = run_.Forward(op, NameOf(step.place.unit, op), ".recompute");
      memory_.Rerun(kernels.first, step);
      strategy_.AfterRerunOf(moment, step.place.unit, op);
    }
  }
}

// The input gradient first, then the weight gradient; then autograd's hooks fire.
void ChunkRunner::BackwardOf(const Moment& moment, std::int32_t unit, const Operator& op) {
  const std::string name = NameOf(unit, op);
  strategy_.BeforeBackwardOf(moment, unit, op);
  const TaskSpan input = run_.InputGradient(op, name);
  const TaskSpan weight = run_.WeightGradient(op, name);
  run_.EndBackward();
  memory_.BeginBackward(input.first != kNoId<TaskId> ? input : weight, op);
  GradientsReady(moment, weight, op);
  strategy_.AfterBackwardOf(moment, unit, op);
}

void ChunkRunner::GradientsReady(const Moment& moment, TaskSpan kernels, const Operator& op) {
  const bool accumulates = strategy_.AccumulatesGradients(moment);
  for (const std::int32_t p : op.parameters_ready) {
    memory_.GradientBegins(kernels, p, moment.microstep, accumulates);
  }
  memory_.EndBackward(op);
  for (const std::int32_t p : op.parameters_ready) {
    const ParameterTensor& parameter = workload_.parameters[static_cast<std::size_t>(p)];
    if (accumulates) {
      rank_.Launch(rank_.compute(), AccumulateWork(parameter.dtype, parameter.elements),
                   "accumulate " + parameter.name);
    }
    strategy_.GradientReady(moment, p);
    memory_.GradientIsUsed(p);
  }
}

void ChunkRunner::InputGradient(const Moment& moment) {
  for (std::size_t u = workload_.units.size(); u-- > 0;) InputGradient(moment, WholeUnit(u));
}

// What the weight gradients read stays: inputs of linears and gradients of their results.
void ChunkRunner::InputGradient(const Moment& moment, const Part& part) {
  if (IsEnd(part)) strategy_.BeforeBackward(moment, part.unit);
  for (std::int32_t i = part.end; i-- > part.begin;) {
    const Operator& op = workload_.OperatorAt({part.unit, i});
    RunAgainBefore(moment, {part.unit, i});
    strategy_.BeforeBackwardOf(moment, part.unit, op);
    const TaskSpan input = run_.InputGradient(op, NameOf(part.unit, op));
    run_.EndBackward();
    memory_.BeginBackward(input, op);
    if (HasWeightGradient(op)) {
      memory_.EndInputGradient(op);
    } else {
      memory_.EndBackward(op);
    }
  }
}

void ChunkRunner::WeightGradient(const Moment& moment) {
  for (std::size_t u = workload_.units.size(); u-- > 0;) WeightGradient(moment, WholeUnit(u));
  EndBackward(moment);
}

void ChunkRunner::WeightGradient(const Moment& moment, const Part& part) {
  for (std::int32_t i = part.end; i-- > part.begin;) {
    const Operator& op = workload_.OperatorAt({part.unit, i});
    if (HasWeightGradient(op)) {
      const TaskSpan weight = run_.WeightGradient(op, NameOf(part.unit, op));
      run_.EndBackward();
      memory_.BeginWeightGradient(weight, op);
      GradientsReady(moment, weight, op);
    }
    strategy_.AfterBackwardOf(moment, part.unit, op);
  }
  if (part.begin == 0) strategy_.AfterBackward(moment, part.unit);
}

void ChunkRunner::Optimize() {
  TaskSpan span;
  for (const ComputeWork& work : OptimizerWorkOf(job_, workload_)) {
    span.last = rank_.Launch(rank_.compute(), work, "optimizer");
    if (span.first == kNoId<TaskId>) span.first = span.last;
  }
  memory_.Optimizer(span);
}

}  // namespace stepsim
