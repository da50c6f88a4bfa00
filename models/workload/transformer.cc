#include "models/workload/transformer.h"

#include <fmt/format.h>

#include <utility>

#include "models/spec/sharding.h"
#include "models/workload/kernel_work.h"
#include "models/workload/model_flops.h"
#include "models/workload/transformer_modules.h"

namespace stepsim {
namespace {

class TransformerBuilder {
 public:
  explicit TransformerBuilder(const JobSpec& job)
      : spec_(std::get<TransformerSpec>(job.model.network)),
        compute_(job.precision.compute),
        activation_(ActivationType(compute_)),
        parameter_(ShardingOf(job).gather),
        batch_(job.batch.micro_batch_size),
        sequence_(job.batch.sequence_length),
        tokens_(batch_ * sequence_) {}

  Workload Build() {
    const TransformerModules modules = RegisterModules(spec_, parameter_, workload_.parameters);
    AddEmbedding(modules);
    for (std::size_t i = 0; i < modules.layers.size(); ++i) AddLayer(i, modules.layers[i]);
    AddHeads(modules);
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
    AddDropout("dropout");
  }

  void AddLayer(std::size_t index, const LayerModules& layer) {
    BeginUnit(fmt::format("layers.{}", index));
    const bool post_norm = FamilyOf(spec_) == TransformerFamily::kBert;
    // Where the residual branches off, two gradients meet: at the norm, or (post-norm) at the
    // linears behind it.
    if (!post_norm) AddNorm("norm1", layer.norm1, 1);
    AddAttention(layer, post_norm ? 1 : 0);
    AddDropout("dropout1");
    AddResidual("residual1");
    AddNorm(post_norm ? "norm1" : "norm2", post_norm ? layer.norm1 : layer.norm2,
            post_norm ? 0 : 1);
    AddMlp(layer, post_norm ? 1 : 0);
    AddDropout("dropout2");
    AddResidual("residual2");
    if (post_norm) AddNorm("norm2", layer.norm2, 0);
  }

  void AddAttention(const LayerModules& layer, int gradients_to_add) {
    AddParallelLinears(layer.qkv, gradients_to_add);
    const AttentionShape shape{batch_,         sequence_,      spec_.heads,
                               spec_.kv_heads, spec_.head_dim, spec_.causal};
    const std::int64_t rotated = tokens_ * (shape.heads + shape.kv_heads) * shape.head_dim;
    if (spec_.positions == PositionKind::kRotary) {
      Operator& rotary = AddOperator("rotary", Moves(kPasses.rotary, rotated));
      rotary.backward_input.push_back(Moves(kPasses.rotary, rotated));
    }
    Operator& attention = AddOperator("attention", AttentionForwardWork(shape, activation_));
    attention.backward_input.push_back(AttentionBackwardWork(shape, activation_));
    attention.saved =
        SizeOf(activation_, tokens_ * (shape.heads + 2 * shape.kv_heads) * shape.head_dim);
    AddLinear(layer.proj, tokens_, 0, true);
  }

  void AddMlp(const LayerModules& layer, int gradients_to_add) {
    AddParallelLinears(layer.up, gradients_to_add);
    const std::int64_t width = tokens_ * spec_.ffn_size;
    const bool gated = spec_.gated_mlp;
    Operator& activation = AddOperator(
        "activation", Moves(gated ? kPasses.gated_activation : kPasses.activation, width));
    activation.backward_input.push_back(
        Moves(gated ? kPasses.gated_activation_grad : kPasses.activation_grad, width));
    activation.saved = SizeOf(activation_, gated ? 2 * width : width);
    AddLinear(layer.down, tokens_, 0, true);
  }

  void AddHeads(const TransformerModules& modules) {
    if (modules.final_norm) {
      BeginUnit("final_norm");
      AddNorm("norm", *modules.final_norm, 0);
    }
    if (modules.pooler || modules.next_sentence) {
      BeginUnit("pooler");  // first token of each sample
      if (modules.pooler) AddLinear(*modules.pooler, batch_, 0, true);
      if (modules.next_sentence) AddLinear(*modules.next_sentence, batch_, 0, true);
    }
    if (modules.mlm_transform) {
      BeginUnit("mlm_transform");
      AddLinear(*modules.mlm_transform, tokens_, 0, true);
      AddActivation();
      AddNorm("norm", *modules.mlm_norm, 0);
    }
    if (!modules.head) return;
    BeginUnit("head");
    AddLinear(*modules.head, tokens_, 0, true);
    AddLoss(modules.head->out);
  }

  void AddActivation() {
    const std::int64_t elements = tokens_ * spec_.hidden_size;
    Operator& op = AddOperator("activation", Moves(kPasses.activation, elements));
    op.backward_input.push_back(Moves(kPasses.activation_grad, elements));
    op.saved = SizeOf(activation_, elements);
  }

  // Linears that read the same input (q, k, v; gate, up): their input gradients are added up as
  // backward meets them, last one first. The input is saved once, with the first.
  void AddParallelLinears(const std::vector<LinearModule>& linears, int gradients_to_add) {
    for (std::size_t i = 0; i < linears.size(); ++i) {
      const bool last = i + 1 == linears.size();
      AddLinear(linears[i], tokens_, last ? gradients_to_add : 1, i == 0);
    }
  }

  void AddLinear(const LinearModule& linear, std::int64_t rows, int gradients_to_add,
                 bool saves_input) {
    const bool casts = OperandType() != parameter_;
    if (casts) AddCast(linear);
    Operator& op = AddOperator(linear.name, Product(rows, linear.out, linear.in));
    op.backward_input.push_back(Product(rows, linear.in, linear.out));
    for (int i = 0; i < gradients_to_add; ++i) {
      op.backward_input.push_back(Moves(kPasses.gradient_add, rows * linear.in));
    }
    op.backward_weight.push_back(Product(linear.out, linear.in, rows));
    if (linear.bias != kNoParameter) {  // sum over the rows
      op.backward_weight.push_back(Moves(1, rows * linear.out + linear.out));
    }
    if (saves_input) op.saved = SizeOf(activation_, rows * linear.in);
    if (!casts) SetReady(linear, op);
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
    }
    op.saved = SizeOf(OperandType(), weight + bias);
    SetReady(linear, op);
  }

  // Bias first: registration order reversed. A tied weight waits for the embedding.
  void SetReady(const LinearModule& linear, Operator& op) const {
    if (linear.bias != kNoParameter) op.parameters_ready.push_back(linear.bias);
    if (linear.weight != kTokenTable) op.parameters_ready.push_back(linear.weight);
  }

  void AddNorm(std::string name, const NormModule& norm, int gradients_to_add) {
    const std::int64_t elements = tokens_ * spec_.hidden_size;
    Operator& op = AddOperator(std::move(name), Moves(kPasses.norm, elements));
    op.backward_input.push_back(Moves(kPasses.norm_input_grad, elements));
    for (int i = 0; i < gradients_to_add; ++i) {
      op.backward_input.push_back(Moves(kPasses.gradient_add, elements));
    }
    op.backward_weight.push_back(Moves(kPasses.norm_weight_grad, elements));
    op.saved = SizeOf(activation_, elements);
    if (norm.bias != kNoParameter) op.parameters_ready.push_back(norm.bias);
    op.parameters_ready.push_back(norm.weight);
  }

  void AddDropout(std::string name) {
    if (spec_.dropout <= 0) return;
    const std::int64_t elements = tokens_ * spec_.hidden_size;
    const Bytes mask{elements};  // one byte an element
    const ComputeWork work = MemoryWork(
        activation_, SizeOf(activation_, elements) * std::int64_t{kPasses.dropout} + mask);
    Operator& op = AddOperator(std::move(name), work);
    op.backward_input.push_back(work);
    op.saved = mask;
  }

  void AddResidual(std::string name) {
    // Backward hands the gradient on unchanged: no kernel.
    AddOperator(std::move(name), Moves(kPasses.residual_add, tokens_ * spec_.hidden_size));
  }

  // Rows are gathered from the stored table. The dense gradient of the whole table is cleared, then
  // every token's row is added to it; a tied head's gradient is added last.
  void AddTokenEmbedding(const TableModule& table) {
    const std::int64_t elements = tokens_ * spec_.hidden_size;
    const std::int64_t size = table.rows * spec_.hidden_size;
    const Bytes ids = SizeOf(DType::kInt64, tokens_);
    const Bytes rows = SizeOf(parameter_, elements);
    const Bytes activations = SizeOf(activation_, elements);
    Operator& op = AddOperator("token_embedding", MemoryWork(parameter_, ids + rows + activations));
    op.backward_weight.push_back(ZeroWork(SizeOf(parameter_, size)));
    op.backward_weight.push_back(MemoryWork(parameter_, ids + activations + rows * 2));
    if (HasVocabularyHead(spec_) && spec_.tied_embeddings) {
      op.backward_weight.push_back(MemoryWork(parameter_, kPasses.gradient_add, size));
    }
    op.parameters_ready.push_back(table.weight);
    op.saved = ids;
  }

  // Adds a small table's rows to the embeddings; `rows_read` of them come from HBM, the rest (a
  // handful of segment rows) from cache.
  void AddTable(std::string name, const TableModule& table, std::int64_t rows_read) {
    const std::int64_t h = spec_.hidden_size;
    const Bytes activations = SizeOf(activation_, tokens_ * h);
    const Bytes rows = SizeOf(parameter_, rows_read * h);
    Operator& op = AddOperator(std::move(name), MemoryWork(activation_, activations * 2 + rows));
    op.backward_weight.push_back(ZeroWork(SizeOf(parameter_, table.rows * h)));
    op.backward_weight.push_back(MemoryWork(activation_, activations + rows));
    op.parameters_ready.push_back(table.weight);
  }

  // Cross entropy in fp32: 16-bit logits are widened first and their gradient narrowed again.
  void AddLoss(std::int64_t vocabulary) {
    BeginUnit("loss");
    const std::int64_t logits = tokens_ * vocabulary;
    ComputeWork forward = MemoryWork(DType::kFp32, kPasses.log_softmax, logits);
    ComputeWork backward = MemoryWork(DType::kFp32, kPasses.log_softmax_grad, logits);
    if (ElementSize(activation_) != ElementSize(DType::kFp32)) {
      const ComputeWork cast = CastWork(activation_, DType::kFp32, logits);
      for (ComputeWork* work : {&forward, &backward}) {
        work->bytes += cast.bytes;
        work->kernels = 2;
      }
    }
    Operator& op = AddOperator("cross_entropy", forward);
    op.backward_input.push_back(backward);
    op.saved = SizeOf(DType::kFp32, logits);  // the log-probabilities
  }

  ComputeWork Moves(int passes, std::int64_t elements) const {
    return MemoryWork(activation_, passes, elements);
  }

  ComputeWork Product(std::int64_t m, std::int64_t n, std::int64_t k) const {
    return GemmWork(compute_, activation_, m, n, k);
  }

  // As the operands of a linear lie in memory.
  DType OperandType() const { return compute_ == DType::kFp8 ? compute_ : activation_; }

  void BeginUnit(std::string name) { workload_.units.push_back({std::move(name), {}}); }

  // The reference holds until the next operator is added.
  Operator& AddOperator(std::string name, const ComputeWork& forward) {
    Operator op;
    op.name = std::move(name);
    op.forward = forward;
    return workload_.units.back().operators.emplace_back(std::move(op));
  }

  static constexpr std::int32_t kTokenTable = 0;  // registered first

  const TransformerSpec& spec_;
  DType compute_;     // of the linears' matrix products
  DType activation_;  // of everything between them
  DType parameter_;
  std::int64_t batch_;
  std::int64_t sequence_;
  std::int64_t tokens_;
  Workload workload_;
};

}  // namespace

Workload BuildTransformerWorkload(const JobSpec& job) { return TransformerBuilder(job).Build(); }

}  // namespace stepsim
