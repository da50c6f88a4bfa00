// What does one rank do in a step? Its model chunks in the order of the pipeline's program, the
// transfers between stages, what all chunks wait for at the end, the optimizer. Without a pipeline:
// micro-steps one after another.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "models/parallel/chunk_runner.h"
#include "models/parallel/finish_gradients.h"
#include "models/parallel/paired_runner.h"
#include "models/parallel/pipeline_program.h"
#include "models/parallel/process_groups.h"

namespace stepsim {

// One stage's share of the network on this rank.
struct ModelChunk {
  std::int32_t stage = 0;
  std::unique_ptr<Strategy> strategy;
  std::unique_ptr<ChunkRunner> runner;
};

// Who is at the other ends.
struct PipelinePlace {
  const PipelineProgram* program = nullptr;  // null: no pipeline
  std::int32_t rank = 0;                     // along the pipeline
  std::int32_t stages = 1;
  std::vector<std::int32_t> peers;  // global ranks along the pipeline
  std::vector<Bytes> edges;         // what travels between stages i and i + 1
  bool splits_first_stage = true;   // false: its first half of a backward does nothing (PyTorch)
  bool keeps_outputs = true;        // until their backward; false: until they are sent
  bool runs_pairs = false;          // what a schedule joins: at once; false: one after another
};

class RankStep {
 public:
  // REQUIRES: chunks in ascending order of their stages.
  RankStep(const JobSpec& job, ProcessGroups& groups, RankProgram& rank,
           std::vector<ModelChunk> chunks, FinishGradients finish, PipelinePlace place);

  void Build(std::int32_t step);
  // When all steps are built.
  void AddContext() { chunks_.front().runner->memory().AddContext(); }

 private:
  struct Progress {  // of a chunk in this step
    std::int32_t forwards = 0;
    std::int32_t backwards = 0;
    std::int32_t passes = 0;     // of either, in all
    bool reduces_apart = false;  // at a kReduce, not in its last backward
  };

  void RunMicrosteps(std::int32_t step);
  void RunProgram(std::int32_t step);
  void Compute(const Action& action, std::int32_t step);
  void ComputeSplit(const Action& action, const Moment& moment);
  // Layer by layer; one of the two may be missing.
  void ComputePair(const Action* forward, const Action* backward, std::int32_t step);
  void WaitForInput(StreamId stream, const PipelineInstruction& transfer);
  void Transfer(const PipelineInstruction& instruction, std::int32_t step);
  void Optimize(std::int32_t step);
  // Tensors between stages, as far as no kernel of a chunk accounts for them.
  void BeginForward(const Action& action, TaskId first);
  void EndForward(const Action& action, TaskId last);
  void BeginBackward(const Action& action);
  void Account(TaskId task, bool at_end, bool is_gradient, Bytes delta);

  std::size_t IndexOf(std::int32_t stage) const;
  Moment BackwardMoment(std::size_t chunk, std::int32_t step, bool is_first_half);
  Moment MomentOf(std::size_t chunk, std::int32_t step, std::int32_t count) const;
  bool Leaves(const Action& action) const;  // its output goes to another rank

  const JobSpec& job_;
  ProcessGroups& groups_;
  RankProgram& rank_;
  std::vector<ModelChunk> chunks_;
  std::vector<Progress> progress_;
  FinishGradients finish_;
  PipelinePlace place_;
  std::optional<PairEnds> pair_;                          // of the computation before
  std::map<std::int32_t, StreamEvent> transfers_;         // by number, of this step
  std::set<std::pair<std::int32_t, std::int32_t>> sent_;  // outputs, by stage and micro-batch
  std::map<std::pair<std::int32_t, std::int32_t>, Bytes> received_;  // by stage, micro-batch
};

}  // namespace stepsim
