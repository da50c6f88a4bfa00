#include "models/parallel/ring_attention.h"

#include <array>
#include <utility>
#include <vector>

namespace stepsim {

RingAttention::RingAttention(RankProgram& rank, StreamId nccl, GroupId group, std::int64_t place)
    : rank_(rank), second_(rank.AddStream("cp")), nccl_(nccl), group_(group), place_(place) {}

TaskSpan RingAttention::Forward(const AttentionSteps& attention, const std::string& name,
                                std::string_view suffix) {
  const std::string end(suffix);
  const std::vector<AttentionStep> steps = attention.At(place_);
  const std::array streams = {rank_.compute(), second_};
  rank_.Wait(second_, rank_.Record(rank_.compute()));
  TaskSpan kernels;
  StreamEvent received, corrected;
  const auto correct = [&](std::size_t i) {
    if (steps[i].is_skipped) return;
    const StreamId stream = streams[i % 2];
    if (i > 0) rank_.Wait(stream, corrected);
    rank_.Launch(stream, steps[i].correct, name + ".correct" + end);
    corrected = rank_.Record(stream);
  };
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const StreamId stream = streams[i % 2];
    rank_.Wait(stream, std::exchange(received, {}));
    if (attention.travels() && i + 1 < steps.size()) {
      received = Send(stream, attention, attention.keys(), name + " keys");
    }
    if (!steps[i].is_skipped) LaunchStep(stream, steps[i].forward, name + end, &kernels);
    if (i > 0) correct(i - 1);
  }
  correct(steps.size() - 1);
  rank_.Wait(rank_.compute(), rank_.Record(second_));
  if (!attention.travels()) return kernels;
  for (const AttentionStep& step : steps) {
    if (step.is_skipped) continue;
    kernels.last = rank_.Launch(rank_.compute(), step.add_output, name + ".add_output" + end);
  }
  return kernels;
}

TaskSpan RingAttention::Backward(const AttentionSteps& attention, const std::string& name) {
  return attention.travels() ? BackwardRing(attention, name) : BackwardPieces(attention, name);
}

// Forward's last keys come first. They go back the way they came, from the second step on together
// with the gradients that they have gathered; the last transfer takes these home.
TaskSpan RingAttention::BackwardRing(const AttentionSteps& attention, const std::string& name) {
  const StreamId compute = rank_.compute();
  const std::vector<AttentionStep> steps = attention.At(place_);
  TaskSpan kernels;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const AttentionStep& step = steps[steps.size() - 1 - i];
    const bool is_end = i == 0 || i + 1 == steps.size();  // keys alone, gradients alone
    const StreamEvent received =
        Send(compute, attention, attention.keys() * (is_end ? 1 : 2), name + " gradients");
    if (!step.is_skipped) {
      LaunchStep(compute, step.backward, name + ".dgrad", &kernels);
      rank_.Launch(compute, step.add_query_gradient, name + ".add_dgrad");
    }
    rank_.Wait(compute, received);
    if (step.is_skipped) continue;
    kernels.last = rank_.Launch(compute, step.add_key_gradient, name + ".add_dgrad");
  }
  return kernels;
}

// Both pieces add to the gradients of the same keys, one after the other.
TaskSpan RingAttention::BackwardPieces(const AttentionSteps& attention, const std::string& name) {
  const std::array streams = {rank_.compute(), second_};
  rank_.Wait(second_, rank_.Record(rank_.compute()));
  TaskSpan kernels;
  StreamEvent added;
  const std::vector<AttentionStep> steps = attention.At(place_);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const StreamId stream = streams[i % 2];
    LaunchStep(stream, steps[i].backward, name + ".dgrad", &kernels);
    rank_.Launch(stream, steps[i].add_query_gradient, name + ".add_dgrad");
    rank_.Wait(stream, added);
    kernels.last = rank_.Launch(stream, steps[i].add_key_gradient, name + ".add_dgrad");
    added = rank_.Record(stream);
  }
  rank_.Wait(rank_.compute(), rank_.Record(second_));
  return kernels;
}

void RingAttention::LaunchStep(StreamId stream, const ComputeWork& work, const std::string& name,
                               TaskSpan* kernels) {
  rank_.Wait(stream, std::exchange(step_, {}));
  kernels->last = rank_.Launch(stream, work, name);
  if (kernels->first == kNoId<TaskId>) kernels->first = kernels->last;
  step_ = rank_.Record(stream);
}

StreamEvent RingAttention::Send(StreamId stream, const AttentionSteps& steps, Bytes bytes,
                                const std::string& name) {
  rank_.Wait(nccl_, rank_.Record(stream));
  rank_.LaunchCollective(nccl_, {CollectiveOp::kSendRecv, steps.dtype(), bytes, group_}, name,
                         Site::kContextParallel);
  return rank_.Record(nccl_);
}

}  // namespace stepsim
