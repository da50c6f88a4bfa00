#include "models/workload/attention_steps.h"

#include "sim/base/check.h"

namespace stepsim {
namespace {

constexpr int kCopy = 2;  // read, write
constexpr int kAdd = 3;   // read both, write the sum

}  // namespace

AttentionSteps::AttentionSteps(const ContextSplit& split, bool is_balanced,
                               const AttentionShape& shape, DType dtype)
    : shape_(shape),
      dtype_(dtype),
      places_(split.ring),
      length_(shape.sequence / split.ring),
      gathers_(split.gathers),
      is_balanced_(is_balanced) {
  SIM_CHECK(places_ > 1 && shape.sequence % places_ == 0, "a ring of even pieces");
}

std::vector<AttentionStep> AttentionSteps::At(std::int64_t place) const {
  if (gathers_) {
    const std::int64_t first = is_balanced_ ? place : 2 * place;
    const std::int64_t second = is_balanced_ ? 2 * places_ - 1 - place : 2 * place + 1;
    return {GatheredStep(first), GatheredStep(second)};
  }
  std::vector<AttentionStep> steps;
  for (std::int64_t step = 0; step < places_; ++step) steps.push_back(RingStep(place, step));
  return steps;
}

// At step i the keys of place - i are there, those of a later piece once i > place.
AttentionStep AttentionSteps::RingStep(std::int64_t place, std::int64_t i) const {
  std::int64_t queries = length_, keys = length_;
  const bool is_ahead = i > place;
  if (shape_.causal && i > 0 && is_balanced_) (is_ahead ? queries : keys) /= 2;
  AttentionStep step = Kernels(queries, keys, shape_.causal && i == 0);
  step.is_skipped = shape_.causal && !is_balanced_ && is_ahead;
  const std::int64_t sums = shape_.batch * shape_.heads * queries;
  step.correct = MemoryWork(DType::kFp32, i == 0 ? kCopy : kAdd, sums);
  step.add_output = MemoryWork(dtype_, i == 0 ? kCopy : kAdd, QueryElements(queries));
  const int passes = i + 1 == places_ ? kCopy : kAdd;  // backward's first
  step.add_query_gradient = MemoryWork(dtype_, passes, QueryElements(queries));
  step.add_key_gradient = MemoryWork(dtype_, passes, KeyElements(keys));
  return step;
}

// Queries of one of 2 x places pieces, against all keys up to theirs.
AttentionStep AttentionSteps::GatheredStep(std::int64_t piece) const {
  const std::int64_t queries = length_ / 2;
  const std::int64_t keys = shape_.causal ? (piece + 1) * queries : shape_.sequence;
  AttentionStep step = Kernels(queries, keys, shape_.causal);
  step.correct = MemoryWork(dtype_, kCopy, QueryElements(queries));
  step.add_query_gradient = MemoryWork(dtype_, kCopy, QueryElements(queries));
  step.add_key_gradient = MemoryWork(dtype_, kAdd, KeyElements(keys));
  return step;
}

AttentionStep AttentionSteps::Kernels(std::int64_t queries, std::int64_t keys,
                                      bool is_causal) const {
  AttentionShape shape = shape_;
  shape.sequence = queries;
  shape.keys = keys;
  shape.causal = is_causal;
  AttentionStep step;
  step.forward = AttentionForwardWork(shape, dtype_);
  step.backward = AttentionBackwardWork(shape, dtype_);
  return step;
}

ComputeWork AttentionSteps::Forward() const { return Mean(AttentionForwardWork(shape_, dtype_)); }
ComputeWork AttentionSteps::Backward() const { return Mean(AttentionBackwardWork(shape_, dtype_)); }

ComputeWork AttentionSteps::Mean(ComputeWork work) const {
  work.flops = work.flops * (1 / static_cast<double>(places_));
  work.bytes = Bytes{work.bytes.value / places_};
  work.m = length_;
  return work;
}

// Every step's keys, values and output stay until the outputs are added up.
Bytes AttentionSteps::forward_workspace() const {
  if (gathers_) return keys() * places_;
  return keys() * (places_ - 1) + QueryBytes(length_) * places_;
}

// A ring: two buffers of keys, values and their gradients, one of which goes on as the gradient;
// and what a step makes. Gathered: keys and values, their gradients, and those of a step.
Bytes AttentionSteps::backward_workspace() const {
  const Bytes exchanged = gathers_ ? keys() * places_ * 3 : keys() * 4;
  return exchanged + QueryBytes(length_);
}

std::int64_t AttentionSteps::QueryElements(std::int64_t queries) const {
  return shape_.batch * queries * shape_.heads * shape_.head_dim;
}

std::int64_t AttentionSteps::KeyElements(std::int64_t keys) const {
  return 2 * shape_.batch * keys * shape_.kv_heads * shape_.head_dim;
}

}  // namespace stepsim
