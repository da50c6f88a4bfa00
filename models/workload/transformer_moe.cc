#include "models/workload/transformer_moe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "models/spec/expert_tokens.h"
#include "models/spec/pipeline_rules.h"
#include "models/spec/sharding.h"
#include "models/workload/kernel_work.h"
#include "sim/base/quantity.h"

namespace stepsim {
namespace {

std::int64_t Scaled(std::int64_t rows, double factor) {
  return std::max<std::int64_t>(
      1, static_cast<std::int64_t>(std::ceil(static_cast<double>(rows) * factor)));
}

}  // namespace

ExpertShare ExpertShareOf(const JobSpec& job) {
  return {job.plan.expert_parallel, job.plan.expert_tensor_parallel(), job.plan.has_expert_mesh()};
}

// Dropped tokens leave a rank with fewer rows; padding fills every expert up to its capacity. Where
// all tensor-parallel ranks have the same tokens, each sends its part of the rows to whole experts,
// or all of them to its part of every expert.
ExpertRows ExpertRowsOf(const JobSpec& job, std::int64_t tokens) {
  const ExpertsSpec& experts = TransformerOf(job)->experts;
  const ExpertPlan& plan = job.plan.expert;
  const ExpertShare share = ExpertShareOf(job);
  const bool gathers = GathersTokens(job);
  const bool shares_rows = gathers && share.tensor == 1;
  const std::int64_t even =
      CeilDiv(tokens * experts.top_k, shares_rows ? job.plan.tensor_parallel : 1);
  const double capacity = plan.capacity_factor.value_or(std::numeric_limits<double>::infinity());
  ExpertRows rows;
  if (plan.pad_to_capacity) {
    rows.sent = experts.count * Scaled(CeilDiv(even, experts.count), capacity);
    rows.received = rows.sent;
  } else {
    const double busiest = share.ranks > 1 ? plan.imbalance : 1.0;
    rows.sent = Scaled(even, std::min(1.0, capacity));
    rows.received = Scaled(even, std::min(busiest, capacity));
  }
  const std::int64_t peers = gathers ? 1 : share.tensor;  // whose rows come together
  rows.per_expert = CeilDiv(rows.received * peers, experts.count / share.ranks);
  return rows;
}

ExpertLayer::ExpertLayer(const JobSpec& job, const TensorTypes& types, const ExpertModules& modules,
                         std::int64_t tokens, ModelUnit* unit)
    : spec_(*TransformerOf(job)),
      plan_(job.plan.expert),
      share_(ExpertShareOf(job)),
      types_(types),
      passes_(PassesOf(job.kernels)),
      modules_(modules),
      tokens_(tokens),
      rows_(ExpertRowsOf(job, tokens)),
      host_reads_(HostReadsExpertCounts(job)),
      keeps_fp8_(KeepsFp8Weights(job)),
      is_paired_(PairsMicrobatches(job)),
      is_megatron_(Uses(job, "megatron")),
      gathers_tokens_(GathersTokens(job)),
      unit_(*unit) {}

// Where the tokens branch off, backward adds up what comes back. Autocast: one copy of them in the
// products' type serves router and experts.
void ExpertLayer::AddRouter(std::int32_t input) {
  const ComputeWork gradient_add = Moves(passes_.parallel_gradient_add, TokenElements());
  const ComputeWork cast = Moves(passes_.input_cast, TokenElements());
  input_ = input;
  shares_input_ = HasSharedExpert();
  if (cast.bytes.value > 0) {
    Operator& op = AddOperator("moe.input_cast", cast);
    op.reads = {{input, SizeOf(types_.stream, TokenElements())}};
    op.backward_input = {Moves(passes_.input_cast_grad, TokenElements())};
    if (std::exchange(shares_input_, false)) op.backward_input.push_back(gradient_add);
    input_ = Last();
  }
  const LinearModule& router = modules_.router;
  AddProduct(router.name, router.weight, {tokens_, router.out, router.in}, input_);
  unit_.operators.back().backward_input.push_back(gradient_add);
  if (gathers_tokens_) GatherTokens(input);
}

// DTensor: whole on every tensor-parallel rank from here to EndTokens. Their gradient is complete
// with the router's backward.
void ExpertLayer::GatherTokens(std::int32_t input) {
  const Bytes bytes = SizeOf(types_.activation, TokenElements());
  unit_.operators[static_cast<std::size_t>(input)].exchanges.push_back(
      {ExchangePlace::kAfterForward, ExchangeAxis::kTensor, CollectiveOp::kAllGather,
       types_.activation, bytes, "all_gather tokens"});
  AddExchange(ExchangePlace::kAfterInputGradient, ExchangeAxis::kTensor,
              CollectiveOp::kReduceScatter, types_.activation, bytes, "token gradients");
}

void ExpertLayer::EndTokens() {
  if (!gathers_tokens_) return;
  const Bytes bytes = SizeOf(types_.activation, TokenElements());
  AddExchange(ExchangePlace::kAfterForward, ExchangeAxis::kTensor, CollectiveOp::kReduceScatter,
              types_.activation, bytes, "tokens");
  AddExchange(ExchangePlace::kBeforeBackward, ExchangeAxis::kTensor, CollectiveOp::kAllGather,
              types_.activation, bytes, "token gradients");
  unit_.operators.back().forward_workspace += bytes;
  unit_.operators.back().backward_workspace += bytes;
}

// The chosen experts and their weights; how many tokens each expert gets is told to all.
void ExpertLayer::AddRouting() {
  const std::int64_t scores = tokens_ * spec_.experts.count;
  const std::int32_t router = Last();
  Operator& op = AddOperator("moe.routing", Moves(passes_.routing, scores));
  op.backward_input = {Moves(passes_.routing_grad, scores)};
  op.reads = {Read(router, scores)};
  op.saved = SizeOf(DType::kFp32, scores) + Bytes{scores};  // probabilities and the map
  if (SendsWithoutWeights()) return;
  op.host_reads = host_reads_;
  const bool is_known = plan_.dispatcher == ExpertDispatcher::kAllGather || plan_.pad_to_capacity;
  if (!IsSpread() || is_known) return;
  AddExchange(ExchangePlace::kAfterForward, ExchangeAxis::kExperts, CollectiveOp::kAllGather,
              DType::kInt64,
              SizeOf(DType::kInt64, spec_.experts.count * share_.ranks * share_.tensor), "counts");
}

void ExpertLayer::AddPermute() {
  AddRouting();
  const std::int32_t routing = routing_ = Last();
  if (Gathers()) {
    AddTokenExchange(ExchangePlace::kAfterForward, CollectiveOp::kAllGather, true);
    AddTokenExchange(ExchangePlace::kBeforeBackward, CollectiveOp::kReduceScatter, true);
  }
  const std::int64_t rows = Gathers() ? Rows() : rows_.sent;
  const std::int64_t tokens = Gathers() ? AllTokens() : tokens_;
  Operator& op = AddOperator("moe.permute", MovesRows(passes_.permute, rows, tokens));
  op.backward_input = {MovesRows(passes_.permute_grad, rows, tokens)};
  if (shares_input_) {
    op.backward_input.push_back(Moves(passes_.parallel_gradient_add, TokenElements()));
  }
  op.reads = {Read(input_, TokenElements()), {routing, Weights(rows)}};
  op.saved = SizeOf(DType::kInt64, rows);  // where each row comes from
  dispatched_ = Last();
}

void ExpertLayer::AddDispatch() {
  if (!IsSpread() || Gathers()) return;
  if (SendsWithoutWeights()) AddCounts();
  AddRowExchanges(/*is_dispatch=*/true);
  dispatched_ = AddSort("moe.sort", dispatched_);
}

// torchtitan's dispatch: every rank tells how many rows it has for each expert of each other, both
// directions are summed up, and the host reads them.
void ExpertLayer::AddCounts() {
  const Bytes counts = SizeOf(DType::kInt64, spec_.experts.count);
  ComputeWork sums = CopyWork(counts * 2, counts * 2);
  sums.kernels = 2;
  Operator& op = AddOperator("moe.dispatch", sums);
  op.reads = {Read(dispatched_, rows_.sent * spec_.hidden_size)};
  dispatched_ = Last();
  if (plan_.pad_to_capacity) return;
  AddExchange(ExchangePlace::kAfterForward, ExchangeAxis::kExpert, CollectiveOp::kAllToAll,
              DType::kInt64, counts, "counts");
  unit_.operators.back().exchanges.back().host_reads = host_reads_;
}

void ExpertLayer::AddExperts() {
  const std::int64_t h = spec_.hidden_size, f = modules_.ffn, m = rows_.per_expert;
  AddProduct("moe.fc1", modules_.up, {m, spec_.gated_mlp ? 2 * f : f, h, modules_.local},
             dispatched_);
  AddActivation();
  AddProduct("moe.fc2", modules_.down, {m, h, f, modules_.local}, Last());
}

// The rows of a token are summed. Backward of what came last comes first.
void ExpertLayer::AddCombine() {
  if (IsSpread() && !Gathers()) {
    AddSort("moe.unsort", Last());
    AddRowExchanges(/*is_dispatch=*/false);
  }
  const std::int64_t rows = Gathers() ? Rows() : rows_.sent;
  const std::int64_t tokens = Gathers() ? AllTokens() : tokens_;
  const std::int32_t experts = Last();
  Operator& op = AddOperator("moe.unpermute", MovesRows(passes_.unpermute, rows, tokens));
  op.backward_input = {MovesRows(passes_.unpermute_grad, rows, tokens)};
  op.reads = {Read(experts, rows * spec_.hidden_size)};
  routed_ = Last();
  if (!Gathers()) return;
  AddTokenExchange(ExchangePlace::kAfterForward, CollectiveOp::kReduceScatter, false);
  AddTokenExchange(ExchangePlace::kBeforeBackward, CollectiveOp::kAllGather, false);
}

void ExpertLayer::AddSharedResult() {
  Operator& op = AddOperator("moe.add", Moves(passes_.shared_sum, TokenElements()));
  op.reads = {Read(routed_, TokenElements()), Read(shared_, TokenElements())};
  op.hands_on_gradient = true;
  if (is_beside_) op.side = SideStream::kJoins;
}

void ExpertLayer::EndSharedExpert() {
  if (modules_.shared_gate != kNoParameter) AddSharedWeight();
  shared_ = Last();
}

void ExpertLayer::MoveToSide() {
  is_beside_ = true;
  Operator& opens = unit_.operators[static_cast<std::size_t>(routing_)];
  opens.side = SideStream::kOpens;
  for (auto i = static_cast<std::int32_t>(unit_.operators.size()); --i > dispatched_;) {
    Operator& op = unit_.operators[static_cast<std::size_t>(i)];
    op.side = SideStream::kRuns;
    opens.parameters_ready.insert(opens.parameters_ready.end(), op.parameters_ready.begin(),
                                  op.parameters_ready.end());
    op.parameters_ready.clear();
  }
}

// sigmoid(x w) times the result: bound by memory.
void ExpertLayer::AddSharedWeight() {
  constexpr int kForward = 3;   // read x, the result; write the product
  constexpr int kBackward = 6;  // gradient and result read, gradient written; x's gradient added to
  const std::int32_t shared = Last();
  Operator& op =
      AddOperator("shared.weigh", MemoryWork(types_.activation, kForward, TokenElements()));
  op.backward_input = {MemoryWork(types_.activation, kBackward, TokenElements())};
  op.backward_weight = {MemoryWork(types_.activation, 1, TokenElements())};
  op.reads = {Saved(shared, TokenElements()), Read(input_, TokenElements())};
  op.saved = op.reads.front().bytes;
  op.parameters_ready = {modules_.shared_gate};
}

// `shape` as forward has it: rows, out, in, and how many of them.
void ExpertLayer::AddProduct(const std::string& name, std::int32_t weight, const GemmShape& shape,
                             std::int32_t input) {
  const auto& [rows, out, in, groups] = shape;
  const DType operands = types_.compute == DType::kFp8 ? types_.compute : types_.activation;
  const bool is_fp8 = keeps_fp8_ && weight != modules_.router.weight;
  const bool casts = operands != types_.parameter && !is_fp8;
  const std::int64_t elements = out * in * groups;
  if (casts) AddCast(name, weight, elements);
  const auto product = [&](const GemmShape& s, Pass pass) {
    return GemmWork(types_.compute, types_.activation, s, pass);
  };
  Operator& op = AddOperator(name, product(shape, Pass::kForward));
  op.backward_input = {product({rows, in, out, groups}, Pass::kInputGradient)};
  op.backward_weight = {product({out, in, rows, groups}, Pass::kWeightGradient)};
  op.reads = {Saved(input, rows * in * groups)};
  op.saved = op.reads.front().bytes;
  if (casts && types_.activation != types_.parameter) {
    op.weight_gradients_made = SizeOf(types_.activation, elements);
  }
  if (!casts) op.parameters_ready = {weight};
}

void ExpertLayer::AddCast(const std::string& name, std::int32_t weight, std::int64_t elements) {
  const DType operands = types_.compute == DType::kFp8 ? types_.compute : types_.activation;
  Operator& op = AddOperator(name + ".cast", CastWork(types_.parameter, operands, elements));
  if (types_.activation != types_.parameter) {
    op.backward_weight = {CastWork(types_.activation, types_.parameter, elements)};
    op.weight_gradients_taken = SizeOf(types_.activation, elements);
  }
  op.saved = SizeOf(operands, elements);
  op.parameters_ready = {weight};
}

// Each row times the weight that came with it.
void ExpertLayer::AddActivation() {
  const std::int64_t width = Rows() * modules_.ffn;
  const bool gated = spec_.gated_mlp;
  const std::int32_t input = Last();
  ComputeWork forward = Moves(gated ? passes_.gated_activation : passes_.activation, width);
  ComputeWork grad = Moves(gated ? passes_.gated_activation_grad : passes_.activation_grad, width);
  const auto add = [](const ComputeWork& more, ComputeWork* work) {
    work->bytes += more.bytes;
    work->kernels += more.kernels;
  };
  add(Moves(passes_.weighing, width), &forward);
  add(Moves(passes_.weighing_grad, width), &grad);
  Operator& op = AddOperator("moe.activation", forward);
  op.backward_input = {grad};
  op.reads = {Saved(input, gated ? 2 * width : width)};
  const TrafficTypes types{types_.activation, types_.stream};
  op.saved =
      gated ? TrafficBytes(passes_.gated_activation_saved, types, width) : op.reads.front().bytes;
  op.saved += TrafficBytes(passes_.weighing_saved, types, width) + Weights(Rows());
}

// Rows of one expert come from several ranks, those of one rank belong to several experts.
std::int32_t ExpertLayer::AddSort(const std::string& name, std::int32_t input) {
  if (modules_.local == 1) return input;
  const std::int64_t elements = Rows() * spec_.hidden_size;
  Operator& op = AddOperator(name, Moves(passes_.sort, elements));
  op.backward_input = {op.forward};
  op.reads = {Read(input, elements)};
  return Last();
}

// ---- Exchanges of the operator added last ----

void ExpertLayer::AddExchange(ExchangePlace place, ExchangeAxis axis, CollectiveOp op, DType dtype,
                              Bytes bytes, const std::string& what) {
  unit_.operators.back().exchanges.push_back(
      {place, axis, op, dtype, bytes, fmt::format("{} {}", ToString(op), what)});
}

// Of rows as the experts get them, and where weights travel with them, of those.
void ExpertLayer::AddRowExchange(ExchangePlace place, ExchangeAxis axis, CollectiveOp op,
                                 std::int64_t rows, bool with_weights) {
  const bool is_backward = place == ExchangePlace::kBeforeBackward;
  AddExchange(place, axis, op, types_.activation,
              SizeOf(types_.activation, rows * spec_.hidden_size),
              is_backward ? "token gradients" : "tokens");
  if (!with_weights) return;
  AddExchange(place, axis, op, DType::kFp32, Weights(rows),
              is_backward ? "probability gradients" : "probabilities");
}

// all_to_all among the ranks that share the experts out, then among those that share each expert;
// on the way back in the other order. The busiest rank receives more than it sends.
void ExpertLayer::AddRowExchanges(bool is_dispatch) {
  const ExchangePlace there =
      is_dispatch ? ExchangePlace::kAfterForward : ExchangePlace::kBeforeBackward;
  const ExchangePlace back =
      is_dispatch ? ExchangePlace::kBeforeBackward : ExchangePlace::kAfterForward;
  const auto between_ranks = [&](ExchangePlace place) {
    if (share_.ranks == 1) return;
    AddRowExchange(place, ExchangeAxis::kExpert, CollectiveOp::kAllToAll,
                   std::max(rows_.sent, rows_.received), is_dispatch && !SendsWithoutWeights());
  };
  const auto within_expert = [&](ExchangePlace place, CollectiveOp op) {
    if (share_.tensor == 1 || gathers_tokens_) return;
    AddRowExchange(place, ExchangeAxis::kExpertTensor, op, rows_.received * share_.tensor,
                   is_dispatch && !SendsWithoutWeights());
  };
  if (!is_paired_) {
    between_ranks(there);
    within_expert(there, CollectiveOp::kAllGather);
    within_expert(back, CollectiveOp::kReduceScatter);
    between_ranks(back);
    return;
  }
  // The all_to_alls alone run beside the other micro-batch.
  const auto add_inner = [&] {
    if (share_.tensor == 1) return;
    AddCarrier(is_dispatch ? "moe.gather" : "moe.scatter", LayerPart::kMlp);
    within_expert(there, CollectiveOp::kAllGather);
    within_expert(back, CollectiveOp::kReduceScatter);
  };
  if (!is_dispatch) add_inner();
  AddCarrier(is_dispatch ? "moe.dispatch" : "moe.combine",
             is_dispatch ? LayerPart::kDispatch : LayerPart::kCombine);
  between_ranks(there);
  between_ranks(back);
  if (is_dispatch) add_inner();
}

void ExpertLayer::AddCarrier(const std::string& name, LayerPart part) {
  Operator& op = AddOperator(name, {});
  op.is_exchange = true;
  op.part = part;
}

// Every rank sees the tokens of all, with their probabilities for all experts.
void ExpertLayer::AddTokenExchange(ExchangePlace place, CollectiveOp op, bool with_weights) {
  const bool is_backward = place == ExchangePlace::kBeforeBackward;
  const std::int64_t tokens = AllTokens();
  AddExchange(place, ExchangeAxis::kExperts, op, types_.activation,
              SizeOf(types_.activation, tokens * spec_.hidden_size),
              is_backward ? "token gradients" : "tokens");
  if (!with_weights) return;
  AddExchange(place, ExchangeAxis::kExperts, op, DType::kFp32,
              Weights(tokens * spec_.experts.count),
              is_backward ? "probability gradients" : "probabilities");
}

// ---- Works and tensors ----

ComputeWork ExpertLayer::Moves(const Traffic& traffic, std::int64_t elements) const {
  return TrafficWork(traffic, {types_.activation, types_.stream}, elements);
}

ComputeWork ExpertLayer::MovesRows(const Traffic& traffic, std::int64_t rows,
                                   std::int64_t tokens) const {
  ComputeWork work = Moves(traffic, rows * spec_.hidden_size);
  work.bytes += Moves(passes_.token_sum, tokens * spec_.hidden_size).bytes;
  return work;
}

ReadTensor ExpertLayer::Read(std::int32_t writer, std::int64_t elements) const {
  return {writer, SizeOf(types_.activation, elements)};
}

ReadTensor ExpertLayer::Saved(std::int32_t writer, std::int64_t elements) const {
  return {writer, SizeOf(types_.activation, elements), /*is_saved=*/true, /*is_counted=*/true};
}

std::int32_t ExpertLayer::Last() const {
  auto last = static_cast<std::int32_t>(unit_.operators.size()) - 1;
  while (last >= 0 && unit_.operators[static_cast<std::size_t>(last)].is_exchange) --last;
  return last;
}

// The reference holds until the next operator is added.
Operator& ExpertLayer::AddOperator(std::string name, const ComputeWork& forward) {
  Operator op;
  op.name = std::move(name);
  op.forward = forward;
  return unit_.operators.emplace_back(std::move(op));
}

}  // namespace stepsim
