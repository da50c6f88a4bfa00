// Which collectives does tensor parallelism put around a product? Megatron-LM's, as exchanges of
// the operators:
//
//                    forward                       backward
//   column, SP       all_gather x                  all_gather x beside the input gradient,
//                                                  reduce_scatter dx beside the weight gradient
//   row, SP          reduce_scatter y behind it    all_gather dy before
//   column           -                             all_reduce dx beside the weight gradient
//   row              all_reduce y behind it        -
//
// DTensor keeps the gathered x instead of a second gather (plan.tensor.regather_input).
// SP: sequence parallelism. Columns: qkv, fc1, head; rows: proj, fc2, the cut token table.
// Linears that read one input (q, k, v) share its exchanges: gathered before the first of them in
// forward and in backward; its gradient is summed over them first and exchanged with the last.
#pragma once

#include <cstdint>
#include <string>

#include "models/workload/local_transformer.h"
#include "models/workload/workload.h"
#include "sim/base/dtype.h"

namespace stepsim {

// Of a linear among those that read the same input; by itself it is both.
struct ColumnPlace {
  bool is_first = true;
  bool is_last = true;
};

class TensorExchanges {
 public:
  explicit TensorExchanges(const LocalTransformer& local)
      : is_on_(local.tensor_ranks > 1),
        has_sequence_parallel_(local.has_sequence_parallel),
        regathers_input_(local.regathers_input) {}

  bool is_on() const { return is_on_; }

  // `elements`: of the whole input, or output, over the sequence; the operator's workspace grows by
  // the tensors that only exist around its products.
  void AroundColumn(ColumnPlace place, DType dtype, std::int64_t elements, Operator* op) const;
  void AroundRow(DType dtype, std::int64_t elements, Operator* op) const;

  // Behind the cut token table. Tables that are added to its result (`adds_tables`) want it whole:
  // then its sum is whole, and CutBehind stands behind the last of them.
  void BehindTable(bool adds_tables, DType dtype, std::int64_t elements, Operator* op) const;
  // A whole tensor that every rank has is cut along the sequence: backward gathers its gradient.
  void CutBehind(DType dtype, std::int64_t elements, Operator* op) const;
  // What every rank reads whole and nobody adds up (the pooler).
  void GatherBefore(DType dtype, std::int64_t elements, Operator* op) const;

  // Cross entropy over a cut vocabulary: the maximum, the label's logit and the sum of the
  // exponentials of each token.
  void AroundCutLoss(std::int64_t tokens, Operator* op) const;
  // Logits gathered behind the head, and cut again in backward.
  void GatherLogits(DType dtype, std::int64_t elements, Operator* op) const;

 private:
  void Add(ExchangePlace place, CollectiveOp collective, DType dtype, std::int64_t elements,
           std::string name, Operator* op) const;

  bool is_on_;
  bool has_sequence_parallel_;
  bool regathers_input_;
};

}  // namespace stepsim
