// How much work is a mixture of experts? Operators of one layer, in forward order:
//
//   moe.router      T x h x E                     moe.fc1         grouped: gate and up in one
//   moe.routing     softmax, top-k                moe.activation  times the router's weights
//   moe.permute     rows in the experts' order    moe.fc2         grouped
//   moe.sort        by expert, where several      moe.unsort      back
//                   ranks have sent some          moe.unpermute   sum of a token's rows
//
// and their exchanges, where the experts are dealt out over several ranks. Sizes, order and
// exchanges: models/README.md, "Mixtures of experts" and "Expert parallel".
#pragma once

#include <cstdint>
#include <string>

#include "models/spec/job.h"
#include "models/workload/kernel_work.h"
#include "models/workload/memory_passes.h"
#include "models/workload/transformer_modules.h"
#include "models/workload/workload.h"

namespace stepsim {

// Rows (a token once for each of its experts) of one layer and micro-step on the busiest rank.
struct ExpertRows {
  std::int64_t sent = 0;        // by this rank
  std::int64_t received = 0;    // by this rank, before expert-tensor peers share theirs
  std::int64_t per_expert = 0;  // rows of each product of a group
};
ExpertRows ExpertRowsOf(const JobSpec& job, std::int64_t tokens);

// REQUIRES: the job's network has experts.
ExpertShare ExpertShareOf(const JobSpec& job);

// The types of a network's tensors (StreamType in transformer.cc).
struct TensorTypes {
  DType compute{}, activation{}, stream{}, parameter{};
};

// Appends to one unit. `tokens` of the layer are on this rank.
class ExpertLayer {
 public:
  ExpertLayer(const JobSpec& job, const TensorTypes& types, const ExpertModules& modules,
              std::int64_t tokens, ModelUnit* unit);

  // `input` is the operator that wrote the tokens.
  void AddRouter(std::int32_t input);
  void AddPermute();
  void AddDispatch();
  void AddExperts();
  void AddCombine();
  // The shared expert's result is that of the operator added last; then both results are summed.
  void EndSharedExpert();
  void AddSharedResult();
  // Behind the last operator.
  void EndTokens();
  // The operators of the shared expert, all that came behind the dispatch: beside the others, from
  // the routing to AddSharedResult. Their gradients are ready when both meet again.
  void MoveToSide();

 private:
  // Are rows sent?
  bool IsSpread() const { return share_.ranks * (gathers_tokens_ ? 1 : share_.tensor) > 1; }
  bool Gathers() const { return IsSpread() && plan_.dispatcher == ExpertDispatcher::kAllGather; }
  std::int64_t AllTokens() const { return tokens_ * share_.ranks * share_.tensor; }
  // PyTorch's (torchtitan's) dispatch: a row's weight stays with the rank that the token is of.
  bool SendsWithoutWeights() const {
    return share_.ranks > 1 && !is_megatron_ && plan_.dispatcher == ExpertDispatcher::kAllToAll;
  }
  bool HasSharedExpert() const { return spec_.experts.shared_ffn_size > 0; }
  std::int64_t TokenElements() const { return tokens_ * spec_.hidden_size; }
  std::int64_t Rows() const { return rows_.per_expert * modules_.local; }  // of the products here
  // A token's weight of one expert: fp32, and so is its gradient.
  static Bytes Weights(std::int64_t rows) { return SizeOf(DType::kFp32, rows); }

  void GatherTokens(std::int32_t input);
  void AddRouting();
  void AddCounts();
  void AddProduct(const std::string& name, std::int32_t weight, const GemmShape& shape,
                  std::int32_t input);
  void AddCast(const std::string& name, std::int32_t weight, std::int64_t elements);
  void AddActivation();
  // Returns who wrote the rows as they are from here on.
  std::int32_t AddSort(const std::string& name, std::int32_t input);
  void AddSharedWeight();

  void AddExchange(ExchangePlace place, ExchangeAxis axis, CollectiveOp op, DType dtype,
                   Bytes bytes, const std::string& what);
  void AddRowExchange(ExchangePlace place, ExchangeAxis axis, CollectiveOp op, std::int64_t rows,
                      bool with_weights);
  void AddRowExchanges(bool is_dispatch);
  void AddCarrier(const std::string& name, LayerPart part);
  void AddTokenExchange(ExchangePlace place, CollectiveOp op, bool with_weights);

  ComputeWork Moves(const Traffic& traffic, std::int64_t elements) const;
  // Of rows of `rows` and what they are read from or added to.
  ComputeWork MovesRows(const Traffic& traffic, std::int64_t rows, std::int64_t tokens) const;
  ReadTensor Read(std::int32_t writer, std::int64_t elements) const;
  ReadTensor Saved(std::int32_t writer, std::int64_t elements) const;
  std::int32_t Last() const;  // that has a kernel
  Operator& AddOperator(std::string name, const ComputeWork& forward);

  const TransformerSpec& spec_;
  const ExpertPlan& plan_;
  const ExpertShare share_;
  TensorTypes types_;
  const MemoryPasses& passes_;
  const ExpertModules& modules_;
  std::int64_t tokens_;
  ExpertRows rows_;
  const bool host_reads_;
  const bool keeps_fp8_;
  const bool is_paired_;  // exchanges are operators of their own
  const bool is_megatron_, gathers_tokens_;
  ModelUnit& unit_;
  std::int32_t input_ = kUnitInput;  // who wrote the tokens, as the router reads them
  bool shares_input_ = false;        // with the shared expert
  std::int32_t routing_ = kUnitInput;
  std::int32_t shared_ = kUnitInput;  // ... the shared expert's
  bool is_beside_ = false;
  std::int32_t routed_ = kUnitInput;      // who wrote the routed result
  std::int32_t dispatched_ = kUnitInput;  // who wrote the experts' rows
};

}  // namespace stepsim
