// How is each task measured on a CPU? What needs no other process.
#pragma once

#include <memory>

#include "tools/calibrate/backend.h"

namespace stepsim::measure {

// Bytes that buffers must have together, so that no repetition finds its data in a cache.
std::size_t CacheBytes();

double WallSeconds();

// One matrix product, with operands that change from call to call.
class GemmWork {
 public:
  virtual ~GemmWork() = default;
  virtual void Run() = 0;
};
std::unique_ptr<GemmWork> MakeGemm(const GemmTask& task);  // throws CannotMeasure

std::unique_ptr<Prepared> PrepareLaunch(const LaunchTask& task);
std::unique_ptr<Prepared> PrepareGemm(const GemmTask& task);
std::unique_ptr<Prepared> PrepareMemory(const MemoryTask& task);
std::unique_ptr<Prepared> PrepareAttention(const AttentionTask& task);
std::unique_ptr<Prepared> PrepareCopyBeside(const GemmTask& compute, const CopyLoad& load);

}  // namespace stepsim::measure
