// Which kernels does fused attention become where other ranks hold a part of the keys and values?
// What each place of the ring computes, step by step; models/README.md, "Context parallel".
//
//   AttentionSteps steps(split, balanced, shape, DType::kBf16);   // ring of 4
//   steps.At(1)     {its own keys, half of the keys, half of the queries, half of the queries}
//   steps.keys()    what travels from place to place
#pragma once

#include <cstdint>
#include <vector>

#include "models/spec/context_split.h"
#include "models/workload/kernel_work.h"
#include "sim/base/dtype.h"
#include "sim/base/quantity.h"
#include "sim/graph/work.h"

namespace stepsim {

struct AttentionStep {
  ComputeWork forward, backward;
  // Beside the next step's forward: the sums of exponentials so far; a piece's output put in place.
  ComputeWork correct;
  ComputeWork add_output;                            // after the last step
  ComputeWork add_query_gradient, add_key_gradient;  // behind backward
  bool is_skipped = false;                           // nothing to see for these queries
};

class AttentionSteps {
 public:
  // `shape`: the whole sequence, with the heads that a rank has while it computes. `is_balanced`:
  // place r holds pieces r and 2 ring - 1 - r of 2 ring, else 2r and 2r + 1.
  // REQUIRES: a ring of several places, whose pieces come out even.
  AttentionSteps(const ContextSplit& split, bool is_balanced, const AttentionShape& shape,
                 DType dtype);

  // In forward order; backward goes through them from the last to the first.
  std::vector<AttentionStep> At(std::int64_t place) const;
  // Every place but the last sends its keys and values on; false: they have been gathered.
  bool travels() const { return !gathers_; }
  std::int64_t places() const { return places_; }
  DType dtype() const { return dtype_; }
  // Keys and values of one place.
  Bytes keys() const { return KeyBytes(length_); }
  // Of all kernels of one place, on average over the places, as one.
  ComputeWork Forward() const;
  ComputeWork Backward() const;
  // Beside what one kernel would need: what the exchange brings and what the steps leave.
  Bytes forward_workspace() const;
  Bytes backward_workspace() const;

 private:
  AttentionStep RingStep(std::int64_t place, std::int64_t step) const;
  AttentionStep GatheredStep(std::int64_t piece) const;
  AttentionStep Kernels(std::int64_t queries, std::int64_t keys, bool is_causal) const;
  ComputeWork Mean(ComputeWork work) const;
  std::int64_t QueryElements(std::int64_t queries) const;
  Bytes QueryBytes(std::int64_t queries) const { return SizeOf(dtype_, QueryElements(queries)); }
  std::int64_t KeyElements(std::int64_t keys) const;  // and values
  Bytes KeyBytes(std::int64_t keys) const { return SizeOf(dtype_, KeyElements(keys)); }

  AttentionShape shape_;
  DType dtype_;
  std::int64_t places_;
  std::int64_t length_;  // of a place's queries
  bool gathers_;
  bool is_balanced_;
};

}  // namespace stepsim
