// What does a rank do with one model chunk? Walks its units forward and backward and calls the
// strategy at the moments at which the frameworks act. Without a pipeline the chunk is the network.
//
//   ChunkRunner chunk(job, workload, rank, run, strategy);
//   chunk.Forward(moment);
//   chunk.Backward(moment);   // or, split: InputGradient(moment); ... WeightGradient(moment);
#pragma once

#include <cstdint>
#include <string>

#include "models/parallel/operator_runner.h"
#include "models/parallel/step_memory.h"
#include "models/parallel/strategy.h"

namespace stepsim {

class ChunkRunner {
 public:
  ChunkRunner(const JobSpec& job, const Workload& workload, RankProgram& rank, OperatorRunner& run,
              Strategy& strategy)
      : job_(job),
        workload_(workload),
        rank_(rank),
        run_(run),
        strategy_(strategy),
        memory_(job, workload, rank) {}

  // Returns its first kernel.
  TaskId Forward(const Moment& moment);
  void Backward(const Moment& moment);
  // A split backward: gradients of activations first, those of parameters later.
  void InputGradient(const Moment& moment);
  void WeightGradient(const Moment& moment);

  // The same for some operators of one unit. Each goes through all of them; EndBackward follows
  // the last weight gradient.
  struct Part {
    std::int32_t unit = 0;
    std::int32_t begin = 0, end = 0;  // operators in forward order
  };
  Part WholeUnit(std::size_t unit) const;
  TaskId Forward(const Moment& moment, const Part& part);
  void Backward(const Moment& moment, const Part& part);
  void InputGradient(const Moment& moment, const Part& part);
  void WeightGradient(const Moment& moment, const Part& part);
  void EndBackward(const Moment& moment);

  // The optimizer's kernels over the chunk's parameters.
  void Optimize();

  StepMemory& memory() { return memory_; }
  Strategy& strategy() { return strategy_; }
  const Workload& workload() const { return workload_; }

 private:
  bool IsEnd(const Part& part) const {
    return part.end == WholeUnit(static_cast<std::size_t>(part.unit)).end;
  }
  void RunAgainBefore(const Moment& moment, OperatorPlace place);
  void BackwardOf(const Moment& moment, std::int32_t unit, const Operator& op);
  void GradientsReady(const Moment& moment, TaskSpan kernels, const Operator& op);
  std::string NameOf(std::int32_t unit, const Operator& op) const {
    return workload_.units[static_cast<std::size_t>(unit)].name + "." + op.name;
  }

  const JobSpec& job_;
  const Workload& workload_;
  RankProgram& rank_;
  OperatorRunner& run_;
  Strategy& strategy_;
  StepMemory memory_;
};

}  // namespace stepsim
