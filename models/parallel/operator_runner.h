// How does a rank run one operator? Its kernels, and the exchanges that belong to them: those of
// tensor, context and expert parallelism, each axis on a process group and a stream of its own.
//
//   OperatorRunner run(job, groups, rank, global_rank);
//   run.Forward(op, "layers.3.fc1");            // all_gather, product
//   run.InputGradient(op, "layers.3.fc1");      // all_gather beside the product
//   run.WeightGradient(op, "layers.3.fc1");     // reduce_scatter beside the product
//
// Exchanges are issued as asynchronous collectives: their stream waits for compute, and compute
// waits for them where their ExchangePlace says.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/parallel/process_groups.h"
#include "models/parallel/rank_program.h"
#include "models/parallel/ring_attention.h"
#include "models/spec/job.h"
#include "models/workload/workload.h"

namespace stepsim {

class OperatorRunner {
 public:
  OperatorRunner(const JobSpec& job, ProcessGroups& groups, RankProgram& rank,
                 std::int64_t global_rank);

  // `suffix` tells a first run (".forward") from a repeated one (".recompute").
  TaskSpan Forward(const Operator& op, const std::string& name, std::string_view suffix);
  TaskSpan InputGradient(const Operator& op, const std::string& name);
  TaskSpan WeightGradient(const Operator& op, const std::string& name);
  // After an operator's backward, split or not: compute waits for what is still under way.
  void EndBackward();

 private:
  struct Axis {
    GroupId group{};
    StreamId stream = kNoId<StreamId>;
    Site site{};
    std::string name;  // "tp"
  };

  Axis& AxisOf(ExchangeAxis axis);
  // Issues those of one place; compute waits for them when `waits`, else EndBackward does.
  void Issue(const Operator& op, const std::string& name, ExchangePlace place, bool waits);
  using Works = std::vector<ComputeWork>;
  TaskSpan LaunchAll(const Works& works, const std::string& name);

  // plan.tensor.overlap: collectives inside the products that read or write their tensors.
  const Exchange* Hidden(const Operator& op, ExchangePlace place) const;
  TaskSpan Hide(const Exchange& exchange, const ComputeWork& product, const std::string& name);
  std::int32_t SmsOf(const Exchange& exchange, ExchangePlace place) const;

  // Of the ranks that swap heads, or of the ring between them.
  Axis ContextAxis(bool of_ring) const;
  RingAttention Ring();

  // Where the kernels of the operator go, and how the two streams wait for each other.
  void BeginForward(const Operator& op);
  void BeginBackward(const Operator& op);
  StreamId side();

  const JobSpec& job_;
  ProcessGroups& groups_;
  RankProgram& rank_;
  std::int64_t global_rank_;
  StreamId lane_;  // of the operator that is being launched
  std::array<Axis, 6> axes_;
  std::vector<StreamEvent> pending_;  // that compute has still to wait for
};

}  // namespace stepsim
