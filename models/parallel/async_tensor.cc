#include "models/parallel/async_tensor.h"

#include "models/workload/kernel_work.h"

namespace stepsim {

AsyncTensor::AsyncTensor(RankProgram& rank, GroupId group, std::int64_t ranks)
    : rank_(rank),
      group_(group),
      ranks_(ranks),
      second_(rank.AddStream("async tp")),
      engine_(rank.AddCommunicator("copy engine")) {}

TaskSpan AsyncTensor::GatherAndMultiply(const Exchange& gather, const ComputeWork& product,
                                        bool keeps_gathered, const std::string& name) {
  const StreamId compute = rank_.compute();
  const ComputeWork part = RowsOf(product, ranks_);
  const Bytes shard = PartOf(gather);
  TaskSpan kernels;
  kernels.first = Barrier(compute, name);
  rank_.Wait(second_, rank_.Record(compute));
  rank_.Launch(compute, CopyWork(shard, shard), name + " shard to symmetric memory");
  if (keeps_gathered) rank_.Launch(compute, CopyWork(shard, shard), name + " own shard");
  Barrier(compute, name);
  rank_.Wait(second_, rank_.Record(compute));
  rank_.Launch(compute, part, name + " 0");
  for (std::int64_t step = 1; step < ranks_; ++step) {
    Pull(StreamOf(step), gather, name);
    rank_.Launch(StreamOf(step), part, name + " " + std::to_string(step));
  }
  rank_.Wait(compute, rank_.Record(second_));
  kernels.last = Barrier(compute, name);
  return kernels;
}

// A buffer for each stream: its next product waits until the peer has read the one before.
TaskSpan AsyncTensor::MultiplyAndScatter(const ComputeWork& product, const Exchange& scatter,
                                         const std::string& name) {
  const StreamId compute = rank_.compute();
  const ComputeWork part = RowsOf(product, ranks_);
  TaskSpan kernels;
  kernels.first = Barrier(compute, name);
  rank_.Wait(second_, rank_.Record(compute));
  for (std::int64_t step = 1; step < ranks_; ++step) {
    const StreamId stream = StreamOf(step);
    rank_.Launch(stream, part, name + " " + std::to_string(step));
    Barrier(stream, name);
    Pull(stream, scatter, name);
    Barrier(stream, name);
  }
  rank_.Launch(compute, part, name + " 0");
  rank_.Wait(compute, rank_.Record(second_));
  Barrier(compute, name);
  kernels.last = rank_.Launch(compute, CopyWork(scatter.bytes, PartOf(scatter)), name + " sum");
  return kernels;
}

TaskId AsyncTensor::Barrier(StreamId stream, const std::string& name) {
  return rank_.LaunchCollective(stream, {CollectiveOp::kBarrier, DType::kInt32, Bytes{4}, group_},
                                name + " barrier", Site::kTensorParallel);
}

void AsyncTensor::Pull(StreamId stream, const Exchange& exchange, const std::string& name) {
  rank_.LaunchCopy(stream, {CollectiveOp::kPeerCopy, exchange.dtype, PartOf(exchange), group_},
                   name + " pull", Site::kTensorParallel, engine_);
}

}  // namespace stepsim
