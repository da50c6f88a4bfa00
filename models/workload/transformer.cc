#include "models/workload/transformer.h"

#include <fmt/format.h>

#include <utility>

#include "models/spec/expert_tokens.h"
#include "models/spec/pipeline_rules.h"
#include "models/spec/sharding.h"
#include "models/workload/kernel_work.h"
#include "models/workload/memory_passes.h"
#include "models/workload/transformer_attention.h"
#include "models/workload/transformer_modules.h"
#include "models/workload/transformer_moe.h"
#include "models/workload/transformer_operators.h"

namespace stepsim {
namespace {

constexpr LinearInput kReadsStream{.reads_stream = true};

// Tensor parallelism but that of DTensor, which comes with FSDP, is Megatron-LM's.
bool HasMegatronsLayers(const JobSpec& job) {
  const bool is_fsdp = Uses(job, "fsdp1") || Uses(job, "fsdp2");
  return Uses(job, "megatron") || (job.plan.tensor_parallel > 1 && !is_fsdp);
}

class TransformerBuilder : private TransformerOperators {
 public:
  explicit TransformerBuilder(const JobSpec& job)
      : TransformerOperators(job),
        job_(job),
        attention_(job, types(), passes_,
                   {local_.batch, job.batch.sequence_length, spec().heads, spec().kv_heads,
                    spec().head_dim, spec().causal}),
        gathers_tokens_(GathersTokens(job)),
        cuts_loss_(job.plan.tensor.vocabulary_parallel_loss),
        replica_tokens_(job.batch.micro_batch_size * job.batch.sequence_length) {}

  Workload Build() {
    const TransformerModules modules = RegisterModules(
        spec(), parameter_, workload_.parameters, ExpertShareOf(job_), HasMegatronsLayers(job_));
    if (KeepsFp8Weights(job_)) MarkFp8(modules);
    AddEmbedding(modules);
    for (std::size_t i = 0; i < modules.layers.size(); ++i) AddLayer(i, modules.layers[i]);
    AddHeads(modules);
    if (local_.has_sequence_parallel) MarkReplicated(modules);
    workload_.samples = static_cast<double>(local_.batch);
    workload_.tokens = static_cast<double>(replica_tokens_);
    return std::move(workload_);
  }

 private:
  void AddEmbedding(const TransformerModules& modules) {
    BeginUnit("embedding");
    const bool adds_tables = modules.positions || modules.token_types || modules.embedding_norm;
    AddTokenEmbedding(modules.tokens, adds_tables);
    // Ids are shared by the batch: the table's rows are read once and added to every sample.
    if (modules.positions) AddTable("position_embedding", *modules.positions, local_.sequence);
    if (modules.token_types) AddTable("token_type_embedding", *modules.token_types, 0);
    const std::int64_t elements = tokens() * spec().hidden_size;
    if (modules.embedding_norm) AddNorm("norm", *modules.embedding_norm, elements, 0);
    if (adds_tables) exchanges_.CutBehind(stream_, elements, &LastOperator());
    AddDropout("dropout", stream_);
  }

  void AddLayer(std::size_t index, const LayerModules& layer) {
    BeginUnit(fmt::format("layers.{}", index));
    const bool post_norm = FamilyOf(spec()) == TransformerFamily::kBert;
    const bool is_paired = PairsMicrobatches(job_);
    // Where the residual branches off, two gradients meet: at the norm, or (post-norm) at the
    // linears behind it.
    if (!post_norm) AddNorm("norm1", layer.norm1, stream_elements(), 1);
    AddAttention(layer, post_norm ? 1 : 0);
    AddDropout("dropout1", activation_);
    AddResidual("residual1");
    const std::int32_t attention_end = Last();
    AddNorm(post_norm ? "norm1" : "norm2", post_norm ? layer.norm1 : layer.norm2, stream_elements(),
            post_norm ? 0 : 1);
    if (layer.experts) {
      AddExperts(layer);
    } else {
      AddMlp(layer, post_norm ? 1 : 0, {.writer = Last()});
    }
    AddDropout("dropout2", activation_);
    AddResidual("residual2");
    if (post_norm) AddNorm("norm2", layer.norm2, stream_elements(), 0);
    if (is_paired) MarkParts(layer.experts ? Last() : attention_end);
  }

  // The MLP is all behind `attention_end`; a mixture of experts begins with its dispatch.
  void MarkParts(std::int32_t attention_end) {
    LayerPart part = LayerPart::kAttention;
    std::int32_t place = 0;
    for (Operator& op : workload_.units.back().operators) {
      if (place++ == attention_end + 1) part = LayerPart::kMlp;
      if (op.is_exchange) {
        part = op.part;
      } else if (part == LayerPart::kDispatch) {
        part = LayerPart::kMlp;
      }
      op.part = part;
    }
  }

  void AddAttention(const LayerModules& layer, int gradients_to_add) {
    const std::vector<std::int32_t> linears =
        AddParallelLinears(layer.qkv, gradients_to_add, {.writer = Last()});
    QkvWriters qkv{linears.front(), linears[linears.size() / 2], linears.back()};
    if (layer.query_norm) {
      const std::int64_t width = tokens() * spec().head_dim;
      qkv.query = AddHeadNorm("q_norm", *layer.query_norm, Saved(qkv.query, width * spec().heads));
      qkv.key = AddHeadNorm("k_norm", *layer.key_norm, Saved(qkv.key, width * spec().kv_heads, 1));
    }
    attention_.AddTo(qkv, &workload_.units.back());
    AddLinear(layer.proj, LinearCut::kRow, tokens(), 0, {.writer = Last()});
  }

  void AddExperts(const LayerModules& layer) {
    const std::int32_t input = Last();
    ExpertLayer experts(job_, {compute_, activation_, stream_, parameter_}, *layer.experts,
                        gathers_tokens_ ? tokens() : local_.stream_tokens, &workload_.units.back());
    experts.AddRouter(input);
    experts.AddPermute();
    // Behind the routed experts, before them where micro-batches are paired, or on a stream of its
    // own from the dispatch on.
    const bool has_shared = !layer.up.empty();
    const bool is_beside = has_shared && job_.plan.expert.shared_expert_overlap;
    const bool is_before = has_shared && PairsMicrobatches(job_);
    const auto add_shared = [&] {
      AddMlp(layer, 0, {.writer = input, .shares_input = true, .is_whole = gathers_tokens_},
             "shared.");
      experts.EndSharedExpert();
    };
    if (is_before) add_shared();
    experts.AddDispatch();
    if (is_beside) {
      add_shared();
      experts.MoveToSide();
    }
    experts.AddExperts();
    experts.AddCombine();
    if (has_shared && !is_beside && !is_before) add_shared();
    if (has_shared) experts.AddSharedResult();
    experts.EndTokens();
  }

  void AddMlp(const LayerModules& layer, int gradients_to_add, LinearInput input,
              const std::string& prefix = "") {
    const std::vector<std::int32_t> up = AddParallelLinears(layer.up, gradients_to_add, input);
    const std::int64_t width = tokens() * layer.down.in;
    const bool gated = spec().gated_mlp;
    Operator& activation = AddOperator(
        prefix + "activation", Moves(gated ? passes_.gated_activation : passes_.activation, width));
    activation.backward_input.push_back(
        Moves(gated ? passes_.gated_activation_grad : passes_.activation_grad, width));
    for (std::size_t i = 0; i < up.size(); ++i) {
      Save({Saved(up[i], tokens() * layer.up[i].out)}, &activation);
    }
    if (gated) activation.saved = TrafficBytes(passes_.gated_activation_saved, types(), width);
    AddLinear(layer.down, LinearCut::kRow, tokens(), 0,
              {.writer = Last(), .is_whole = input.is_whole});
  }

  void AddHeads(const TransformerModules& modules) {
    if (modules.final_norm) {
      BeginUnit("final_norm");
      AddNorm("norm", *modules.final_norm, stream_elements(), 0);
    }
    if (modules.pooler || modules.next_sentence) {
      BeginUnit("pooler");  // first token of each sample
      if (modules.pooler)
        AddLinear(*modules.pooler, LinearCut::kWhole, local_.batch, 0, kReadsStream);
      // The gradient of a slice is a whole tensor of zeros around it.
      Operator& first = workload_.units.back().operators.front();
      first.reads = {{kUnitInput, StreamBytes()}};
      exchanges_.GatherBefore(activation_, tokens() * spec().hidden_size, &first);
      if (modules.next_sentence)
        AddLinear(*modules.next_sentence, LinearCut::kWhole, local_.batch, 0, {});
    }
    if (modules.mlm_transform) {
      BeginUnit("mlm_transform");
      AddLinear(*modules.mlm_transform, LinearCut::kWhole, local_.stream_tokens, 0, kReadsStream);
      AddActivation();
      AddNorm("norm", *modules.mlm_norm, stream_elements(), 0);
    }
    if (!modules.head) return;
    BeginUnit("head");
    // Megatron-LM's output layer is not Transformer Engine's.
    if (compute_ == DType::kFp8 && HasMegatronsLayers(job_)) compute_ = activation_;
    AddLinear(*modules.head, LinearCut::kColumn, tokens(), 0, kReadsStream);
    if (cuts_loss_) {
      AddLoss(modules.head->out);
      exchanges_.AroundCutLoss(tokens(), &LastOperator());
    } else {
      exchanges_.GatherLogits(activation_, tokens() * local_.vocabulary, &LastOperator());
      AddLoss(local_.vocabulary);
    }
  }

  void AddActivation() {
    const std::int64_t elements = stream_elements();
    Operator& op = AddOperator("activation", Moves(passes_.activation, elements));
    op.backward_input.push_back(Moves(passes_.activation_grad, elements));
    op.saved = SizeOf(activation_, elements);
  }

  // What every tensor-parallel rank has whole while it only sees a part of the sequence: norms, the
  // biases behind row-parallel products, routers, the transform of the masked-language head.
  void MarkReplicated(const TransformerModules& modules) {
    const auto mark = [&](std::int32_t p) {
      if (p == kNoParameter) return;
      workload_.parameters[static_cast<std::size_t>(p)].is_tensor_replicated = true;
    };
    const auto mark_norm = [&](const NormModule& norm) {
      mark(norm.weight);
      mark(norm.bias);
    };
    for (const LayerModules& layer : modules.layers) {
      mark_norm(layer.norm1);
      mark_norm(layer.norm2);
      mark(layer.proj.bias);
      mark(layer.down.bias);
      if (layer.query_norm) mark_norm(*layer.query_norm);
      if (layer.key_norm) mark_norm(*layer.key_norm);
      if (!layer.experts) continue;
      if (gathers_tokens_) continue;  // of all tokens
      mark(layer.experts->router.weight);
      mark(layer.experts->shared_gate);
    }
    if (modules.final_norm) mark_norm(*modules.final_norm);
    if (modules.mlm_norm) mark_norm(*modules.mlm_norm);
    if (modules.mlm_transform) {
      mark(modules.mlm_transform->weight);
      mark(modules.mlm_transform->bias);
    }
  }

  // Weights of Transformer Engine's products.
  void MarkFp8(const TransformerModules& modules) {
    const auto mark = [&](std::int32_t p) {
      workload_.parameters[static_cast<std::size_t>(p)].is_fp8 = true;
    };
    for (const LayerModules& layer : modules.layers) {
      for (const LinearModule& linear : layer.qkv) mark(linear.weight);
      for (const LinearModule& linear : layer.up) mark(linear.weight);
      mark(layer.proj.weight);
      if (layer.down.weight != kNoParameter) mark(layer.down.weight);
      if (!layer.experts) continue;
      mark(layer.experts->up);
      mark(layer.experts->down);
    }
  }

  const JobSpec& job_;
  const AttentionBuilder attention_;
  const bool gathers_tokens_;  // of experts
  const bool cuts_loss_;
  const std::int64_t replica_tokens_;  // of all context-parallel ranks
};

}  // namespace

Workload BuildTransformerWorkload(const JobSpec& job) { return TransformerBuilder(job).Build(); }

}  // namespace stepsim
