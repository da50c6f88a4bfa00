#include "models/parallel/zero_step.h"

#include <algorithm>
#include <limits>

#include "models/spec/sharding.h"
#include "models/workload/kernel_work.h"

namespace stepsim {
namespace {

std::int32_t Kernels(std::int64_t count) {
  return static_cast<std::int32_t>(
      std::min<std::int64_t>(count, std::numeric_limits<std::int32_t>::max()));
}

void AllReduceOneElement(RankProgram& rank, const ZeroStep& step, const char* name) {
  rank.LaunchCollectiveOfLast(
      rank.compute(),
      {CollectiveOp::kAllReduce, DType::kFp32, ElementSize(DType::kFp32), step.group}, name,
      Site::kOptimizer, step.communicator);
}

// Widened to fp64, then summed: the gradient in, a copy of eight bytes out and in again.
ComputeWork NormWork(DType gradient, const ZeroStep& step) {
  const Bytes wide = SizeOf(DType::kInt64, step.elements);
  ComputeWork norm = CopyWork(SizeOf(gradient, step.elements) + wide, wide);
  norm.kernels = Kernels(2 * step.tensors);
  return norm;
}

// isinf and isnan of an fp32 copy: it is written, and read twice.
ComputeWork OverflowWork(DType gradient, const ZeroStep& step) {
  const Bytes wide = SizeOf(DType::kFp32, step.elements);
  ComputeWork check = CopyWork(SizeOf(gradient, step.elements) + wide * 2, wide);
  check.kernels = Kernels(3 * step.tensors);
  return check;
}

// Beside those of compute, where they have another type.
Bytes WideGradients(const Sharding& sharding, const ZeroStep& step) {
  return sharding.has_master ? SizeOf(sharding.storage, step.at_a_time) : Bytes{};
}

}  // namespace

void LaunchBeforeOptimizer(RankProgram& rank, const ZeroStep& step) {
  if (step.job.optimizer == OptimizerKind::kNone) return;
  const Sharding sharding = ShardingOf(step.job);
  if (step.job.precision.compute == DType::kFp16) {
    rank.Launch(rank.compute(), OverflowWork(sharding.gradient, step), "norm: overflow check");
    AllReduceOneElement(rank, step, "norm: all_reduce of the overflow flag");
    rank.BlockHost(rank.Record(rank.compute()));
  }
  rank.Launch(rank.compute(), NormWork(sharding.gradient, step), "norm of the gradients");
  AllReduceOneElement(rank, step, "norm: all_reduce");
  ComputeWork unscale = CastWork(sharding.gradient, sharding.storage, step.elements);
  const Bytes wide = SizeOf(sharding.storage, step.elements);
  unscale.bytes += CopyWork(wide, wide).bytes;
  unscale.kernels = 2;
  const TaskId widened = rank.Launch(rank.compute(), unscale, "unscale gradients");
  rank.graph().AddMemoryEvent(widened, /*at_end=*/false, "fp32_gradients",
                              WideGradients(sharding, step));
}

void EndOptimizer(RankProgram& rank, const ZeroStep& step) {
  if (step.job.optimizer == OptimizerKind::kNone) return;
  rank.graph().AddMemoryEvent(rank.Record(rank.compute()).last, /*at_end=*/true, "fp32_gradients",
                              Bytes{} - WideGradients(ShardingOf(step.job), step));
}

ComputeWork DivideWork(DType kept, DType sent, std::int64_t elements, bool flattens) {
  const Bytes bytes = SizeOf(kept, elements);
  ComputeWork work = CopyWork(bytes, bytes);  // divided in place
  if (flattens) {
    work.bytes += CopyWork(bytes, bytes).bytes;
    ++work.kernels;
  }
  if (sent != kept) {
    work.bytes += CastWork(kept, sent, elements).bytes;
    ++work.kernels;
  }
  return work;
}

}  // namespace stepsim
