#include "models/workload/transformer_operators.h"

#include <algorithm>

#include "models/spec/sharding.h"
#include "models/workload/model_flops.h"

namespace stepsim {
namespace {

constexpr std::int32_t kTokenTable = 0;  // registered first
constexpr int kAdd = 3;                  // read both, write the sum

// Of the residual stream: autocast casts the operands of products only, so that sums and norms stay
// in the type of the parameters.
DType StreamType(const JobSpec& job) {
  return ShardingOf(job).gather == DType::kFp32 ? DType::kFp32
                                                : ActivationType(job.precision.compute);
}

}  // namespace

TransformerOperators::TransformerOperators(const JobSpec& job)
    : local_(LocalTransformerOf(job)),
      exchanges_(local_),
      compute_(job.precision.compute),
      activation_(ActivationType(compute_)),
      stream_(StreamType(job)),
      parameter_(ShardingOf(job).gather),
      passes_(PassesOf(job.kernels)),
      loss_passes_(PassesOf(LossKernels(job))) {}

std::vector<std::int32_t> TransformerOperators::AddParallelLinears(
    const std::vector<LinearModule>& linears, int gradients_to_add, LinearInput input) {
  std::vector<std::int32_t> outputs;
  for (std::size_t i = 0; i < linears.size(); ++i) {
    const bool last = i + 1 == linears.size();
    AddLinear(linears[i], LinearCut::kColumn, tokens(), last ? gradients_to_add : 1,
              {.writer = input.writer,
               .reads_stream = true,
               .shares_input = input.shares_input || i > 0,
               .is_whole = input.is_whole,
               .place = {.is_first = i == 0, .is_last = last}});
    outputs.push_back(Last());
  }
  return outputs;
}

void TransformerOperators::AddLinear(const LinearModule& linear, LinearCut cut, std::int64_t rows,
                                     int gradients_to_add, LinearInput input) {
  // The input as it is kept: a gathered one is gathered again.
  const bool is_gathered = cut == LinearCut::kColumn && local_.regathers_input;
  const std::int64_t kept = (is_gathered ? rows / local_.tensor_ranks : rows) * linear.in;
  const bool is_fp8 = workload_.parameters[static_cast<std::size_t>(linear.weight)].is_fp8;
  const bool casts = OperandType() != parameter_ && !is_fp8;
  const bool casts_input =
      input.reads_stream && AddInputCast(linear, kept, gradients_to_add, input.writer);
  if (casts_input) {
    gradients_to_add = 0;
    input.writer = Last();
  }
  if (casts) AddCast(linear);
  Operator& op = AddOperator(linear.name, Product(rows, linear.out, linear.in));
  op.backward_input.push_back(Product(rows, linear.in, linear.out, Pass::kInputGradient));
  // Of a parallel linear: whole; of somebody else who reads the kept input: cut as that is.
  const std::int64_t added = input.place.is_last ? kept : rows * linear.in;
  for (int i = 0; i < gradients_to_add; ++i) {
    op.backward_input.push_back(Moves(passes_.parallel_gradient_add, added));
  }
  op.backward_weight.push_back(Product(linear.out, linear.in, rows, Pass::kWeightGradient));
  if (linear.bias != kNoParameter) {  // sum over the rows
    const ComputeWork sum = Moves(passes_.bias_grad, rows * linear.out + linear.out);
    if (!IsNothing(sum)) op.backward_weight.push_back(sum);
  }
  const bool is_counted = casts_input || !input.shares_input;
  op.reads = {Saved(input.writer, kept)};
  op.reads.back().is_counted = is_counted;
  if (is_counted) op.saved = op.reads.back().bytes;
  if (casts && activation_ != parameter_) {
    op.weight_gradients_made = WeightBytes(linear);
  } else {
    KeepTiedGradient(linear, &op);
  }
  if (!input.is_whole) AddExchanges(linear, cut, rows, input.place, &op);
  if (!casts) SetReady(linear, op);
}

bool TransformerOperators::AddInputCast(const LinearModule& linear, std::int64_t elements,
                                        int gradients_to_add, std::int32_t writer) {
  const ComputeWork cast = Moves(passes_.input_cast, elements);
  if (IsNothing(cast)) return false;
  Operator& op = AddOperator(linear.name + ".input_cast", cast);
  op.reads = {{writer, SizeOf(stream_, elements)}};
  op.backward_input.push_back(Moves(passes_.input_cast_grad, elements));
  for (int i = 0; i < gradients_to_add; ++i) {
    op.backward_input.push_back(Moves(passes_.parallel_gradient_add, elements));
  }
  return true;
}

void TransformerOperators::AddCast(const LinearModule& linear) {
  const std::int64_t weight = linear.in * linear.out;
  const std::int64_t bias = linear.bias == kNoParameter ? 0 : linear.out;
  const std::int32_t kernels = bias > 0 ? 2 : 1;  // one for each tensor
  Operator& op =
      AddOperator(linear.name + ".cast", CastWork(parameter_, OperandType(), weight + bias));
  op.forward.kernels = kernels;
  if (activation_ != parameter_) {
    op.backward_weight.push_back(CastWork(activation_, parameter_, weight + bias));
    op.backward_weight.back().kernels = kernels;
    op.weight_gradients_taken = WeightBytes(linear);
    KeepTiedGradient(linear, &op);
  }
  op.saved = SizeOf(OperandType(), weight + bias);
  SetReady(linear, op);
}

Bytes TransformerOperators::WeightBytes(const LinearModule& linear) const {
  return SizeOf(activation_,
                linear.in * linear.out + (linear.bias == kNoParameter ? 0 : linear.out));
}

void TransformerOperators::KeepTiedGradient(const LinearModule& linear, Operator* op) const {
  if (linear.weight != kTokenTable) return;
  op->weight_gradients_made = SizeOf(parameter_, linear.in * linear.out);
}

void TransformerOperators::SetReady(const LinearModule& linear, Operator& op) const {
  if (linear.bias != kNoParameter) op.parameters_ready.push_back(linear.bias);
  (linear.weight != kTokenTable ? op.parameters_ready : op.also_uses).push_back(linear.weight);
}

void TransformerOperators::AddNorm(std::string name, const NormModule& norm, std::int64_t elements,
                                   int gradients_to_add) {
  const bool is_rms = spec().norm == NormKind::kRmsNorm;
  const MemoryPasses& p = passes_;
  Operator& op = AddOperator(std::move(name), Moves(is_rms ? p.rms_norm : p.layer_norm, elements));
  op.backward_input.push_back(
      Moves(is_rms ? p.rms_norm_input_grad : p.layer_norm_input_grad, elements));
  for (int i = 0; i < gradients_to_add; ++i) {
    op.backward_input.push_back(Moves(p.stream_gradient_add, elements));
  }
  op.backward_weight.push_back(
      Moves(is_rms ? p.rms_norm_weight_grad : p.layer_norm_weight_grad, elements));
  SaveNorm(is_rms ? p.rms_norm_saved : p.layer_norm_saved, elements, &op);
  if (norm.bias != kNoParameter) op.parameters_ready.push_back(norm.bias);
  op.parameters_ready.push_back(norm.weight);
  if (FamilyOf(spec()) == TransformerFamily::kBert) stream_writer_ = Last();  // post-norm
}

std::int32_t TransformerOperators::AddHeadNorm(std::string name, const NormModule& norm,
                                               const ReadTensor& input) {
  const std::int64_t elements = input.bytes.value / ElementSize(activation_).value;
  const TrafficTypes types{activation_, activation_};  // it reads what a product wrote
  Operator& op = AddOperator(std::move(name), TrafficWork(passes_.rms_norm, types, elements));
  op.backward_input = {TrafficWork(passes_.rms_norm_input_grad, types, elements)};
  op.backward_weight = {TrafficWork(passes_.rms_norm_weight_grad, types, elements)};
  op.reads = {input};
  op.saved = std::max(input.bytes, TrafficBytes(passes_.rms_norm_saved, types, elements));
  op.parameters_ready = {norm.weight};
  return Last();
}

void TransformerOperators::SaveNorm(const Traffic& saved, std::int64_t elements, Operator* op) {
  const bool keeps_input = saved.wide == 0 || stream_ == DType::kFp32;
  op->reads = {{stream_writer_, SizeOf(stream_, elements), keeps_input, keeps_input}};
  op->saved = TrafficBytes(saved, types(), elements);
}

void TransformerOperators::AddDropout(std::string name, DType dtype) {
  const std::int64_t elements = stream_elements();
  const ComputeWork work = TrafficWork(passes_.dropout, {dtype, dtype}, elements);
  if (spec().dropout <= 0 || IsNothing(work)) return;
  const std::int32_t writer = Last();
  Operator& op = AddOperator(std::move(name), work);
  op.reads = {{writer, SizeOf(dtype, elements)}};
  op.backward_input.push_back(TrafficWork(passes_.dropout_grad, {dtype, dtype}, elements));
  op.saved = Bytes{passes_.dropout.mask * elements};
}

void TransformerOperators::AddResidual(std::string name) {
  const std::int64_t elements = stream_elements();
  const std::int32_t branch = Last();
  Operator& op = AddOperator(std::move(name), Moves(passes_.residual_add, elements));
  op.reads = {Read(branch, elements), {stream_writer_, SizeOf(stream_, elements)}};
  op.hands_on_gradient = true;
  stream_writer_ = Last();
  // Backward hands the gradient on, at most in another type.
  const ComputeWork grad = Moves(passes_.residual_grad, elements);
  if (!IsNothing(grad)) op.backward_input.push_back(grad);
}

void TransformerOperators::AddTokenEmbedding(const TableModule& table, bool adds_tables) {
  const std::int64_t elements = tokens() * spec().hidden_size;
  const std::int64_t size = table.rows * spec().hidden_size;
  const Bytes ids = SizeOf(DType::kInt64, tokens());
  const Bytes rows = SizeOf(parameter_, elements / local_.tensor_ranks);  // the others are zeros
  const Bytes activations = SizeOf(stream_, elements);  // autocast leaves look-ups alone
  Operator& op = AddOperator("token_embedding", MemoryWork(parameter_, ids + rows + activations));
  op.backward_weight.push_back(ZeroWork(SizeOf(parameter_, size)));
  op.backward_weight.push_back(MemoryWork(parameter_, ids + activations + rows * 2));
  if (HasVocabularyHead(spec()) && spec().tied_embeddings) {
    op.backward_weight.push_back(MemoryWork(parameter_, kAdd, size));
    op.weight_gradients_taken = SizeOf(parameter_, size);
  }
  op.parameters_ready.push_back(table.weight);
  op.saved = ids;
  exchanges_.BehindTable(adds_tables, stream_, elements, &op);
  stream_writer_ = Last();
}

void TransformerOperators::AddTable(std::string name, const TableModule& table,
                                    std::int64_t rows_read) {
  const std::int64_t h = spec().hidden_size;
  const Bytes activations = SizeOf(stream_, tokens() * h);
  const Bytes rows = SizeOf(parameter_, rows_read * h);
  const std::int32_t writer = Last();
  Operator& op = AddOperator(std::move(name), MemoryWork(stream_, activations * 2 + rows));
  op.reads = {{writer, activations}};
  op.hands_on_gradient = true;
  stream_writer_ = Last();
  op.backward_weight.push_back(ZeroWork(SizeOf(parameter_, table.rows * h)));
  op.backward_weight.push_back(MemoryWork(stream_, activations + rows));
  op.parameters_ready.push_back(table.weight);
}

void TransformerOperators::AddLoss(std::int64_t vocabulary) {
  BeginUnit("loss");
  const std::int64_t logits = tokens() * vocabulary;
  Operator& op = AddOperator("cross_entropy", Moves(loss_passes_.loss, logits));
  op.backward_input.push_back(Moves(loss_passes_.loss_grad, logits));
  op.saved = TrafficBytes(loss_passes_.loss_saved, types(), logits);
  op.reads = {Read(kUnitInput, logits)};
  AddLossWorkspace(logits, &op);
}

void TransformerOperators::AddLossWorkspace(std::int64_t logits, Operator* op) const {
  const bool is_written_out = loss_passes_.loss_saved.wide > 0;
  if (!is_written_out) return;
  const Bytes wide = SizeOf(DType::kFp32, logits);
  const Bytes narrow = SizeOf(activation_, logits);
  op->forward_workspace = activation_ == DType::kFp32 ? narrow : narrow + wide;
  op->backward_workspace = wide * 2 - narrow;
}

void TransformerOperators::AddExchanges(const LinearModule& linear, LinearCut cut,
                                        std::int64_t rows, ColumnPlace place, Operator* op) const {
  switch (cut) {
    case LinearCut::kWhole:
      return;
    case LinearCut::kColumn:
      return exchanges_.AroundColumn(place, activation_, rows * linear.in, op);
    case LinearCut::kRow:
      return exchanges_.AroundRow(activation_, rows * linear.out, op);
  }
}

void TransformerOperators::Save(const std::vector<ReadTensor>& tensors, Operator* op) {
  for (const ReadTensor& tensor : tensors) {
    op->reads.push_back(tensor);
    op->saved += tensor.bytes;
  }
}

Operator& TransformerOperators::AddOperator(std::string name, const ComputeWork& forward) {
  Operator op;
  op.name = std::move(name);
  op.forward = forward;
  return workload_.units.back().operators.emplace_back(std::move(op));
}

}  // namespace stepsim
