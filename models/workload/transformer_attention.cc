#include "models/workload/transformer_attention.h"

#include <memory>
#include <utility>

namespace stepsim {
namespace {

bool IsNothing(const ComputeWork& work) { return work.bytes.value == 0 && work.kernels == 0; }

// The reference holds until the next operator is added.
Operator& Add(std::string name, const ComputeWork& forward, ModelUnit* unit) {
  Operator op;
  op.name = std::move(name);
  op.forward = forward;
  return unit->operators.emplace_back(std::move(op));
}

std::int32_t Last(const ModelUnit& unit) {
  return static_cast<std::int32_t>(unit.operators.size()) - 1;
}

}  // namespace

AttentionBuilder::AttentionBuilder(const JobSpec& job, TrafficTypes types,
                                   const MemoryPasses& passes, const AttentionShape& shape)
    : types_(types),
      passes_(passes),
      shape_(shape),
      kind_(job.attention),
      positions_(TransformerOf(job)->positions),
      product_(job.precision.compute == DType::kFp8 ? types.activation : job.precision.compute),
      drops_(TransformerOf(job)->dropout > 0),
      split_(SplitContext(job)),
      is_balanced_(job.plan.context.load_balance),
      tokens_(shape.batch * shape.sequence / job.plan.context_parallel) {}

void AttentionBuilder::AddTo(QkvWriters qkv, ModelUnit* unit) const {
  if (positions_ == PositionKind::kRotary) qkv = AddRotary(qkv, unit);
  if (kind_ == AttentionKind::kFlash) {
    AddFused(qkv, unit);
  } else {
    AddUnfused(qkv, unit);
  }
}

QkvWriters AttentionBuilder::AddRotary(QkvWriters qkv, ModelUnit* unit) const {
  const std::int64_t rotated = query() + key();
  Operator& rotary = Add("rotary", Moves(passes_.rotary, rotated), unit);
  rotary.backward_input.push_back(Moves(passes_.rotary_grad, rotated));
  rotary.reads = {Read(qkv.query, query(), 0, false), Read(qkv.key, key(), 1, false)};
  return {Last(*unit), Last(*unit), qkv.value};
}

void AttentionBuilder::AddFused(QkvWriters qkv, ModelUnit* unit) const {
  AttentionShape shape = shape_;
  shape.heads /= split_.heads;
  shape.kv_heads /= split_.heads;
  Operator& attention = Add("attention", AttentionForwardWork(shape, types_.activation), unit);
  attention.backward_input.push_back(AttentionBackwardWork(shape, types_.activation));
  SaveInputs(qkv, &attention);
  attention.backward_workspace = FlashWorkspace();
  if (split_.heads > 1) AddSwaps(&attention);
  if (split_.gathers) AddGathers(&attention);
  if (split_.ring == 1) return;
  const auto steps =
      std::make_shared<AttentionSteps>(split_, is_balanced_, shape, types_.activation);
  attention.forward = steps->Forward();
  attention.backward_input.front() = steps->Backward();
  attention.forward_workspace = steps->forward_workspace();
  attention.backward_workspace += steps->backward_workspace();
  attention.steps = steps;
}

// Sequence for heads, one tensor after the other, and back.
void AttentionBuilder::AddSwaps(Operator* op) const {
  const auto add = [&](ExchangePlace place, std::int64_t elements, const char* name) {
    op->exchanges.push_back({place, ExchangeAxis::kContextHeads, CollectiveOp::kAllToAll,
                             types_.activation, SizeOf(types_.activation, elements), name});
  };
  add(ExchangePlace::kBeforeForward, query(), "all_to_all q");
  add(ExchangePlace::kBeforeForward, key(), "all_to_all k");
  add(ExchangePlace::kBeforeForward, key(), "all_to_all v");
  add(ExchangePlace::kAfterForward, query(), "all_to_all output");
  add(ExchangePlace::kBeforeBackward, query(), "all_to_all output gradient");
  add(ExchangePlace::kAfterInputGradient, query(), "all_to_all q gradient");
  add(ExchangePlace::kAfterInputGradient, key(), "all_to_all k gradient");
  add(ExchangePlace::kAfterInputGradient, key(), "all_to_all v gradient");
}

// Backward gathers keys and values again: forward keeps a rank's own only.
void AttentionBuilder::AddGathers(Operator* op) const {
  const auto add = [&](ExchangePlace place, CollectiveOp collective, const char* name) {
    op->exchanges.push_back({place, ExchangeAxis::kContextRing, collective, types_.activation,
                             SizeOf(types_.activation, key() * split_.ring), name});
  };
  for (const auto place : {ExchangePlace::kBeforeForward, ExchangePlace::kBeforeBackward}) {
    add(place, CollectiveOp::kAllGather, "all_gather k");
    add(place, CollectiveOp::kAllGather, "all_gather v");
  }
  add(ExchangePlace::kAfterInputGradient, CollectiveOp::kReduceScatter,
      "reduce_scatter k gradient");
  add(ExchangePlace::kAfterInputGradient, CollectiveOp::kReduceScatter,
      "reduce_scatter v gradient");
}

// FlashAttention-2's backward adds up the gradient of q in fp32, and those of k and v for every
// query head where several share one.
Bytes AttentionBuilder::FlashWorkspace() const {
  const bool is_grouped = shape_.heads != shape_.kv_heads;
  return SizeOf(DType::kFp32, query()) + SizeOf(types_.activation, is_grouped ? 2 * query() : 0);
}

// Every score is written and read again; blocks above the diagonal are computed and masked.
void AttentionBuilder::AddUnfused(QkvWriters qkv, ModelUnit* unit) const {
  const std::int64_t s = shape_.sequence, d = shape_.head_dim;
  const std::int64_t heads = shape_.batch * shape_.heads;
  const auto product = [&](std::int64_t n, std::int64_t k, Pass pass) {
    return GemmWork(product_, types_.activation, {s, n, k, heads}, pass);
  };
  Operator& score = Add("attention.scores", product(s, d, Pass::kForward), unit);
  score.backward_input = {product(d, s, Pass::kInputGradient),    // of q
                          product(d, s, Pass::kWeightGradient)};  // of k
  SaveInputs(qkv, &score);
  const std::int64_t scores = heads * s * s;
  AddSoftmax(scores, unit);
  const bool drops = unit->operators.back().name == "attention.dropout";
  const std::int32_t probabilities = Last(*unit);
  Operator& context = Add("attention.context", product(d, s, Pass::kForward), unit);
  context.backward_input = {product(s, d, Pass::kInputGradient),    // of the probabilities
                            product(d, s, Pass::kWeightGradient)};  // of v
  const bool is_other = drops || (passes_.softmax.stream > 0 && types_.activation != types_.stream);
  context.reads = {Read(probabilities, scores, 0, is_other)};
  if (is_other) context.saved = context.reads.back().bytes;
}

// The probabilities, and what the product reads where that is another tensor.
void AttentionBuilder::AddSoftmax(std::int64_t scores, ModelUnit* unit) const {
  const std::int32_t product = Last(*unit);
  Operator& softmax = Add("attention.softmax", Moves(passes_.softmax, scores), unit);
  softmax.backward_input.push_back(Moves(passes_.softmax_grad, scores));
  softmax.reads = {Read(product, scores, 0, false)};
  softmax.saved = SizeOf(passes_.softmax.stream > 0 ? types_.stream : types_.activation, scores);
  const ComputeWork work = Moves(passes_.score_dropout, scores);
  if (!drops_ || IsNothing(work)) return;
  Operator& dropout = Add("attention.dropout", work, unit);
  dropout.backward_input.push_back(work);
  dropout.saved = Bytes{scores};  // the mask
  dropout.reads = {Read(product + 1, scores, 0, false)};
}

void AttentionBuilder::SaveInputs(QkvWriters qkv, Operator* op) const {
  op->reads = {Read(qkv.query, query(), 0, true), Read(qkv.key, key(), 1, true),
               Read(qkv.value, key(), 2, true)};
  for (const ReadTensor& tensor : op->reads) op->saved += tensor.bytes;
}

// `part` tells the results of one writer apart: q, k and v of a fused product.
ReadTensor AttentionBuilder::Read(std::int32_t writer, std::int64_t elements, std::int32_t part,
                                  bool saved) const {
  return {writer, SizeOf(types_.activation, elements), saved, saved, part};
}

ComputeWork AttentionBuilder::Moves(const Traffic& traffic, std::int64_t elements) const {
  return TrafficWork(traffic, types_, elements);
}

}  // namespace stepsim
