// How does one operator of a transformer come into being? The building blocks that units are put
// together from: linears, norms, dropouts, residuals, tables, each with its kernels, what it keeps
// for backward, and the collectives that tensor parallelism puts around it.
//
//   class Builder : private TransformerOperators { ... BeginUnit("head"); AddLinear(...); };
//
// Sizes are those of one rank (local_transformer.h): products and attention see all tokens of its
// part of the context, the stream (norms, dropouts, residuals) only what sequence parallelism
// leaves.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "models/workload/kernel_work.h"
#include "models/workload/local_transformer.h"
#include "models/workload/memory_passes.h"
#include "models/workload/tensor_exchanges.h"
#include "models/workload/transformer_modules.h"
#include "models/workload/workload.h"

namespace stepsim {

// Which part of a linear's matrix do tensor-parallel ranks hold?
enum class LinearCut {
  kWhole,   // all of it, on the stream's tokens
  kColumn,  // outputs: the input is gathered or whole
  kRow,     // inputs: the output is summed
};

struct LinearInput {
  std::int32_t writer = kUnitInput;  // who wrote it
  bool reads_stream = false;         // a norm's output: under autocast in another type
  bool shares_input = false;         // with the linear before it, which keeps it for backward
  bool is_whole = false;             // all tokens are here: nothing is exchanged around the linear
  ColumnPlace place{};               // among those that read the same input
};

class TransformerOperators {
 protected:
  explicit TransformerOperators(const JobSpec& job);

  const TransformerSpec& spec() const { return local_.spec; }
  std::int64_t tokens() const { return local_.tokens; }
  std::int64_t stream_elements() const { return local_.stream_tokens * local_.spec.hidden_size; }

  // Linears that read the same input (q, k, v; gate, up): their input gradients are added up as
  // backward meets them, last one first. The input is saved once, with the first.
  // Returns who wrote each output.
  std::vector<std::int32_t> AddParallelLinears(const std::vector<LinearModule>& linears,
                                               int gradients_to_add, LinearInput input);
  // `gradients_to_add`: of others that read the same input.
  void AddLinear(const LinearModule& linear, LinearCut cut, std::int64_t rows, int gradients_to_add,
                 LinearInput input);
  // `elements`: the stream's, unless its tokens are not cut yet.
  void AddNorm(std::string name, const NormModule& norm, std::int64_t elements,
               int gradients_to_add);
  // An RMS norm of every head of queries or keys. Returns who wrote the result.
  std::int32_t AddHeadNorm(std::string name, const NormModule& norm, const ReadTensor& input);
  void AddDropout(std::string name, DType dtype);
  void AddResidual(std::string name);
  // Rows are gathered from the stored table. The dense gradient of the whole table is cleared, then
  // every token's row is added to it; a tied head's gradient is added last.
  void AddTokenEmbedding(const TableModule& table, bool adds_tables);
  // Adds a small table's rows to the embeddings; `rows_read` of them come from HBM, the rest (a
  // handful of segment rows) from cache.
  void AddTable(std::string name, const TableModule& table, std::int64_t rows_read);
  // Cross entropy in a unit of its own. It works in fp32; the passes say whether the wide logits
  // touch memory.
  void AddLoss(std::int64_t vocabulary);

  void BeginUnit(std::string name) {
    workload_.units.push_back({std::move(name), {}, StreamBytes()});
    stream_writer_ = kUnitInput;
  }
  // The operator added last to the unit; kUnitInput when there is none.
  std::int32_t Last() const {
    return static_cast<std::int32_t>(workload_.units.back().operators.size()) - 1;
  }
  // The reference holds until the next operator is added.
  Operator& AddOperator(std::string name, const ComputeWork& forward);
  Operator& LastOperator() { return workload_.units.back().operators.back(); }

  TrafficTypes types() const { return {activation_, stream_}; }
  ComputeWork Moves(const Traffic& traffic, std::int64_t elements) const {
    return TrafficWork(traffic, types(), elements);
  }
  static bool IsNothing(const ComputeWork& work) {
    return work.bytes.value == 0 && work.kernels == 0;
  }
  ComputeWork Product(std::int64_t m, std::int64_t n, std::int64_t k,
                      Pass pass = Pass::kForward) const {
    return GemmWork(compute_, activation_, {m, n, k}, pass);
  }
  // As the operands of a linear lie in memory.
  DType OperandType() const { return compute_ == DType::kFp8 ? compute_ : activation_; }
  Bytes StreamBytes() const { return SizeOf(stream_, stream_elements()); }

  ReadTensor Read(std::int32_t writer, std::int64_t elements, std::int32_t part = 0) const {
    return {writer, SizeOf(activation_, elements), false, false, part};
  }
  // `part` tells the results of one writer apart: q, k and v of a fused product.
  ReadTensor Saved(std::int32_t writer, std::int64_t elements, std::int32_t part = 0) const {
    return {writer, SizeOf(activation_, elements), /*is_saved=*/true, /*is_counted=*/true, part};
  }
  static void Save(const std::vector<ReadTensor>& tensors, Operator* op);

  const LocalTransformer local_;
  const TensorExchanges exchanges_;
  DType compute_;           // of the linears' matrix products
  const DType activation_;  // of what they read and write
  const DType stream_;      // of the residual stream and the norms
  const DType parameter_;
  const MemoryPasses& passes_;
  const MemoryPasses& loss_passes_;
  std::int32_t stream_writer_ = kUnitInput;  // who wrote the residual stream as it is now
  Workload workload_;

 private:
  // Autocast keeps no copy of an activation: each linear casts it anew, and its gradient back,
  // where it is added to that of the others. false: nothing to cast.
  bool AddInputCast(const LinearModule& linear, std::int64_t elements, int gradients_to_add,
                    std::int32_t writer);
  // Autocast: the copies live until backward has used them.
  void AddCast(const LinearModule& linear);
  void AddExchanges(const LinearModule& linear, LinearCut cut, std::int64_t rows, ColumnPlace place,
                    Operator* op) const;
  Bytes WeightBytes(const LinearModule& linear) const;
  void KeepTiedGradient(const LinearModule& linear, Operator* op) const;
  void SetReady(const LinearModule& linear, Operator& op) const;
  void SaveNorm(const Traffic& saved, std::int64_t elements, Operator* op);
  void AddLossWorkspace(std::int64_t logits, Operator* op) const;
};

}  // namespace stepsim
