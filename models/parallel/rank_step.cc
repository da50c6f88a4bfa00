#include "models/parallel/rank_step.h"

#include <algorithm>
#include <utility>

#include "models/spec/pipeline_rules.h"
#include "models/spec/sharding.h"
#include "sim/base/check.h"

namespace stepsim {
namespace {

DType TransferType(const JobSpec& job) { return ActivationType(job.precision.compute); }

}  // namespace

RankStep::RankStep(const JobSpec& job, ProcessGroups& groups, RankProgram& rank,
                   std::vector<ModelChunk> chunks, FinishGradients finish, PipelinePlace place)
    : job_(job),
      groups_(groups),
      rank_(rank),
      chunks_(std::move(chunks)),
      progress_(chunks_.size()),
      finish_(std::move(finish)),
      place_(std::move(place)) {
  if (place_.program == nullptr) {
    progress_.front().passes = static_cast<std::int32_t>(job_.batch.gradient_accumulation_steps);
    return;
  }
  for (const auto& it : place_.program->ranks[static_cast<std::size_t>(place_.rank)]) {
    if (it.op == PipelineOp::kReduce) progress_[IndexOf(it.action.stage)].reduces_apart = true;
    if (it.op == PipelineOp::kCompute && it.action.kind == ActionKind::kForward) {
      ++progress_[IndexOf(it.action.stage)].passes;
    }
    for (const StageMove& move : it.moves) {
      if (move.is_send && !move.is_backward) sent_.insert({move.edge, move.microbatch});
    }
  }
}

void RankStep::Build(std::int32_t step) {
  rank_.BeginStep();
  for (Progress& progress : progress_) progress.forwards = progress.backwards = 0;
  if (place_.program == nullptr) {
    RunMicrosteps(step);
  } else {
    RunProgram(step);
  }
  Optimize(step);
  if (job_.host.synchronize) rank_.Synchronize();
}

void RankStep::RunMicrosteps(std::int32_t step) {
  const auto last = static_cast<std::int32_t>(job_.batch.gradient_accumulation_steps) - 1;
  Compute({ActionKind::kForward, 0, 0}, step);
  for (std::int32_t m = 0; m < last; ++m) {
    const Action backward{ActionKind::kBackward, 0, m}, forward{ActionKind::kForward, 0, m + 1};
    if (job_.plan.expert.overlap_microbatches) {
      ComputePair(&forward, &backward, step);
    } else {
      Compute(backward, step);
      Compute(forward, step);
    }
  }
  Compute({ActionKind::kBackward, 0, last}, step);
}

void RankStep::RunProgram(std::int32_t step) {
  transfers_.clear();
  const auto& program = place_.program->ranks[static_cast<std::size_t>(place_.rank)];
  for (std::size_t i = 0; i < program.size(); ++i) {
    const PipelineInstruction& it = program[i];
    switch (it.op) {
      case PipelineOp::kCompute:
        if (place_.runs_pairs && i + 1 < program.size() &&
            program[i + 1].action.overlaps_previous) {
          ComputePair(&it.action, &program[++i].action, step);
        } else {
          Compute(it.action, step);
        }
        break;
      case PipelineOp::kTransfer:
        Transfer(it, step);
        break;
      case PipelineOp::kWait:
        rank_.Wait(rank_.compute(), transfers_.at(it.transfer));
        break;
      case PipelineOp::kSynchronize:
        rank_.BlockHostOnDevice();
        break;
      case PipelineOp::kUnshard:
      case PipelineOp::kReshard:
      case PipelineOp::kReduce: {
        const std::size_t c = IndexOf(it.action.stage);
        const Moment moment = MomentOf(c, step, std::max(progress_[c].backwards - 1, 0));
        Strategy& strategy = *chunks_[c].strategy;
        if (it.op == PipelineOp::kUnshard) strategy.UnshardChunk(moment);
        if (it.op == PipelineOp::kReshard) strategy.ReshardChunk(moment);
        if (it.op == PipelineOp::kReduce) strategy.StartReduction(moment);
        break;
      }
    }
  }
}

// A chunk's n-th pass in a direction is its n-th micro-step, whichever micro-batch it is.
void RankStep::Compute(const Action& action, std::int32_t step) {
  const bool is_forward = action.kind == ActionKind::kForward;
  if (job_.plan.expert.overlap_microbatches) {
    return ComputePair(is_forward ? &action : nullptr, is_forward ? nullptr : &action, step);
  }
  pair_.reset();
  const std::size_t c = IndexOf(action.stage);
  ChunkRunner& runner = *chunks_[c].runner;
  Progress& progress = progress_[c];
  if (is_forward) {
    rank_.SetPosition(Phase::kForward, {action.microbatch, step});
    rank_.BeginGraph();
    BeginForward(action, runner.Forward(MomentOf(c, step, progress.forwards++)));
    EndForward(action, rank_.Record(rank_.compute()).last);
    return;
  }
  rank_.SetPosition(Phase::kBackward, {action.microbatch, step});
  const bool is_first_half = action.kind == ActionKind::kInputGradient;
  const Moment moment = BackwardMoment(c, step, is_first_half);
  if (action.kind != ActionKind::kWeightGradient) BeginBackward(action);
  if (action.kind == ActionKind::kBackward) {
    runner.Backward(moment);
  } else {
    ComputeSplit(action, moment);
  }
  rank_.SetPosition(Phase::kOther, {action.microbatch, step});
}

void RankStep::ComputePair(const Action* forward, const Action* backward, std::int32_t step) {
  std::optional<PairedPass> f, b;
  if (forward != nullptr) {
    const std::size_t c = IndexOf(forward->stage);
    f.emplace(PairedPass{chunks_[c].runner.get(),
                         MomentOf(c, step, progress_[c].forwards++),
                         {forward->microbatch, step}});
    rank_.SetPosition(Phase::kForward, f->position);
    rank_.BeginGraph();
  }
  if (backward != nullptr) {
    const std::size_t c = IndexOf(backward->stage);
    b.emplace(PairedPass{chunks_[c].runner.get(),
                         BackwardMoment(c, step, /*is_first_half=*/false),
                         {backward->microbatch, step}});
    BeginBackward(*backward);
  }
  const auto pass = [](const std::optional<PairedPass>& p) { return p ? &*p : nullptr; };
  pair_ = RunPaired(rank_, pass(f), pass(b), DelaysWeightGradients(job_));
  if (forward != nullptr) {
    BeginForward(*forward, pair_->first_forward);
    EndForward(*forward, pair_->forward.last);
  }
  rank_.SetPosition(Phase::kOther, b ? b->position : f->position);
}

// PyTorch's first stage has no input that wants a gradient: its first half does nothing, the second
// is the whole backward.
void RankStep::ComputeSplit(const Action& action, const Moment& moment) {
  ChunkRunner& runner = *chunks_[IndexOf(action.stage)].runner;
  const bool is_whole = action.stage == 0 && !place_.splits_first_stage;
  if (action.kind == ActionKind::kInputGradient) {
    if (!is_whole) runner.InputGradient(moment);
  } else if (is_whole) {
    runner.Backward(moment);
  } else {
    runner.WeightGradient(moment);
  }
}

// What goes out, and what comes in for the next pass of its direction, is called for behind that
// direction's pass alone where two run at once.
void RankStep::WaitForInput(StreamId stream, const PipelineInstruction& transfer) {
  if (!pair_.has_value()) return rank_.Wait(stream, rank_.Record(rank_.compute()));
  for (const StageMove& move : transfer.moves) {
    rank_.Wait(stream, move.is_backward ? pair_->backward : pair_->forward);
  }
}

void RankStep::Transfer(const PipelineInstruction& it, std::int32_t step) {
  // Both ends of a call in both directions know it by its activation.
  const StageMove& move = it.moves.front().is_backward ? it.moves.back() : it.moves.front();
  const auto own = place_.peers[static_cast<std::size_t>(place_.rank)];
  const auto other = place_.peers[static_cast<std::size_t>(it.peer)];
  const GroupId group =
      groups_.Of({std::min(own, other), std::max(own, other)}, "pp", "neighbouring stages");
  const StreamId stream =
      rank_.AddStream(it.queue == 0 ? "nccl pp" : "nccl pp " + std::to_string(it.queue));
  WaitForInput(stream, it);
  std::string name;
  for (const StageMove& m : it.moves) {
    if (!name.empty()) name += " + ";
    name += std::string(m.is_send ? "send " : "recv ") + (m.is_backward ? "gradient " : "output ") +
            std::to_string(m.microbatch) + (m.is_send ? " to" : " from") + " stage " +
            std::to_string(m.is_send != m.is_backward ? m.edge + 1 : m.edge);
  }
  const Bytes bytes = place_.edges[static_cast<std::size_t>(move.edge)];
  const std::int64_t direction = std::int64_t{step} * 2 + (move.is_backward ? 1 : 0);
  const std::int64_t key =
      ((direction * place_.stages + move.edge) << 20) + move.microbatch;  // fewer than 2^20
  CollectiveWork work{CollectiveOp::kSendRecv, TransferType(job_), bytes, group};
  if (it.moves.size() == 1) work.sender = move.is_send ? own : other;
  const TaskId task = rank_.LaunchTransfer(stream, work, std::move(name), key);
  transfers_[it.transfer] = rank_.Record(stream);
  for (const StageMove& m : it.moves) {
    if (!m.is_send) {
      Account(task, /*at_end=*/false, m.is_backward, bytes);
      if (!m.is_backward) received_[{m.edge + 1, m.microbatch}] = bytes;
    } else if (m.is_backward || !place_.keeps_outputs) {
      Account(task, /*at_end=*/true, m.is_backward, Bytes{} - bytes);
    }
  }
}

// What was received is from now on one of the tensors that the chunk's kernels account for.
void RankStep::BeginForward(const Action& action, TaskId first) {
  const auto received = received_.find({action.stage, action.microbatch});
  if (received == received_.end()) return;
  Account(first, /*at_end=*/false, /*is_gradient=*/false, Bytes{} - received->second);
  received_.erase(received);
}

bool RankStep::Leaves(const Action& action) const {
  return sent_.count({action.stage, action.microbatch}) > 0;
}

// A stage's output is an input of nothing on it.
void RankStep::EndForward(const Action& action, TaskId last) {
  if (!Leaves(action)) return;
  Account(last, /*at_end=*/false, /*is_gradient=*/false,
          place_.edges[static_cast<std::size_t>(action.stage)]);
}

void RankStep::BeginBackward(const Action& action) {
  if (!Leaves(action) || !place_.keeps_outputs) return;
  Account(rank_.Record(rank_.compute()).last, /*at_end=*/true, /*is_gradient=*/false,
          Bytes{} - place_.edges[static_cast<std::size_t>(action.stage)]);
}

void RankStep::Account(TaskId task, bool at_end, bool is_gradient, Bytes delta) {
  rank_.graph().AddMemoryEvent(task, at_end, is_gradient ? "activation_gradients" : "activations",
                               delta);
}

void RankStep::Optimize(std::int32_t step) {
  const auto last = static_cast<std::int32_t>(job_.batch.gradient_accumulation_steps) - 1;
  rank_.SetPosition(Phase::kOther, {last, step});
  for (std::size_t c = 0; c < chunks_.size(); ++c) {
    chunks_[c].strategy->BeforeOptimizer(MomentOf(c, step, progress_[c].passes - 1));
  }
  finish_.Run();
  rank_.SetPosition(Phase::kOptimizer, {last, step});
  for (ModelChunk& chunk : chunks_) chunk.runner->Optimize();
  for (std::size_t c = 0; c < chunks_.size(); ++c) {
    chunks_[c].strategy->AfterOptimizer(MomentOf(c, step, progress_[c].passes - 1));
  }
}

std::size_t RankStep::IndexOf(std::int32_t stage) const {
  for (std::size_t c = 0; c < chunks_.size(); ++c) {
    if (chunks_[c].stage == stage) return c;
  }
  SIM_CHECK(false, "a rank holds the stages of its program");
  return 0;
}

Moment RankStep::BackwardMoment(std::size_t chunk, std::int32_t step, bool is_first_half) {
  Progress& progress = progress_[chunk];
  Moment moment = MomentOf(chunk, step, is_first_half ? progress.backwards : progress.backwards++);
  if (progress.reduces_apart) moment.is_last_microstep = false;
  return moment;
}

Moment RankStep::MomentOf(std::size_t chunk, std::int32_t step, std::int32_t count) const {
  return {rank_, count, step, count == 0, count + 1 == progress_[chunk].passes};
}

}  // namespace stepsim
