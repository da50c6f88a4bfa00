// How do tests import a framework's file? As a text, over a machine of round numbers.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "models/import/import_job.h"
#include "models/spec/config_source.h"
#include "models/spec/load_job.h"
#include "sim/base/diagnostics.h"

namespace stepsim::testing {

// Four GPUs in a node; `files` are others that a text may name.
inline MemoryConfigSource ImportConfigs(std::map<std::string, std::string> files = {}) {
  files.insert(
      {{"hardware/box.yaml",
        "{name: box, gpus_per_node: 4, gpu: {name: chip, peak: {fp32: 1 TFLOP/s, bf16: 1 TFLOP/s, "
        "fp16: 1 TFLOP/s}, hbm_bandwidth: 1 TB/s, memory: 80 GiB, sms: 100}, intra_node: {type: "
        "nvlink, bandwidth: 1 GB/s}, network: {name: n, link: {type: infiniband, bandwidth: 1 "
        "Gb/s}}}"},
       {"models/llama-3-8b.yaml",
        "{name: llama-3-8b, transformer: {layers: 2, hidden_size: 8, heads: 2, ffn_size: 8, "
        "vocab_size: 9}}"},
       {"models/qwen3-30b-a3b.yaml",
        "{name: qwen3-30b-a3b, transformer: {layers: 2, hidden_size: 8, heads: 2, ffn_size: 8, "
        "vocab_size: 9, gated_mlp: true, experts: {count: 8, top_k: 2}}}"},
       {"models/tiny.yaml",
        "{name: tiny, transformer: {layers: 2, hidden_size: 8, heads: 2, ffn_size: 8, vocab_size: "
        "9}}"}});
  return MemoryConfigSource(std::move(files));
}

struct Import {
  std::string framework;
  std::string text;
  std::string file = "x.toml";
  std::string job;  // text of a JOB file
  std::vector<std::string> sets = {"hardware=box", "nodes=2"};
  std::map<std::string, std::string> files;

  ResolvedJob Load() const {
    ImportRequest request;
    request.files.push_back({framework, {file, text, ""}});
    if (!job.empty()) request.job = SourceFile{"job.yaml", job, ""};
    return LoadImportedJob(request, sets, ImportConfigs(files));
  }

  // Every problem, one a line; "" when there is none.
  std::string Errors() const {
    try {
      Load();
    } catch (const ConfigError& error) {
      std::string text_of_all;
      for (const Diagnostic& d : error.diagnostics()) text_of_all += d.ToString() + "\n";
      return text_of_all;
    }
    return "";
  }
};

// "value (origin)" of a field.
inline std::string ValueOf(const ResolvedJob& job, const std::string& field) {
  for (const ValueOrigin& value : job.origins) {
    if (value.field == field) return value.value + " (" + value.origin + ")";
  }
  return "no such field";
}

inline std::string Joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

}  // namespace stepsim::testing
