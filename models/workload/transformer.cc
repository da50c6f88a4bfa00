#include "models/workload/transformer.h"

#include <fmt/format.h>

#include <utility>

#include "models/spec/sharding.h"
#include "models/workload/kernel_work.h"
#include "models/workload/memory_passes.h"
#include "models/workload/model_flops.h"
#include "models/workload/transformer_attention.h"
#include "models/workload/transformer_modules.h"

namespace stepsim {
namespace {

// Of the residual stream: autocast casts the operands of products only, so that sums and norms stay
// in the type of the parameters.
DType StreamType(const JobSpec& job) {
  return ShardingOf(job).gather == DType::kFp32 ? DType::kFp32
                                                : ActivationType(job.precision.compute);
}

struct LinearInput {
  std::int32_t writer = kUnitInput;  // who wrote it
  bool reads_stream = false;         // a norm's output: under autocast in another type
  bool shares_input = false;         // with the linear before it, which keeps it for backward
};
constexpr LinearInput kReadsStream{.reads_stream = true};

class TransformerBuilder {
 public:
  explicit TransformerBuilder(const JobSpec& job)
      : spec_(std::get<TransformerSpec>(job.model.network)),
        compute_(job.precision.compute),
        activation_(ActivationType(compute_)),
        stream_(StreamType(job)),
        parameter_(ShardingOf(job).gather),
        passes_(PassesOf(job.kernels)),
        loss_passes_(PassesOf(LossKernels(job))),
        batch_(job.batch.micro_batch_size),
        sequence_(job.batch.sequence_length),
        tokens_(batch_ * sequence_),
        attention_(job, types(), passes_,
                   {batch_, sequence_, spec_.heads, spec_.kv_heads, spec_.head_dim, spec_.causal}) {
  }

  Workload Build() {
    const TransformerModules modules = RegisterModules(spec_, parameter_, workload_.parameters);
    AddEmbedding(modules);
    for (std::size_t i = 0; i < modules.layers.size(); ++i) AddLayer(i, modules.layers[i]);
    AddHeads(modules);
    for (ModelUnit& unit : workload_.units) unit.output = StreamBytes();
    workload_.samples = static_cast<double>(batch_);
    workload_.tokens = static_cast<double>(tokens_);
    return std::move(workload_);
  }

 private:
  void AddEmbedding(const TransformerModules& modules) {
    BeginUnit("embedding");
    AddTokenEmbedding(modules.tokens);
    // Ids are shared by the batch: the table's rows are read once and added to every sample.
    if (modules.positions) AddTable("position_embedding", *modules.positions, sequence_);
    if (modules.token_types) AddTable("token_type_embedding", *modules.token_types, 0);
    if (modules.embedding_norm) AddNorm("norm", *modules.embedding_norm, 0);
    AddDropout("dropout", stream_);
  }

  void AddLayer(std::size_t index, const LayerModules& layer) {
    BeginUnit(fmt::format("layers.{}", index));
    const bool post_norm = FamilyOf(spec_) == TransformerFamily::kBert;
    // Where the residual branches off, two gradients meet: at the norm, or (post-norm) at the
    // linears behind it.
    if (!post_norm) AddNorm("norm1", layer.norm1, 1);
    AddAttention(layer, post_norm ? 1 : 0);
    AddDropout("dropout1", activation_);
    AddResidual("residual1");
    AddNorm(post_norm ? "norm1" : "norm2", post_norm ? layer.norm1 : layer.norm2,
            post_norm ? 0 : 1);
    AddMlp(layer, post_norm ? 1 : 0);
    AddDropout("dropout2", activation_);
    AddResidual("residual2");
    if (post_norm) AddNorm("norm2", layer.norm2, 0);
  }

  void AddAttention(const LayerModules& layer, int gradients_to_add) {
    const std::vector<std::int32_t> qkv = AddParallelLinears(layer.qkv, gradients_to_add);
    attention_.AddTo({qkv.front(), qkv[qkv.size() / 2], qkv.back()}, &workload_.units.back());
    AddLinear(layer.proj, tokens_, 0, {.writer = Last()});
  }

  void AddMlp(const LayerModules& layer, int gradients_to_add) {
    const std::vector<std::int32_t> up = AddParallelLinears(layer.up, gradients_to_add);
    const std::int64_t width = tokens_ * spec_.ffn_size;
    const bool gated = spec_.gated_mlp;
    Operator& activation = AddOperator(
        "activation", Moves(gated ? passes_.gated_activation : passes_.activation, width));
    activation.backward_input.push_back(
        Moves(gated ? passes_.gated_activation_grad : passes_.activation_grad, width));
    for (const std::int32_t writer : up) Save({Saved(writer, width)}, &activation);
    if (gated) activation.saved = TrafficBytes(passes_.gated_activation_saved, types(), width);
    AddLinear(layer.down, tokens_, 0, {.writer = Last()});
  }

  void AddHeads(const TransformerModules& modules) {
    if (modules.final_norm) {
      BeginUnit("final_norm");
      AddNorm("norm", *modules.final_norm, 0);
    }
    if (modules.pooler || modules.next_sentence) {
      BeginUnit("pooler");  // first token of each sample
      if (modules.pooler) AddLinear(*modules.pooler, batch_, 0, kReadsStream);
      // The gradient of a slice is a whole tensor of zeros around it.
      workload_.units.back().operators.front().reads = {{kUnitInput, StreamBytes()}};
      if (modules.next_sentence) AddLinear(*modules.next_sentence, batch_, 0, {});
    }
    if (modules.mlm_transform) {
      BeginUnit("mlm_transform");
      AddLinear(*modules.mlm_transform, tokens_, 0, kReadsStream);
      AddActivation();
      AddNorm("norm", *modules.mlm_norm, 0);
    }
    if (!modules.head) return;
    BeginUnit("head");
    AddLinear(*modules.head, tokens_, 0, kReadsStream);
    AddLoss(modules.head->out);
  }

  void AddActivation() {
    const std::int64_t elements = tokens_ * spec_.hidden_size;
    Operator& op = AddOperator("activation", Moves(passes_.activation, elements));
    op.backward_input.push_back(Moves(passes_.activation_grad, elements));
    op.saved = SizeOf(activation_, elements);
  }

  // Linears that read the same input (q, k, v; gate, up): their input gradients are added up as
  // backward meets them, last one first. The input is saved once, with the first.
  // Returns who wrote each output.
  std::vector<std::int32_t> AddParallelLinears(const std::vector<LinearModule>& linears,
                                               int gradients_to_add) {
    const std::int32_t input = Last();
    std::vector<std::int32_t> outputs;
    for (std::size_t i = 0; i < linears.size(); ++i) {
      const bool last = i + 1 == linears.size();
      AddLinear(linears[i], tokens_, last ? gradients_to_add : 1,
                {.writer = input, .reads_stream = true, .shares_input = i > 0});
      outputs.push_back(Last());
    }
    return outputs;
  }

  void AddLinear(const LinearModule& linear, std::int64_t rows, int gradients_to_add,
                 LinearInput input) {
    const bool casts = OperandType() != parameter_;
    const bool casts_input =
        input.reads_stream && AddInputCast(linear, rows, gradients_to_add, input.writer);
    if (casts_input) {
      gradients_to_add = 0;
      input.writer = Last();
    }
    if (casts) AddCast(linear);
    Operator& op = AddOperator(linear.name, Product(rows, linear.out, linear.in));
    op.backward_input.push_back(Product(rows, linear.in, linear.out, Pass::kInputGradient));
    for (int i = 0; i < gradients_to_add; ++i) {
      op.backward_input.push_back(Moves(passes_.parallel_gradient_add, rows * linear.in));
    }
    op.backward_weight.push_back(Product(linear.out, linear.in, rows, Pass::kWeightGradient));
    if (linear.bias != kNoParameter) {  // sum over the rows
      const ComputeWork sum = Moves(passes_.bias_grad, rows * linear.out + linear.out);
      if (!IsNothing(sum)) op.backward_weight.push_back(sum);
    }
    const bool is_counted = casts_input || !input.shares_input;
    op.reads = {Saved(input.writer, rows * linear.in)};
    op.reads.back().is_counted = is_counted;
    if (is_counted) op.saved = op.reads.back().bytes;
    if (casts && activation_ != parameter_) {
      op.weight_gradients_made = WeightBytes(linear);
    } else {
      KeepTiedGradient(linear, &op);
    }
    if (!casts) SetReady(linear, op);
  }

  // Autocast keeps no copy of an activation: each linear casts it anew, and its gradient back,
  // where it is added to that of the others. false: nothing to cast.
  bool AddInputCast(const LinearModule& linear, std::int64_t rows, int gradients_to_add,
                    std::int32_t writer) {
    const ComputeWork cast = Moves(passes_.input_cast, rows * linear.in);
    if (IsNothing(cast)) return false;
    Operator& op = AddOperator(linear.name + ".input_cast", cast);
    op.reads = {{writer, SizeOf(stream_, rows * linear.in)}};
    op.backward_input.push_back(Moves(passes_.input_cast_grad, rows * linear.in));
    for (int i = 0; i < gradients_to_add; ++i) {
      op.backward_input.push_back(Moves(passes_.parallel_gradient_add, rows * linear.in));
    }
    return true;
  }

  // Autocast: the copies live until backward has used them.
  void AddCast(const LinearModule& linear) {
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

  // Of a linear's gradients as its products write them.
  Bytes WeightBytes(const LinearModule& linear) const {
    return SizeOf(activation_,
                  linear.in * linear.out + (linear.bias == kNoParameter ? 0 : linear.out));
  }

  // The head's part of a tied table's gradient waits for the embedding's.
  void KeepTiedGradient(const LinearModule& linear, Operator* op) const {
    if (linear.weight != kTokenTable) return;
    op->weight_gradients_made = SizeOf(parameter_, linear.in * linear.out);
  }

  // Bias first: registration order reversed. A tied weight waits for the embedding.
  void SetReady(const LinearModule& linear, Operator& op) const {
    if (linear.bias != kNoParameter) op.parameters_ready.push_back(linear.bias);
    (linear.weight != kTokenTable ? op.parameters_ready : op.also_uses).push_back(linear.weight);
  }

  void AddNorm(std::string name, const NormModule& norm, int gradients_to_add) {
    const std::int64_t elements = tokens_ * spec_.hidden_size;
    const bool is_rms = spec_.norm == NormKind::kRmsNorm;
    const MemoryPasses& p = passes_;
    Operator& op =
        AddOperator(std::move(name), Moves(is_rms ? p.rms_norm : p.layer_norm, elements));
    op.backward_input.push_back(
        Moves(is_rms ? p.rms_norm_input_grad : p.layer_norm_input_grad, elements));
    for (int i = 0; i < gradients_to_add; ++i) {
      op.backward_input.push_back(Moves(p.stream_gradient_add, elements));
    }
    op.backward_weight.push_back(
        Moves(is_rms ? p.rms_norm_weight_grad : p.layer_norm_weight_grad, elements));
    SaveNorm(is_rms ? p.rms_norm_saved : p.layer_norm_saved, &op);
    if (norm.bias != kNoParameter) op.parameters_ready.push_back(norm.bias);
    op.parameters_ready.push_back(norm.weight);
    if (FamilyOf(spec_) == TransformerFamily::kBert) stream_writer_ = Last();  // post-norm
  }

  // An RMS norm that is written out keeps what it made of its input, and that in fp32 where it is
  // not: the others their input.
  void SaveNorm(const Traffic& saved, Operator* op) {
    const std::int64_t elements = tokens_ * spec_.hidden_size;
    const bool keeps_input = saved.wide == 0 || stream_ == DType::kFp32;
    op->reads = {{stream_writer_, SizeOf(stream_, elements), keeps_input, keeps_input}};
    op->saved = TrafficBytes(saved, types(), elements);
  }

  void AddDropout(std::string name, DType dtype) {
    const std::int64_t elements = tokens_ * spec_.hidden_size;
    const ComputeWork work = TrafficWork(passes_.dropout, {dtype, dtype}, elements);
    if (spec_.dropout <= 0 || IsNothing(work)) return;
    const std::int32_t writer = Last();
    Operator& op = AddOperator(std::move(name), work);
    op.reads = {{writer, SizeOf(dtype, elements)}};
    op.backward_input.push_back(TrafficWork(passes_.dropout_grad, {dtype, dtype}, elements));
    op.saved = Bytes{passes_.dropout.mask * elements};
  }

  void AddResidual(std::string name) {
    const std::int64_t elements = tokens_ * spec_.hidden_size;
    const std::int32_t branch = Last();
    Operator& op = AddOperator(std::move(name), Moves(passes_.residual_add, elements));
    op.reads = {Read(branch, elements), {stream_writer_, SizeOf(stream_, elements)}};
    op.hands_on_gradient = true;
    stream_writer_ = Last();
    // Backward hands the gradient on, at most in another type.
    const ComputeWork grad = Moves(passes_.residual_grad, elements);
    if (!IsNothing(grad)) op.backward_input.push_back(grad);
  }

  // Rows are gathered from the stored table. The dense gradient of the whole table is cleared, then
  // every token's row is added to it; a tied head's gradient is added last.
  void AddTokenEmbedding(const TableModule& table) {
    const std::int64_t elements = tokens_ * spec_.hidden_size;
    const std::int64_t size = table.rows * spec_.hidden_size;
    const Bytes ids = SizeOf(DType::kInt64, tokens_);
    const Bytes rows = SizeOf(parameter_, elements);
    const Bytes activations = SizeOf(stream_, elements);  // autocast leaves look-ups alone
    Operator& op = AddOperator("token_embedding", MemoryWork(parameter_, ids + rows + activations));
    op.backward_weight.push_back(ZeroWork(SizeOf(parameter_, size)));
    op.backward_weight.push_back(MemoryWork(parameter_, ids + activations + rows * 2));
    if (HasVocabularyHead(spec_) && spec_.tied_embeddings) {
      op.backward_weight.push_back(MemoryWork(parameter_, kAdd, size));
      op.weight_gradients_taken = SizeOf(parameter_, size);
    }
    op.parameters_ready.push_back(table.weight);
    op.saved = ids;
    stream_writer_ = Last();
  }

  // Adds a small table's rows to the embeddings; `rows_read` of them come from HBM, the rest (a
  // handful of segment rows) from cache.
  void AddTable(std::string name, const TableModule& table, std::int64_t rows_read) {
    const std::int64_t h = spec_.hidden_size;
    const Bytes activations = SizeOf(stream_, tokens_ * h);
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

  // Cross entropy works in fp32; the passes say whether the wide logits touch memory.
  void AddLoss(std::int64_t vocabulary) {
    BeginUnit("loss");
    const std::int64_t logits = tokens_ * vocabulary;
    Operator& op = AddOperator("cross_entropy", Moves(loss_passes_.loss, logits));
    op.backward_input.push_back(Moves(loss_passes_.loss_grad, logits));
    op.saved = TrafficBytes(loss_passes_.loss_saved, types(), logits);
    op.reads = {Read(kUnitInput, logits)};
    AddLossWorkspace(logits, &op);
  }

  // Written out, the loss turns the logits to fp32 and makes log-probabilities of them, which are
  // saved; in backward the gradients of both are there at once. Fused, only the logits' gradient
  // is.
  void AddLossWorkspace(std::int64_t logits, Operator* op) const {
    const bool is_written_out = loss_passes_.loss_saved.wide > 0;
    if (!is_written_out) return;
    const Bytes wide = SizeOf(DType::kFp32, logits);
    const Bytes narrow = SizeOf(activation_, logits);
    op->forward_workspace = activation_ == DType::kFp32 ? narrow : narrow + wide;
    op->backward_workspace = wide * 2 - narrow;
  }

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

  Bytes StreamBytes() const { return SizeOf(stream_, tokens_ * spec_.hidden_size); }

  ReadTensor Read(std::int32_t writer, std::int64_t elements, std::int32_t part = 0) const {
    return {writer, SizeOf(activation_, elements), false, false, part};
  }
  // `part` tells the results of one writer apart: q, k and v of a fused product.
  ReadTensor Saved(std::int32_t writer, std::int64_t elements, std::int32_t part = 0) const {
    return {writer, SizeOf(activation_, elements), /*is_saved=*/true, /*is_counted=*/true, part};
  }
  static void Save(const std::vector<ReadTensor>& tensors, Operator* op) {
    for (const ReadTensor& tensor : tensors) {
      op->reads.push_back(tensor);
      op->saved += tensor.bytes;
    }
  }

  void BeginUnit(std::string name) {
    workload_.units.push_back({std::move(name), {}});
    stream_writer_ = kUnitInput;
  }

  // The operator added last to the unit; kUnitInput when there is none.
  std::int32_t Last() const {
    return static_cast<std::int32_t>(workload_.units.back().operators.size()) - 1;
  }

  // The reference holds until the next operator is added.
  Operator& AddOperator(std::string name, const ComputeWork& forward) {
    Operator op;
    op.name = std::move(name);
    op.forward = forward;
    return workload_.units.back().operators.emplace_back(std::move(op));
  }

  static constexpr std::int32_t kTokenTable = 0;  // registered first
  static constexpr int kAdd = 3;                  // read both, write the sum

  const TransformerSpec& spec_;
  DType compute_;     // of the linears' matrix products
  DType activation_;  // of what they read and write
  DType stream_;      // of the residual stream and the norms
  DType parameter_;
  const MemoryPasses& passes_;
  const MemoryPasses& loss_passes_;
  std::int64_t batch_;
  std::int64_t sequence_;
  std::int64_t tokens_;
  AttentionBuilder attention_;
  std::int32_t stream_writer_ = kUnitInput;  // who wrote the residual stream as it is now
  Workload workload_;
};

}  // namespace

Workload BuildTransformerWorkload(const JobSpec& job) { return TransformerBuilder(job).Build(); }

}  // namespace stepsim
