// Which operators does attention have between its linears? Rotary positions, then one fused kernel,
// or products and softmax; with context parallelism the kernel's steps and what they exchange.
//
//   AttentionBuilder attention(job, types, passes, shape);   // once
//   attention.AddTo({0, 1, 2}, &unit);                       // behind q, k and v
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/spec/context_split.h"
#include "models/spec/job.h"
#include "models/workload/kernel_work.h"
#include "models/workload/memory_passes.h"
#include "models/workload/workload.h"

namespace stepsim {

// Operators of the unit; equal where one product makes all three.
struct QkvWriters {
  std::int32_t query = 0;
  std::int32_t key = 0;
  std::int32_t value = 0;
};

class AttentionBuilder {
 public:
  // `shape`: the whole sequence, and the heads that this rank's q, k and v have.
  AttentionBuilder(const JobSpec& job, TrafficTypes types, const MemoryPasses& passes,
                   const AttentionShape& shape);

  // The last operator writes what the output's linear reads.
  void AddTo(QkvWriters qkv, ModelUnit* unit) const;

 private:
  // Elements of q (and of the output) and of k (and of v) on this rank, before ranks swap.
  std::int64_t query() const { return tokens_ * shape_.heads * shape_.head_dim; }
  std::int64_t key() const { return tokens_ * shape_.kv_heads * shape_.head_dim; }

  QkvWriters AddRotary(QkvWriters qkv, ModelUnit* unit) const;
  void AddFused(QkvWriters qkv, ModelUnit* unit) const;
  void AddUnfused(QkvWriters qkv, ModelUnit* unit) const;
  void AddSoftmax(std::int64_t scores, ModelUnit* unit) const;
  void AddSwaps(Operator* op) const;
  void AddGathers(Operator* op) const;
  Bytes FlashWorkspace() const;

  // Reads q, k and v, and saves them for backward.
  void SaveInputs(QkvWriters qkv, Operator* op) const;
  ReadTensor Read(std::int32_t writer, std::int64_t elements, std::int32_t part, bool saved) const;
  ComputeWork Moves(const Traffic& traffic, std::int64_t elements) const;

  TrafficTypes types_;
  const MemoryPasses& passes_;
  AttentionShape shape_;
  AttentionKind kind_;
  PositionKind positions_;
  DType product_;  // of unfused attention's products: tf32 where it is on
  bool drops_;     // probabilities
  ContextSplit split_;
  bool is_balanced_;
  std::int64_t tokens_;
};

}  // namespace stepsim
