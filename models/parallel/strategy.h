// Who does the work and who talks to whom? A strategy is called at the moments at which the real
// framework acts, and appends tasks. It never edits another's, so strategies compose.
//
// To add a strategy: one file with one class, one row in strategy.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "models/parallel/process_groups.h"
#include "models/parallel/rank_program.h"
#include "models/spec/job.h"
#include "models/workload/workload.h"

namespace stepsim {

// Where the step builder is on one rank.
struct Moment {
  RankProgram& rank;
  std::int32_t microstep = 0;
  std::int32_t step = 0;
  bool is_first_microstep = true;
  bool is_last_microstep = true;
};

// One object per simulated rank; hooks come in host order.
class Strategy {
 public:
  virtual ~Strategy() = default;
  virtual void BeforeForward(const Moment&, std::int32_t /*unit*/) {}
  virtual void AfterForward(const Moment&, std::int32_t /*unit*/) {}
  virtual void BeforeBackward(const Moment&, std::int32_t /*unit*/) {}
  // Around one operator of a unit, for frameworks whose unit is the module that owns parameters.
  virtual void BeforeForwardOf(const Moment&, std::int32_t /*unit*/, const Operator&) {}
  virtual void AfterForwardOf(const Moment&, std::int32_t /*unit*/, const Operator&) {}
  virtual void BeforeBackwardOf(const Moment&, std::int32_t /*unit*/, const Operator&) {}
  virtual void AfterBackwardOf(const Moment&, std::int32_t /*unit*/, const Operator&) {}
  // Around an operator whose forward runs again in backward.
  virtual void BeforeRerunOf(const Moment&, std::int32_t /*unit*/, const Operator&) {}
  virtual void AfterRerunOf(const Moment&, std::int32_t /*unit*/, const Operator&) {}
  virtual void GradientReady(const Moment&, std::int32_t /*parameter*/) {}
  virtual void AfterBackward(const Moment&, std::int32_t /*unit*/) {}
  virtual void AfterLastBackward(const Moment&) {}  // of this micro-step
  // Pipelines: gather and free all parameters of the chunk; start to reduce its gradients, which
  // its last backward then does not (its moment is no last micro-step's).
  virtual void UnshardChunk(const Moment&) {}
  virtual void ReshardChunk(const Moment&) {}
  virtual void StartReduction(const Moment&) {}
  virtual void BeforeOptimizer(const Moment&) {}
  virtual void AfterOptimizer(const Moment&) {}

  // Whether the step builder adds this micro-step's gradients to those that are kept from the
  // micro-steps before, tensor by tensor.
  virtual bool AccumulatesGradients(const Moment& moment) const {
    return !moment.is_first_microstep;
  }
};

// The process groups of one kind of parameters.
struct ReplicaGroups {
  GroupId all{};        // ranks that hold the same parameters
  GroupId shard{};      // ... one copy of them together; all without HSDP
  GroupId replicate{};  // HSDP: ... the same shard
};

// What a strategy may know when it is made.
struct StrategyContext {
  const JobSpec& job;
  const Workload& workload;
  RankProgram& rank;
  ProcessGroups& groups;  // to make others
  ReplicaGroups dense;
  ReplicaGroups experts;  // of those that are dealt out over ranks of their own, where any are
  std::int64_t global_rank = 0;
  std::int32_t stage = 0;  // of the pipeline, that this chunk is
};

struct StrategyRow {
  std::string_view name;  // "ddp"
  std::string_view doc;
  std::unique_ptr<Strategy> (*make)(const StrategyContext&);
};

std::span<const StrategyRow> Strategies();
const StrategyRow* FindStrategy(std::string_view name);  // nullptr: no such name

// The strategies, one file each.
std::unique_ptr<Strategy> MakeDdp(const StrategyContext& context);
std::unique_ptr<Strategy> MakeFsdp1(const StrategyContext& context);
std::unique_ptr<Strategy> MakeFsdp2(const StrategyContext& context);
std::unique_ptr<Strategy> MakeMegatron(const StrategyContext& context);
std::unique_ptr<Strategy> MakeZero(const StrategyContext& context);  // by its stage
std::unique_ptr<Strategy> MakeZero3(const StrategyContext& context);

}  // namespace stepsim
