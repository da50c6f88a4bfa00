#include "models/parallel/fsdp2_reductions.h"

#include <utility>

#include "models/workload/kernel_work.h"

namespace stepsim {

Fsdp2Reductions::Fsdp2Reductions(const StrategyContext& context, const ShardGroups& groups,
                                 const Fsdp2Gathers& gathers)
    : rank_(context.rank),
      plan_(context.job.plan.fsdp2),
      shardings_(ShardingsOf(context.job)),
      groups_(groups),
      gathers_(gathers),
      dense_(context.dense),
      experts_(context.experts),
      states_(groups.groups.size()),
      is_ideal_(context.job.plan.ideal),
      reduce_(rank_.AddStream("reduce_scatter")) {
  if (plan_.separate_reduce_group || is_ideal_) {
    communicator_ = rank_.AddCommunicator("communicator reduce");
    if (context.job.plan.has_expert_mesh()) {
      expert_communicator_ = rank_.AddCommunicator("communicator edp reduce");
    }
  }
  if (shardings_.dense.replicas > 1) all_reduce_ = rank_.AddStream("all_reduce");
  // fp16 could overflow in the sum; the other types are averaged by the collective itself. Experts
  // are divided as all else, by the ranks that have samples of their own.
  if (types().reduce != DType::kFp16) return;
  const double factor =
      plan_.gradient_divide_factor.value_or(static_cast<double>(context.job.gradient_ranks()));
  pre_divide_ = PreDivideFactor(factor);
  post_divide_ = factor / pre_divide_;
}

void Fsdp2Reductions::ChangeGradients(std::size_t g, Bytes delta, TaskId task) {
  states_[g].gradients += delta;
  rank_.graph().AddMemoryEvent(task, /*at_end=*/true, "unsharded_gradients", delta);
}

void Fsdp2Reductions::GradientReady(const Moment& moment, std::size_t g, std::int64_t elements) {
  if (AccumulatesInPlace(moment)) return;
  ChangeGradients(g, SizeOf(types().gather, elements), rank_.Record(rank_.compute()).last);
}

void Fsdp2Reductions::Accumulate(const Moment& moment, std::size_t g) {
  const std::int64_t elements = GroupAt(g).elements;
  if (elements == 0 || !KeepsApart()) return;
  const Bytes own = SizeOf(types().gather, elements), kept = SizeOf(types().reduce, elements);
  if (IsFollowing(moment)) {
    ComputeWork add = CopyWork(own + kept, kept);
    add.kernels = TensorsOf(g);
    ChangeGradients(g, Bytes{} - own,
                    rank_.Launch(rank_.compute(), add, "accumulate " + GroupAt(g).name));
  } else if (!Reduces(moment)) {
    ComputeWork cast = CopyWork(own, kept);
    cast.kernels = TensorsOf(g);
    ChangeGradients(g, kept - own,
                    rank_.Launch(rank_.compute(), cast, "cast gradients " + GroupAt(g).name));
  }
}

void Fsdp2Reductions::Reduce(const Moment& moment, std::size_t g) {
  if (!Reduces(moment) || GroupAt(g).elements == 0) return;
  // One reduce_scatter input in flight: compute waits for the previous group's.
  if (!is_ideal_) rank_.Wait(rank_.compute(), last_);
  rank_.Wait(rank_.compute(), states_[g].reduced);  // of a micro-step that did not wait
  Pack(moment, g);
  ReduceScatter(g);
  FinishReduce(moment, g);
}

void Fsdp2Reductions::Pack(const Moment& moment, std::size_t g) {
  const bool is_kept = IsFollowing(moment) && KeepsApart();
  const Bytes gradients = SizeOf(is_kept ? types().reduce : types().gather, GroupAt(g).elements);
  const Bytes input = SizeOf(types().reduce, PaddedOf(g));
  const TaskId packed = rank_.Launch(rank_.compute(), CopyWork(gradients, input),
                                     "pack gradients " + GroupAt(g).name);
  // What compute gave to the collective before comes back when compute has waited for that.
  if (is_ideal_) {
    FreeInput(last_.last, /*at_end=*/true);
  } else {
    FreeInput(packed, /*at_end=*/false);
  }
  input_ = input;
  rank_.graph().AddMemoryEvent(packed, /*at_end=*/false, "reduce_buffers", input_);
  ChangeGradients(g, Bytes{} - states_[g].gradients, packed);
}

void Fsdp2Reductions::ReduceScatter(std::size_t g) {
  rank_.Wait(reduce_, rank_.Record(rank_.compute()));
  if (pre_divide_ != 1) {
    rank_.Launch(reduce_, CopyWork(input_, input_), "divide " + GroupAt(g).name);
  }
  const bool is_whole = ShardingOf(g).shards == 1;
  if (!is_whole) {
    rank_.LaunchCollective(
        reduce_, {CollectiveOp::kReduceScatter, types().reduce, input_, RanksOf(g).shard},
        "reduce_scatter " + GroupAt(g).name, Site::kGradientReduce, CommunicatorOf(g));
  } else if (GroupAt(g).is_expert) {
    // Nobody to share with: divided by the number of samples' ranks, and copied.
    ComputeWork divide = CopyWork(input_ * 2, input_ * 2);
    divide.kernels = 2;
    rank_.Launch(reduce_, divide, "divide " + GroupAt(g).name);
  }
  const bool is_alone =
      is_whole && !GroupAt(g).is_expert && pre_divide_ == 1;  // no task of its own
  last_ = rank_.Record(is_alone ? rank_.compute() : reduce_);
}

void Fsdp2Reductions::FinishReduce(const Moment& moment, std::size_t g) {
  if (KeepsPartialSum(moment, g)) {
    AddToPartialSum(g);
    states_[g].reduced = rank_.Record(reduce_);
    return;
  }
  if (states_[g].has_partial) AddToPartialSum(g);
  const bool has_copies = ShardingOf(g).replicas > 1;
  if (has_copies) AllReduce(g);
  const StreamId last = has_copies ? all_reduce_ : reduce_;
  AddToGradient(moment, g, last);
  states_[g].reduced = rank_.Record(last);
}

// HSDP without all_reduce: the shard waits for the last micro-step, in the reduction's type.
void Fsdp2Reductions::AddToPartialSum(std::size_t g) {
  State& state = states_[g];
  if (!state.has_partial) {
    state.has_partial = true;
    rank_.graph().AddMemoryEvent(last_.last, /*at_end=*/false, "reduce_buffers", ShardBytes(g));
    return;
  }
  rank_.Launch(reduce_, AccumulateWork(types().reduce, PaddedOf(g) / ShardingOf(g).shards),
               "add partial sum " + GroupAt(g).name);
}

// The shard is summed over the copies, on a stream of its own.
void Fsdp2Reductions::AllReduce(std::size_t g) {
  State& state = states_[g];
  const Bytes shard = ShardBytes(g);
  rank_.Wait(all_reduce_, rank_.Record(reduce_));
  const TaskId summed = rank_.LaunchCollective(
      all_reduce_, {CollectiveOp::kAllReduce, types().reduce, shard, RanksOf(g).replicate},
      "all_reduce " + GroupAt(g).name, Site::kGradientReduce);
  if (!state.has_partial) return;
  state.has_partial = false;
  rank_.graph().AddMemoryEvent(summed, /*at_end=*/true, "reduce_buffers", Bytes{} - shard);
}

// The rest of the division, the cast to the shards' type, the sum with earlier micro-steps.
void Fsdp2Reductions::AddToGradient(const Moment& moment, std::size_t g, StreamId stream) {
  const std::int64_t shard = PaddedOf(g) / ShardingOf(g).shards;
  ComputeWork finish = CopyWork(Bytes{}, Bytes{});
  finish.kernels = 0;
  const auto add = [&finish](const ComputeWork& part, std::int32_t kernels) {
    finish.bytes += part.bytes;
    finish.kernels += kernels;
  };
  if (post_divide_ != 1) add(CastWork(types().reduce, types().reduce, shard), 1);
  if (types().reduce != types().storage) {
    add(CastWork(types().reduce, types().storage, shard), 1);
  }
  const bool accumulates = std::exchange(states_[g].gradient_of, moment.step) == moment.step;
  if (accumulates) add(AccumulateWork(types().storage, shard), TensorsOf(g));
  if (finish.kernels == 0) return;
  rank_.Launch(stream, finish, (accumulates ? "accumulate " : "finish ") + GroupAt(g).name);
}

void Fsdp2Reductions::FreeInput(TaskId task, bool at_end) {
  if (input_.value == 0) return;
  rank_.graph().AddMemoryEvent(task, at_end, "reduce_buffers", Bytes{} - input_);
  input_ = {};
}

void Fsdp2Reductions::Finish(const Moment& moment) {
  if (!Reduces(moment) || (!plan_.is_last_backward && !moment.is_last_microstep)) return;
  for (State& state : states_) {
    rank_.Wait(rank_.compute(), std::exchange(state.reduced, StreamEvent{}));
  }
  rank_.Wait(rank_.compute(), last_);
  FreeInput(last_.last, /*at_end=*/true);
  last_ = {};
}

}  // namespace stepsim
