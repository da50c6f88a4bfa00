// Which tensors come and go with the kernels of a step? Activations, their gradients, gradients of
// parameters and temporaries, as events on the tasks of one rank. What a strategy allocates besides
// (gathered parameters, buckets in flight) it tells itself.
//
//   memory.Forward(task, op);                 // op's saved tensors
//   memory.BeginBackward(kernels, op);        // + the gradient of its input, its temporaries
//   memory.EndBackward(op);                   // - its saved tensors, the gradient of its result
#pragma once

#include <cstdint>
#include <vector>

#include "models/memory/memory.h"
#include "models/parallel/rank_program.h"
#include "models/spec/job.h"
#include "models/spec/sharding.h"
#include "models/workload/workload.h"

namespace stepsim {

class StepMemory {
 public:
  StepMemory(const JobSpec& job, const Workload& workload, RankProgram& rank);

  void Forward(TaskId task, const Operator& op);
  void Rerun(TaskId task, const Rerun::Step& step);
  // Before and after everything that the backward of an operator launches.
  void BeginBackward(TaskSpan kernels, const Operator& op);
  // Between the halves of a split backward: temporaries go, and come again with the second.
  void EndInputGradient(const Operator& op);
  void BeginWeightGradient(TaskSpan kernels, const Operator& op);
  void EndBackward(const Operator& op);

  // Around the kernels that make a parameter's gradient and those of the strategy's hook that use
  // it up. `accumulates`: it is added to one that is there already.
  void GradientBegins(TaskSpan kernels, std::int32_t parameter, std::int64_t microstep,
                      bool accumulates);
  void GradientIsUsed(std::int32_t parameter);

  void Optimizer(TaskSpan kernels);

  // What the process itself takes; when all is built.
  void AddContext();

 private:
  void TakeAtStart(TaskSpan kernels, const char* category, Bytes bytes);
  void GiveBackNow(const char* category, Bytes bytes);

  const JobSpec& job_;
  const Workload& workload_;
  RankProgram& rank_;
  const Shardings shardings_;
  const GradientLife life_;
  const Bytes optimizer_workspace_;
  Bytes gradients_;               // from backward to the end of the optimizer, so far
  std::vector<char> is_kept_;     // by parameter: it is among them
  std::vector<char> is_passing_;  // by parameter: its tensor lives until the hook has used it
};

}  // namespace stepsim
