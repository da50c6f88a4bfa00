#include "models/calibration/memory_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "sim/base/nearest.h"

namespace stepsim {
namespace {

template <class Value, std::size_t kCount>
using Words = std::array<std::pair<std::string_view, Value>, kCount>;

constexpr Words<StateLayout, 9> kStates = {
    {{"fp32_ddp", StateLayout::kFp32Ddp},
     {"megatron", StateLayout::kMegatron},
     {"megatron_distributed", StateLayout::kMegatronDistributed},
     {"zero0", StateLayout::kZero0},
     {"zero1", StateLayout::kZero1},
     {"zero1_fp32_gradients", StateLayout::kZero1Fp32Gradients},
     {"zero2", StateLayout::kZero2},
     {"zero3", StateLayout::kZero3},
     {"fsdp2", StateLayout::kFsdp2}}};
constexpr Words<LayerKernels, 3> kKernels = {{{"unfused", LayerKernels::kUnfused},
                                              {"fused", LayerKernels::kFused},
                                              {"eager", LayerKernels::kEager}}};
constexpr Words<KeptActivations, 4> kRecomputes = {
    {{"none", KeptActivations::kAll},
     {"core_attention", KeptActivations::kCoreAttentionRecomputed},
     {"every_second_product", KeptActivations::kEverySecondProduct},
     {"layer_inputs", KeptActivations::kLayerInputs}}};
constexpr Words<LossTensors, 5> kLosses = {{{"in_place", LossTensors::kInPlace},
                                            {"vocab_parallel", LossTensors::kVocabParallel},
                                            {"eager", LossTensors::kEager},
                                            {"compiled", LossTensors::kCompiled},
                                            {"dtensor_parallel", LossTensors::kDTensorParallel}}};
constexpr Words<MemoryFigure, 3> kFigures = {{{"allocated", MemoryFigure::kAllocated},
                                              {"reserved", MemoryFigure::kReserved},
                                              {"device", MemoryFigure::kDevice}}};
constexpr Words<bool, 2> kFlags = {{{"y", true}, {"n", false}}};
constexpr Words<bool, 2> kStages = {{{"layers", false}, {"layers_and_ends", true}}};

// More than any machine has; products of a few of them stay far from the end of double.
constexpr std::int64_t kMost = 1'000'000'000;
constexpr std::int64_t kMostStages = 4096;

std::string Suggestion(std::string_view text, const std::vector<std::string>& names) {
  const std::string nearest = Nearest(text, names);
  return nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest);
}

class TableReader {
 public:
  explicit TableReader(const CsvTable& table)
      : reader_(table, {"row_id",
                        "source",
                        "model",
                        "n_layers",
                        "hidden",
                        "n_heads",
                        "n_kv_heads",
                        "ffn_hidden",
                        "gated_mlp",
                        "tied",
                        "vocab",
                        "n_experts",
                        "top_k",
                        "moe_ffn_hidden",
                        "shared_ffn_hidden",
                        "dense_layers",
                        "q_rank",
                        "kv_rank",
                        "qk_head",
                        "rope_head",
                        "v_head",
                        "seq_len",
                        "states",
                        "kernels",
                        "recompute",
                        "loss",
                        "fp8_weights",
                        "tp",
                        "pp",
                        "vpp",
                        "cp",
                        "ep",
                        "dp",
                        "sequence_parallel",
                        "stages",
                        "micro_batch",
                        "grad_accum",
                        "figure",
                        "peak_mem_gib"}),
        table_(table) {}

  MemoryTable Read() {
    MemoryTable result;
    for (row_ = 0; row_ < table_.rows(); ++row_) {
      missing_.clear();
      is_wrong_ = false;
      MemoryRow read = ReadRow();
      if (is_wrong_) continue;
      if (missing_.empty()) {
        result.rows.push_back(std::move(read));
      } else {
        result.uncomputed.push_back({std::move(read.id), std::move(read.source), missing_});
      }
    }
    reader_.ThrowIfAny();
    return result;
  }

 private:
  MemoryRow ReadRow() {
    MemoryRow read;
    read.id = reader_.Text(row_, "row_id");
    read.source = reader_.Text(row_, "source");
    read.model = reader_.Text(row_, "model");
    read.states = reader_.Text(row_, "states");
    read.recompute = reader_.Text(row_, "recompute");
    ReadModel(read.job.model);
    ReadSoftware(read.job);
    ReadDegrees(read.job);
    if (const auto memory = reader_.Positive(row_, "peak_mem_gib")) {
      constexpr double kGib = 1 << 30;
      read.bytes = *memory * kGib;
    } else {
      is_wrong_ = true;
    }
    if (!is_wrong_ && missing_.empty()) CheckTogether(read.job);
    return read;
  }

  void ReadModel(FormulaModel& model) {
    model.layers = Integer("n_layers");
    model.hidden = Integer("hidden");
    model.heads = Integer("n_heads");
    model.kv_heads = Integer("n_kv_heads");
    model.ffn = Integer("ffn_hidden");
    model.vocab = Integer("vocab");
    model.is_gated = Word("gated_mlp", kFlags);
    model.is_tied = Word("tied", kFlags);
    if (IsFilled("kv_rank")) {
      model.latent = LatentAttention{IsFilled("q_rank") ? Integer("q_rank") : 0, Integer("kv_rank"),
                                     Integer("qk_head"), Integer("rope_head"), Integer("v_head")};
    }
    if (IsFilled("n_experts")) {
      model.experts = ExpertMlp{Integer("n_experts"), Integer("top_k"), Integer("moe_ffn_hidden"),
                                IsFilled("shared_ffn_hidden") ? Integer("shared_ffn_hidden") : 0,
                                IsFilled("dense_layers") ? Integer("dense_layers") : 0};
    }
  }

  void ReadSoftware(FormulaJob& job) {
    job.states = Word("states", kStates);
    job.kernels = Word("kernels", kKernels);
    job.kept = Word("recompute", kRecomputes);
    job.loss = Word("loss", kLosses);
    job.figure = Word("figure", kFigures);
    job.has_fp8_weights = Word("fp8_weights", kFlags);
    job.has_sequence_parallel = Word("sequence_parallel", kFlags);
    job.counts_ends_as_layers = Word("stages", kStages);
  }

  void ReadDegrees(FormulaJob& job) {
    job.sequence = Integer("seq_len");
    job.micro_batch = Integer("micro_batch");
    job.micro_batches = Integer("grad_accum");
    job.tensor_parallel = Integer("tp");
    job.pipeline_parallel = Integer("pp");
    job.virtual_stages = Integer("vpp");
    job.context_parallel = Integer("cp");
    job.expert_parallel = Integer("ep");
    job.data_parallel = Integer("dp");
  }

  // Rules between cells that the closed form needs.
  void CheckTogether(const FormulaJob& job) {
    const std::int64_t blocks = job.model.layers + (job.counts_ends_as_layers ? 2 : 0);
    if (job.pipeline_parallel > kMostStages || job.pipeline_parallel > blocks) {
      Report("pp", fmt::format("found {} stages, allowed: up to {}", job.pipeline_parallel,
                               std::min(blocks, kMostStages)));
    }
    if (job.model.experts && job.model.experts->dense_layers > job.model.layers) {
      Report("dense_layers", fmt::format("found {}, allowed: up to {}, all layers",
                                         job.model.experts->dense_layers, job.model.layers));
    }
    if (job.model.experts && job.kernels != LayerKernels::kFused) {
      Report("kernels", "found a mixture of experts, allowed with: fused");
    }
    if (job.model.latent && job.kernels != LayerKernels::kFused) {
      Report("kernels", "found latent attention, allowed with: fused");
    }
    if (job.model.kv_heads > job.model.heads) {
      Report("n_kv_heads", fmt::format("found {}, allowed: up to {}, all heads", job.model.kv_heads,
                                       job.model.heads));
    }
  }

  bool IsFilled(std::string_view column) const { return !reader_.Text(row_, column).empty(); }

  // 1, and the column noted, where the cell is empty.
  std::int64_t Integer(std::string_view column) {
    if (!IsFilled(column)) return missing_.emplace_back(column), 1;
    const auto value = reader_.PositiveInteger(row_, column);
    if (value && *value <= kMost) return *value;
    is_wrong_ = true;
    if (value) {
      reader_.Report(row_, column, fmt::format("found {}, allowed: up to {}", *value, kMost));
    }
    return 1;
  }

  template <class Value, std::size_t kCount>
  Value Word(std::string_view column, const Words<Value, kCount>& words) {
    const std::string_view text = reader_.Text(row_, column);
    std::vector<std::string> names;
    for (const auto& [name, value] : words) {
      if (name == text) return value;
      names.emplace_back(name);
    }
    if (text.empty()) {
      missing_.emplace_back(column);
    } else {
      Report(column, fmt::format("found '{}', allowed: {}{}", text, fmt::join(names, ", "),
                                 Suggestion(text, names)));
    }
    return words[0].second;
  }

  void Report(std::string_view column, const std::string& message) {
    is_wrong_ = true;
    reader_.Report(row_, column, message);
  }

  CsvReader reader_;
  const CsvTable& table_;
  std::size_t row_ = 0;
  std::vector<std::string> missing_;  // of the row being read
  bool is_wrong_ = false;
};

}  // namespace

MemoryTable ReadMemoryTable(const CsvTable& table) { return TableReader(table).Read(); }

}  // namespace stepsim
