#include "models/workload/tensor_exchanges.h"

#include <utility>

namespace stepsim {
namespace {

using enum ExchangePlace;
using enum CollectiveOp;

}  // namespace

void TensorExchanges::AroundColumn(ColumnPlace place, DType dtype, std::int64_t elements,
                                   Operator* op) const {
  if (!is_on_) return;
  if (!has_sequence_parallel_) {
    if (place.is_first) Add(kBesideWeightGradient, kAllReduce, dtype, elements, "dx", op);
    return;
  }
  if (place.is_first) Add(kBeforeForward, kAllGather, dtype, elements, "x", op);
  if (place.is_last && regathers_input_)
    Add(kBesideInputGradient, kAllGather, dtype, elements, "x", op);
  if (place.is_first) Add(kBesideWeightGradient, kReduceScatter, dtype, elements, "dx", op);
  if (regathers_input_) op->forward_workspace += SizeOf(dtype, elements);          // x
  op->backward_workspace += SizeOf(dtype, (regathers_input_ ? 2 : 1) * elements);  // x and dx
}

void TensorExchanges::AroundRow(DType dtype, std::int64_t elements, Operator* op) const {
  if (!is_on_) return;
  if (!has_sequence_parallel_) return Add(kAfterForward, kAllReduce, dtype, elements, "y", op);
  Add(kAfterForward, kReduceScatter, dtype, elements, "y", op);
  Add(kBeforeBackward, kAllGather, dtype, elements, "dy", op);
  op->forward_workspace += SizeOf(dtype, elements);   // partial sums
  op->backward_workspace += SizeOf(dtype, elements);  // dy
}

void TensorExchanges::BehindTable(bool adds_tables, DType dtype, std::int64_t elements,
                                  Operator* op) const {
  if (!is_on_) return;
  if (!has_sequence_parallel_ || adds_tables) {
    return Add(kAfterForward, kAllReduce, dtype, elements, "embeddings", op);
  }
  AroundRow(dtype, elements, op);
}

void TensorExchanges::CutBehind(DType dtype, std::int64_t elements, Operator* op) const {
  if (!is_on_ || !has_sequence_parallel_) return;
  Add(kBeforeBackward, kAllGather, dtype, elements, "dy", op);
  op->backward_workspace += SizeOf(dtype, elements);
}

void TensorExchanges::GatherBefore(DType dtype, std::int64_t elements, Operator* op) const {
  if (!is_on_ || !has_sequence_parallel_) return;
  Add(kBeforeForward, kAllGather, dtype, elements, "x", op);
  op->forward_workspace += SizeOf(dtype, elements);
}

void TensorExchanges::AroundCutLoss(std::int64_t tokens, Operator* op) const {
  if (!is_on_) return;
  for (const char* name : {"maximum", "label's logit", "sum"}) {
    Add(kAfterForward, kAllReduce, DType::kFp32, tokens, name, op);
  }
}

void TensorExchanges::GatherLogits(DType dtype, std::int64_t elements, Operator* op) const {
  if (is_on_) Add(kAfterForward, kAllGather, dtype, elements, "logits", op);
}

void TensorExchanges::Add(ExchangePlace place, CollectiveOp collective, DType dtype,
                          std::int64_t elements, std::string name, Operator* op) const {
  op->exchanges.push_back({place, ExchangeAxis::kTensor, collective, dtype, SizeOf(dtype, elements),
                           std::string(ToString(collective)) + " " + name});
}

}  // namespace stepsim
