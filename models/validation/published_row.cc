#include "models/validation/published_row.h"

#include <fast_float/fast_float.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "sim/base/check.h"

namespace stepsim {
namespace {

constexpr std::array kColumns = {
    PublishedColumn{"row_id", "name of the row"},
    PublishedColumn{"source", "who published it: errors are grouped by it"},
    PublishedColumn{"table", "the source's table (not used)"},
    PublishedColumn{"url_or_path", "where it stands (not used)"},
    PublishedColumn{"test_group", "tags of what is tested: FINETUNE is read"},
    PublishedColumn{"model", "name of the network"},
    PublishedColumn{"n_layers", "transformer blocks"},
    PublishedColumn{"hidden", "width of the residual stream"},
    PublishedColumn{"n_heads", "attention heads"},
    PublishedColumn{"n_kv_heads", "key and value heads"},
    PublishedColumn{"ffn_hidden", "width of the MLP"},
    PublishedColumn{"gated_mlp", "y, n"},
    PublishedColumn{"vocab", "words of the vocabulary"},
    PublishedColumn{"seq_len", "tokens of a sequence"},
    PublishedColumn{"n_experts", "experts of a layer"},
    PublishedColumn{"top_k", "experts of a token"},
    PublishedColumn{"moe_ffn_hidden", "width of an expert"},
    PublishedColumn{"precision", "element type of the products"},
    PublishedColumn{"gpu", "GPU, memory and form factor"},
    PublishedColumn{"gpu_class", "GPU without them, where `gpu` is empty"},
    PublishedColumn{"n_gpus", "GPUs of the run"},
    PublishedColumn{"gpus_per_node", "GPUs of a node"},
    PublishedColumn{"intra_link", "what joins the GPUs of a node"},
    PublishedColumn{"inter_link", "what joins the nodes"},
    PublishedColumn{"strategy", "data parallelism, and the software that does it"},
    PublishedColumn{"tp", "tensor parallel degree"},
    PublishedColumn{"pp", "pipeline parallel degree"},
    PublishedColumn{"vpp", "chunks of layers per pipeline rank"},
    PublishedColumn{"cp", "context parallel degree"},
    PublishedColumn{"ep", "expert parallel degree"},
    PublishedColumn{"dp", "data parallel degree: GPUs / (tp pp cp)"},
    PublishedColumn{"sequence_parallel", "y, n"},
    PublishedColumn{"micro_batch", "samples of a GPU in a micro-step"},
    PublishedColumn{"grad_accum", "micro-steps of a step"},
    PublishedColumn{"global_batch", "samples of a step over all GPUs"},
    PublishedColumn{"recompute", "none, selective (...), full"},
    PublishedColumn{"flash_attention", "y (...), n"},
    PublishedColumn{"torch_compile", "y, n"},
    PublishedColumn{"optimizer", "optimizer and its implementation"},
    PublishedColumn{"schedule", "pipeline schedule"},
    PublishedColumn{"overlap", "what runs beside compute"},
    PublishedColumn{"bucket_mb", "DDP's bucket, MiB"},
    PublishedColumn{"quantity", "what `value` is"},
    PublishedColumn{"value", "the figure as published"},
    PublishedColumn{"step_time_s", "seconds of a step"},
    PublishedColumn{"step_time_origin", "published or derived (not used)"},
    PublishedColumn{"peak_mem_gib", "memory of the fullest GPU"},
    PublishedColumn{"mfu_convention", "how the source counts FLOPs"},
    PublishedColumn{"completeness", "A: nothing is guessed, B, C: errors are grouped by it"},
    PublishedColumn{"notes", "read where no column says it: rules on `notes`"},
};

template <class Number>
std::optional<Number> Parse(std::string_view text) {
  Number value{};
  const auto [end, error] = fast_float::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::span<const PublishedColumn> PublishedColumns() { return kColumns; }

PublishedTable::PublishedTable(CsvTable table) : table_(std::move(table)) {
  CsvReader(table_, {"row_id", "n_gpus"});  // throws what is missing
  for (std::size_t i = 0; i < table_.columns().size(); ++i) {
    const std::string& name = table_.columns()[i];
    columns_.emplace(name, i);
    const bool is_known = std::any_of(kColumns.begin(), kColumns.end(),
                                      [&](const auto& column) { return column.name == name; });
    if (!is_known) unknown_.push_back(name);
  }
}

std::optional<std::size_t> PublishedTable::Find(std::string_view column) const {
  const auto found = columns_.find(column);
  if (found == columns_.end()) return std::nullopt;
  return found->second;
}

std::string_view PublishedRow::Text(std::string_view column) const {
  SIM_CHECK(std::any_of(kColumns.begin(), kColumns.end(),
                        [&](const auto& known) { return known.name == column; }),
            "a column that PublishedColumns() has");
  const auto found = table_->Find(column);
  if (!found) return {};
  std::string_view text = table_->table_.cell(row_, *found);
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::optional<double> PublishedRow::Number(std::string_view column) const {
  const auto value = Parse<double>(Text(column));
  if (!value || !std::isfinite(*value) || *value <= 0) return std::nullopt;
  return value;
}

std::optional<std::int64_t> PublishedRow::Integer(std::string_view column) const {
  constexpr double kMost = 1e9;
  const auto value = Number(column);
  if (!value || *value != std::floor(*value) || *value > kMost) return std::nullopt;
  return static_cast<std::int64_t>(*value);
}

}  // namespace stepsim
