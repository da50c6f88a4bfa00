#include "models/validation/map_row.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "models/spec/load_job.h"
#include "models/validation/mapping.h"

namespace stepsim {
namespace {

// The source's way to count FLOPs, as one of ours.
constexpr std::array kConventions = {
    TextRule{"simumax", "convention=megatron", "half of attention where causal"},
    TextRule{"stas causal", "convention=causal", "6 L h s"},
    TextRule{"megatron model", "convention=palm", "full attention"},
    TextRule{"nv mbridge", "convention=megatron", "half of attention"},
    TextRule{"nemo docs", "convention=palm", "12 L h s"},
    TextRule{"titan", "convention=palm", "12 L h s, embeddings counted"},
    TextRule{"mosaic", "convention=palm", "12 L h s, embeddings counted"},
};

// Work that is not the training of a whole network.
void MapTask(RowJob& job) {
  const std::string notes = PlainWords(job.row().Text("notes"));
  if (MatchesWords(notes, "lora")) job.Skip("notes", "LoRA: frozen weights are not simulated");
  const std::string group = PlainWords(job.row().Text("test_group"));
  const std::string convention = PlainWords(job.row().Text("mfu_convention"));
  if (MatchesWords(group, "finetune") || MatchesWords(convention, "finetune")) {
    job.Assume("packed sequences as one", "fine-tuning");
  }
}

MeasuredStep MapMeasured(RowJob& job) {
  const PublishedRow& row = job.row();
  MeasuredStep measured;
  constexpr double kGib = 1 << 30;
  if (const auto memory = row.Number("peak_mem_gib")) measured.peak_bytes = *memory * kGib;
  measured.seconds = row.Number("step_time_s");
  if (measured.seconds) return measured;
  if (row.IsFilled("step_time_s")) {
    job.Skip("step_time_s",
             fmt::format("found '{}', allowed: seconds above 0", row.Text("step_time_s")));
    return measured;
  }
  const auto value = row.Number("value");
  const auto batch = row.Number("global_batch");
  const std::string_view quantity = row.Text("quantity");
  if (value && batch && (quantity == "sequences_per_s" || quantity == "images_per_s")) {
    measured.seconds = *batch / *value;
  } else if (value && batch && row.Number("seq_len") && quantity == "tokens_per_s") {
    measured.seconds = *batch * *row.Number("seq_len") / *value;
  } else if (value && quantity == "tflops_per_gpu") {
    const TextRule* rule = FindRule(row.Text("mfu_convention"), kConventions);
    if (rule != nullptr) {
      measured.flops_per_gpu = *value * 1e12;
      measured.convention = ParseRuleSettings(rule->settings).front().second;
    }
  }
  if (!measured.seconds && !measured.flops_per_gpu) {
    job.Skip("step_time_s", fmt::format("not stated, and not computable from {}",
                                        quantity.empty() ? "the row" : quantity));
  }
  return measured;
}

}  // namespace

MappedRow MapRow(const PublishedRow& row) {
  RowJob job(row);
  MappedRow mapped;
  mapped.measured = MapMeasured(job);
  MapTask(job);
  MapDegrees(job);
  MapStack(job);
  MapHardware(job);
  MapNetwork(job);
  MapPrecision(job);
  MapPlan(job);
  MapSoftware(job);
  MapBatch(job);
  mapped.skipped = job.Reason();
  mapped.job = job.root();
  mapped.assumptions = job.assumptions();
  return mapped;
}

ResolvedJob LoadMappedJob(const MappedRow& row, const std::string& name,
                          const ConfigSource& configs) {
  constexpr int kMostTries = 4;  // a key that is taken out can leave another one idle
  std::vector<std::string> out;
  for (int tries = 1;; ++tries) {
    try {
      return LoadJobTree(row.job, name, out, configs);
    } catch (const ConfigError& error) {
      std::vector<std::string> idle;
      for (const Diagnostic& problem : error.diagnostics()) {
        if (problem.idle_key.empty()) throw;
        idle.push_back(problem.idle_key + "=null");
      }
      if (tries == kMostTries) throw;
      out.insert(out.end(), idle.begin(), idle.end());
    }
  }
}

}  // namespace stepsim
