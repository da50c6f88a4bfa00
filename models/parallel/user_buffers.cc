#include "models/parallel/user_buffers.h"

#include "models/workload/kernel_work.h"

namespace stepsim {

UserBuffers::UserBuffers(RankProgram& rank, GroupId group, std::int64_t ranks,
                         const TensorPlan& plan)
    : rank_(rank), group_(group), ranks_(ranks), plan_(plan) {
  for (std::size_t i = 0; i < kStreams; ++i) {
    products_[i] = rank.AddStream("user buffers " + std::to_string(i));
  }
  transfers_ = rank.AddStream("user buffers transfer");
}

// While a part is multiplied it goes on to the next rank, and the following one comes in. The first
// transfer is where late ranks are waited for.
TaskSpan UserBuffers::RingGather(const Exchange& gather, const ComputeWork& product,
                                 const std::string& name) {
  const ComputeWork part = RowsOf(product, ranks_);
  TaskSpan kernels;
  Fork();
  StreamEvent here;  // of the part that comes next
  for (std::int64_t i = 0; i < ranks_; ++i) {
    StreamEvent next;
    if (i == 0) {
      rank_.LaunchCollective(transfers_, Copy(gather), name + " send", Site::kTensorParallel);
    } else if (i + 1 < ranks_) {
      rank_.Launch(transfers_, Copy(gather), name + " send", Site::kTensorParallel);
    }
    next = rank_.Record(transfers_);
    if (i > 0) rank_.Wait(StreamOf(i), std::move(here));
    kernels.last = rank_.Launch(StreamOf(i), part, name + " " + std::to_string(i));
    if (i == 0) kernels.first = kernels.last;
    here = std::move(next);
  }
  Join();
  return kernels;
}

TaskSpan UserBuffers::PipelinedScatter(const ComputeWork& product, const Exchange& scatter,
                                       const std::string& name) {
  const std::int64_t parts = plan_.num_splits;
  const ComputeWork part = RowsOf(product, parts);
  TaskSpan kernels;
  Fork();
  for (std::int64_t i = 0; i < parts; ++i) {
    kernels.last = rank_.Launch(StreamOf(i), part, name + " " + std::to_string(i));
    if (i == 0) kernels.first = kernels.last;
    rank_.Wait(transfers_, rank_.Record(StreamOf(i)));
    const std::int32_t sms = i + 1 == parts ? kMostSms : kSms;
    rank_.LaunchCollective(
        transfers_, {scatter.op, scatter.dtype, Bytes{scatter.bytes.value / parts}, group_, sms},
        name + " " + scatter.name, Site::kTensorParallel);
  }
  Join();
  return kernels;
}

TaskSpan UserBuffers::RingScatter(const ComputeWork& product, const Exchange& scatter,
                                  const std::string& name) {
  const ComputeWork part = RowsOf(product, ranks_);
  TaskSpan kernels;
  Fork();
  for (std::int64_t i = 0; i < ranks_; ++i) {  // the own part last
    const TaskId task = rank_.Launch(StreamOf(i), part, name + " " + std::to_string(i));
    if (i == 0) kernels.first = task;
    if (i + 1 == ranks_) break;
    rank_.Wait(transfers_, rank_.Record(StreamOf(i)));
    if (i == 0) {
      rank_.LaunchCollective(transfers_, Copy(scatter), name + " send", Site::kTensorParallel);
    } else {
      rank_.Launch(transfers_, Copy(scatter), name + " send", Site::kTensorParallel);
    }
  }
  Join();
  kernels.last = rank_.Launch(
      rank_.compute(), CopyWork(scatter.bytes, Bytes{scatter.bytes.value / ranks_}), name + " sum");
  return kernels;
}

void UserBuffers::Fork() {
  for (const StreamId stream : products_) rank_.Wait(stream, rank_.Record(rank_.compute()));
  rank_.Wait(transfers_, rank_.Record(rank_.compute()));
}

void UserBuffers::Join() {
  for (const StreamId stream : products_) rank_.Wait(rank_.compute(), rank_.Record(stream));
  rank_.Wait(rank_.compute(), rank_.Record(transfers_));
}

CollectiveWork UserBuffers::Copy(const Exchange& exchange) const {
  return {CollectiveOp::kPeerCopy, exchange.dtype, Bytes{exchange.bytes.value / ranks_}, group_,
          plan_.use_copy_engine ? 0 : 1};
}

}  // namespace stepsim
