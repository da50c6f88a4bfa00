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

TaskId ChunkRunner::Forward(const Moment& moment) {
  TaskId first = kNoId<TaskId>;
  for (std::size_t u = 0; u < workload_.units.size(); ++u) {
    const auto unit = static_cast<std::int32_t>(u);
    strategy_.BeforeForward(moment, unit);
    for (const Operator& op : workload_.units[u].operators) {
      strategy_.BeforeForwardOf(moment, unit, op);
      const TaskSpan kernels = run_.Forward(op, NameOf(unit, op), ".forward");
      if (first == kNoId<TaskId>) first = kernels.first;
      memory_.Forward(kernels.first, op);
      strategy_.AfterForwardOf(moment, unit, op);
    }
    strategy_.AfterForward(moment, unit);
  }
  return first;
}

void ChunkRunner::Backward(const Moment& moment) {
  for (std::size_t u = workload_.units.size(); u-- > 0;) {
    const auto unit = static_cast<std::int32_t>(u);
    strategy_.BeforeBackward(moment, unit);
    const auto& operators = workload_.units[u].operators;
    for (std::size_t i = operators.size(); i-- > 0;) {
      RunAgainBefore(moment, {unit, static_cast<std::int32_t>(i)});
      BackwardOf(moment, unit, operators[i]);
    }
    strategy_.AfterBackward(moment, unit);
  }
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

// What the weight gradients read stays: inputs of linears and gradients of their results.
void ChunkRunner::InputGradient(const Moment& moment) {
  for (std::size_t u = workload_.units.size(); u-- > 0;) {
    const auto unit = static_cast<std::int32_t>(u);
    strategy_.BeforeBackward(moment, unit);
    const auto& operators = workload_.units[u].operators;
    for (std::size_t i = operators.size(); i-- > 0;) {
      const Operator& op = operators[i];
      RunAgainBefore(moment, {unit, static_cast<std::int32_t>(i)});
      strategy_.BeforeBackwardOf(moment, unit, op);
      const TaskSpan input = run_.InputGradient(op, NameOf(unit, op));
      run_.EndBackward();
      memory_.BeginBackward(input, op);
      if (HasWeightGradient(op)) {
        memory_.EndInputGradient(op);
      } else {
        memory_.EndBackward(op);
      }
    }
  }
}

void ChunkRunner::WeightGradient(const Moment& moment) {
  for (std::size_t u = workload_.units.size(); u-- > 0;) {
    const auto unit = static_cast<std::int32_t>(u);
    const auto& operators = workload_.units[u].operators;
    for (std::size_t i = operators.size(); i-- > 0;) {
      const Operator& op = operators[i];
      if (HasWeightGradient(op)) {
        const TaskSpan weight = run_.WeightGradient(op, NameOf(unit, op));
        run_.EndBackward();
        memory_.BeginWeightGradient(weight, op);
        GradientsReady(moment, weight, op);
      }
      strategy_.AfterBackwardOf(moment, unit, op);
    }
    strategy_.AfterBackward(moment, unit);
  }
  rank_.SetPhase(Phase::kOther);
  strategy_.AfterLastBackward(moment);
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
