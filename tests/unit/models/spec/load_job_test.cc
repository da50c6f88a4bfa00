#include "models/spec/load_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "sim/base/diagnostics.h"

namespace stepsim {
namespace {

// Round numbers of no real machine.
constexpr const char* kBox = R"(name: box
gpus_per_node: 4
gpu:
  name: chip
  peak: {fp32: 10 TFLOP/s, bf16: 100 TFLOP/s}
  hbm_bandwidth: 1 TB/s
  memory: 80 GiB
  sms: 100
intra_node: {type: nvlink, bandwidth: 100 GB/s, latency: 2 us}
network:
  name: fast
  nics_per_node: 4
  link: {type: infiniband, bandwidth: 200 Gb/s, latency: 5 us}
sources: {gpu: "made up", network.link.latency: "made up"}
)";
constexpr const char* kTiny = R"(name: tiny
transformer:
  layers: 2
  hidden_size: 64
  heads: 6
  kv_heads: 6
  head_dim: 16
  ffn_size: 128
  vocab_size: 1000
sources: {transformer: "made up"}
)";
constexpr const char* kConv = R"(name: conv
layers:
  - {name: a, parameters: [{name: a.weight, elements: 10}], forward_flops: 1 MFLOP}
  - {name: b, parameters: [{name: b.weight, elements: 20, dtype: bf16}]}
)";
constexpr const char* kSlow =
    "name: slow\nnics_per_node: 1\nlink: {type: ethernet, bandwidth: 10 Gb/s}\n";
constexpr const char* kJob = R"(model: tiny
hardware: box
nodes: 2
plan:
  strategy: ddp
  ddp: {bucket_cap_mb: 25}
batch: {micro_batch_size: 1, sequence_length: 128}
)";

MemoryConfigSource Source() {
  return MemoryConfigSource({{"hardware/box.yaml", kBox},
                             {"models/tiny.yaml", kTiny},
                             {"models/conv.yaml", kConv},
                             {"networks/slow.yaml", kSlow},
                             {"jobs/small.yaml", kJob}});
}

ResolvedJob Load(const std::string& text, const std::vector<std::string>& sets = {}) {
  return LoadJobText(text, "job.yaml", sets, Source());
}

std::string ErrorOf(const std::string& text, const std::vector<std::string>& sets = {}) {
  try {
    Load(text, sets);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

std::string SetError(const std::string& set) { return ErrorOf(kJob, {set}); }

std::string OriginOf(const ResolvedJob& job, const std::string& field) {
  for (const ValueOrigin& origin : job.origins) {
    if (origin.field == field) return origin.value + " [" + origin.origin + "]";
  }
  return "no such field";
}

TEST(LoadJob, JoinsJobModelAndHardware) {
  const ResolvedJob resolved = Load(kJob);
  const JobSpec& job = resolved.job;
  EXPECT_EQ(job.name, "job");
  EXPECT_EQ(job.file, "job.yaml");
  EXPECT_EQ(std::get<TransformerSpec>(job.model.network).layers, 2);
  EXPECT_EQ(job.hardware.gpu.memory.value, 80LL << 30);
  EXPECT_EQ(job.hardware.network.link.bandwidth.value, 25e9);
  EXPECT_EQ(job.gpus_per_node, 4);       // the profile's
  EXPECT_EQ(job.plan.data_parallel, 8);  // 2 x 4
  EXPECT_EQ(job.plan.ddp.bucket_cap_mb, 25.0);
}

TEST(LoadJob, FindsJobsByName) {
  EXPECT_EQ(LoadJob("small", {}, Source()).job.name, "small");
  try {
    LoadJob("smal", {}, Source());
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(), "smal: found no such file or job; did you mean 'small'?");
  }
}

TEST(LoadJob, OriginsOfValues) {
  const ResolvedJob job = Load(kJob, {"hardware.gpu.sms=7"});
  EXPECT_EQ(OriginOf(job, "nodes"), "2 [job.yaml:3]");
  EXPECT_EQ(OriginOf(job, "hardware.gpu.memory"), "80 GiB [box.yaml:7]");
  EXPECT_EQ(OriginOf(job, "hardware.gpu.sms"), "7 [--set]");
  EXPECT_EQ(OriginOf(job, "model.transformer.heads"), "6 [tiny.yaml:5]");
  EXPECT_EQ(OriginOf(job, "plan.ddp.no_sync"), "true [default]");
  EXPECT_EQ(OriginOf(job, "gpus_per_node"), "4 [hardware.gpus_per_node]");
  EXPECT_EQ(OriginOf(job, "plan.data_parallel"), "8 [all GPUs]");
}

// A resolved job is a job file: reading it gives the same job.
TEST(LoadJob, TheResolvedJobIsAJob) {
  const std::string more_steps = std::string(kJob);
  for (const auto& [text, sets] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {kJob, {}},
           {kJob, {"nodes=1"}},
           {kJob, {"network=slow", "batch.gradient_accumulation_steps=3"}},
           {"{model: conv, hardware: box, plan: {strategy: none}}", {}},
           {"{model: conv, hardware: box, plan: {ddp: {bucket_cap_mb_list: [1, 2.5]}}}", {}},
           {"{model: conv, hardware: box, plan: {ddp: {iteration: first}}}", {}}}) {
    const std::string json = Load(text, sets).resolved_json;
    EXPECT_EQ(Load(json).resolved_json, json);
  }
}

TEST(LoadJob, NetworkOverlay) {
  const std::string text = std::string(kJob) + "network: slow\n";
  const NetworkSpec network = Load(text).job.hardware.network;
  EXPECT_EQ(network.name, "slow");
  EXPECT_EQ(network.nics_per_node, 1);
  EXPECT_EQ(network.link.bandwidth.value, 1.25e9);
  EXPECT_EQ(network.link.latency.count(), 5'000'000);  // not in the overlay: the profile's
  EXPECT_EQ(Load(kJob, {"network=slow"}).job.hardware.network.name, "slow");
  EXPECT_EQ(Load(kJob, {"network.link.latency=9 us", "collectives.model=alpha_beta"})
                .job.hardware.network.link.latency.count(),
            9'000'000);
}

TEST(LoadJob, MappingsWithABase) {
  const JobSpec job = Load(
                          "model: {base: tiny, transformer: {layers: 5}}\n"
                          "hardware: {base: box, gpu: {memory: 40 GiB}}\n"
                          "batch: {sequence_length: 8}\n")
                          .job;
  EXPECT_EQ(std::get<TransformerSpec>(job.model.network).layers, 5);
  EXPECT_EQ(std::get<TransformerSpec>(job.model.network).ffn_size, 128);
  EXPECT_EQ(job.hardware.gpu.memory.value, 40LL << 30);
  EXPECT_EQ(job.hardware.gpu.name, "chip");
}

TEST(LoadJob, PathsCountFromTheFileThatHoldsThem) {
  const MemoryConfigSource source(
      {{"lab/my.yaml", "{model: nets/a.yaml, hardware: ../box.yaml, batch: {sequence_length: 8}}"},
       {"lab/nets/a.yaml", "{base: b.yaml, name: a}"},
       {"lab/nets/b.yaml", kTiny},
       {"lab/../box.yaml", kBox}});
  EXPECT_EQ(LoadJob("lab/my.yaml", {}, source).job.model.name, "a");
}

TEST(LoadJob, AHuggingFaceModel) {
  const MemoryConfigSource source(
      {{"hardware/box.yaml", kBox},
       {"hf/config.json",
        R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 3,
            "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 99})"}});
  const ResolvedJob job =
      LoadJobText("{model: hf/config.json, hardware: box, batch: {sequence_length: 8}}", "job.yaml",
                  {}, source);
  EXPECT_EQ(job.job.model.name, "hf");
  EXPECT_EQ(std::get<TransformerSpec>(job.job.model.network).head_dim, 16);
  EXPECT_EQ(OriginOf(job, "model.transformer.layers"), "3 [config.json:1]");
}

TEST(LoadJob, Settings) {
  const JobSpec job =
      Load(kJob,
           {"plan.ddp.bucket_cap_mb=50", "batch.mbs=4", "model=conv", "batch={micro_batch_size: 2}",
            "model.layers.0.forward_flops=2 MFLOP", "hardware.gpu.memory=40GiB"})
          .job;
  EXPECT_EQ(job.plan.ddp.bucket_cap_mb, 50.0);
  EXPECT_EQ(job.batch.micro_batch_size, 2);  // the last one counts
  EXPECT_EQ(std::get<LayerListSpec>(job.model.network).layers[0].forward_flops.value, 2e6);
  EXPECT_EQ(job.hardware.gpu.memory.value, 40LL << 30);
}

// Null takes a key out, however the file spells it: what is left is the default.
TEST(LoadJob, SettingsTakeKeysOut) {
  EXPECT_EQ(Load(kJob, {"plan.strategy=none", "plan.ddp=null"}).job.plan.strategy, "none");
  EXPECT_EQ(OriginOf(Load(kJob, {"plan.ddp.bucket_cap_mb=null"}), "plan.ddp.bucket_cap_mb"),
            "25 MiB, with a first bucket of 1 MiB [default]");
  EXPECT_EQ(OriginOf(Load(kJob, {"batch.mbs=null"}), "batch.micro_batch_size"), "1 [default]");
  EXPECT_EQ(OriginOf(Load(kJob, {"nodes=~"}), "nodes"), "1 [default]");
  const std::string with_network = std::string(kJob) + "network: slow\n";
  EXPECT_EQ(Load(with_network, {"network=null", "nodes=1"}).job.hardware.network.name, "fast");
  EXPECT_EQ(Load(kJob, {"optimizer=null"}).job.optimizer, OptimizerKind::kAdamW);  // was not there
}

TEST(LoadJob, SettingsThatTakeOutTooMuch) {
  EXPECT_THAT(SetError("plan.dpd=null"), testing::HasSubstr("unknown key 'dpd'"));
  EXPECT_THAT(SetError("batch.sequence_length=null"),
              testing::HasSubstr("batch.sequence_length: missing"));
  EXPECT_THAT(SetError("model=null"), testing::HasSubstr("model"));
  EXPECT_THAT(SetError("hardware=null"), testing::HasSubstr("hardware"));
  EXPECT_THAT(SetError("hardware.gpu=null"), testing::HasSubstr("hardware.gpu"));
  EXPECT_THAT(SetError("model.transformer=null"), testing::HasSubstr("model.transformer"));
  // In a file a key without a value stays a mistake.
  EXPECT_THAT(ErrorOf(std::string(kJob) + "optimizer:\n"), testing::HasSubstr("found nothing"));
}

TEST(LoadJob, AnEmptyListOfLayers) {
  EXPECT_THAT(
      ErrorOf("{model: {name: m, layers: []}, hardware: box}"),
      testing::StartsWith("job.yaml:1:27: model.layers: found an empty list, allowed: a list of "
                          "mappings with name "));
}

// The same job as JSON, and with anchors and merge keys.
TEST(LoadJob, OtherWaysToWriteAJob) {
  const std::string yaml = Load(kJob).resolved_json;
  EXPECT_EQ(LoadJobText(R"({"model": "tiny", "hardware": "box", "nodes": 2,
      "plan": {"strategy": "ddp", "ddp": {"bucket_cap_mb": 25}},
      "batch": {"micro_batch_size": 1, "sequence_length": 128}})",
                        "job.json", {}, Source())
                .resolved_json,
            yaml);
  EXPECT_EQ(Load("model: tiny\nhardware: box\nnodes: 2\n"
                 "plan: {strategy: ddp, ddp: {bucket_cap_mb: &cap 25}}\n"
                 "batch: &batch {micro_batch_size: 1, sequence_length: 128}\n",
                 {})
                .resolved_json,
            yaml);
  EXPECT_EQ(Load("model: {base: tiny, transformer: &net {layers: 3}}\nhardware: box\nnodes: 2\n"
                 "plan: {ddp: {<<: {bucket_cap_mb: 25}}}\n"
                 "batch: {<<: {micro_batch_size: 1, sequence_length: 9}, sequence_length: 128}\n",
                 {"model.transformer.layers=2"})
                .resolved_json,
            yaml);
}

TEST(LoadJob, WrongSettings) {
  EXPECT_EQ(SetError("plan.ddp.bucket_cap=1"),
            "--set plan.ddp.bucket_cap=1: plan.ddp: found the unknown key 'bucket_cap', allowed: "
            "bucket_cap_mb, bucket_cap_mb_list, first_bucket_mb, gradient_as_bucket_view, "
            "find_unused_parameters, static_graph, broadcast_buffers, comm_hook, iteration, "
            "no_sync; did you mean 'bucket_cap_mb'?");
  EXPECT_EQ(SetError("plan.bucket_cap_mb=1"),
            "--set plan.bucket_cap_mb=1: plan: found the unknown key 'bucket_cap_mb', allowed: "
            "strategy, data_parallel, tensor_parallel, context_parallel, pipeline_parallel, "
            "expert_parallel, mesh_order, ideal, ddp, fsdp1, fsdp2, zero, megatron, tensor, "
            "pipeline, context, expert, clip_gradients; did you mean "
            "'ddp.bucket_cap_mb'?");
  EXPECT_EQ(SetError("nodes"),
            "--set nodes: found no path=value, allowed: for example 'plan.ddp.bucket_cap_mb=25'");
  EXPECT_EQ(SetError("nodes="),
            "--set nodes=: found no value, allowed: a value, or null to take the key out");
  EXPECT_EQ(SetError("nodes=[1"), "--set nodes=[1: found no end of a list, allowed: '[a, b]'");
  EXPECT_EQ(SetError("nodes.x=1"),
            "--set nodes.x=1: nodes.x: 'nodes' has no key below it, its value is '2'");
}

// Everything wrong in three files, in one go, in reading order.
TEST(LoadJob, EveryProblemOfEveryFile) {
  const MemoryConfigSource source(
      {{"hardware/bad.yaml", "name: bad\ngpus_per_node: 0\n"}, {"models/tiny.yaml", kTiny}});
  try {
    LoadJobText(
        "model: tiny\nhardware: bad\nnodes: two\nplan: {strategy: dpp}\nbatch: "
        "{sequence_length: 8}\ntypo: 1\n",
        "job.yaml", {}, source);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_STREQ(
        error.what(),
        "job.yaml:3:8: nodes: found 'two', allowed: a whole number from 1 to 1000000\n"
        "job.yaml:4:18: plan.strategy: found 'dpp', allowed: ddp, fsdp1, fsdp2, zero, megatron, "
        "none; did you mean 'ddp'?\n"
        "job.yaml:6:1: found the unknown key 'typo', allowed: name, model, hardware, network, "
        "calibration, nodes, gpus_per_node, plan, batch, precision, kernels, loss, attention, "
        "recompute, "
        "optimizer, "
        "optimizer_impl, memory, host, collectives, contention, simulate, mfu_convention\n"
        "hardware/bad.yaml:1:1: hardware.gpu: missing, allowed: a mapping with name, peak, "
        "hbm_bandwidth, memory, sms and 9 optional keys\n"
        "hardware/bad.yaml:1:1: hardware.intra_node: missing, allowed: a mapping with type, "
        "bandwidth and 5 optional keys\n"
        "hardware/bad.yaml:1:1: hardware.network: missing, allowed: a mapping with name, link and "
        "3 optional keys\n"
        "hardware/bad.yaml:2:16: hardware.gpus_per_node: found '0', allowed: a whole number from 1 "
        "to 1000000");
  }
}

TEST(LoadJob, References) {
  EXPECT_EQ(ErrorOf("{model: tini, hardware: box}"),
            "job.yaml:1:9: model: found 'tini', allowed: a file, a mapping, conv, tiny; did you "
            "mean 'tiny'?");
  EXPECT_EQ(ErrorOf("{model: tiny, hardware: lab/box.yaml}"),
            "job.yaml:1:25: hardware: lab/box.yaml: found no such file");
  EXPECT_EQ(ErrorOf("{model: 3}"),
            "job.yaml:1:1: hardware: missing, allowed: a name, a file, or a mapping that may begin "
            "with base: NAME\n"
            "job.yaml:1:9: model: found '3', allowed: a file, a mapping, conv, tiny");
  EXPECT_EQ(ErrorOf("{model: [tiny], hardware: box}"),
            "job.yaml:1:9: model: found a list, allowed: a name, a file or a mapping");
  EXPECT_EQ(ErrorOf("[1, 2]"),
            "job.yaml:1:1: found a list, allowed: a mapping with model, hardware, plan, ...");
}

TEST(LoadJob, ABaseOfItself) {
  const MemoryConfigSource source(
      {{"models/tiny.yaml", kTiny}, {"hardware/loop.yaml", "{base: loop}"}});
  try {
    LoadJobText("{model: tiny, hardware: loop, batch: {sequence_length: 1}}", "job.yaml", {},
                source);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(),
                 "hardware/loop.yaml:1:8: hardware: found more than 8 bases of bases");
  }
}

TEST(LoadJob, SourcesAreAFlatMappingOfTexts) {
  EXPECT_EQ(ErrorOf("{model: {base: tiny, sources: {a: [1], b: c}}, hardware: {base: box, sources: "
                    "3}, batch: {sequence_length: 8}}"),
            "job.yaml:1:32: model.sources.a: found a list, allowed: a text\n"
            "job.yaml:1:79: hardware.sources: found '3', allowed: a mapping of a path to its "
            "source");
}

// ---- Values that do not fit together ----

TEST(CheckJob, Heads) {
  EXPECT_EQ(SetError("model.transformer.kv_heads=4"),
            "--set model.transformer.kv_heads=4: model.transformer.kv_heads: heads (6) must be a "
            "multiple of kv_heads (4); nearest valid: 3, 6");
  EXPECT_EQ(SetError("model.transformer.kv_heads=7"),
            "--set model.transformer.kv_heads=7: model.transformer.kv_heads: heads (6) must be a "
            "multiple of kv_heads (7); nearest valid: 6");
  EXPECT_EQ(ErrorOf("{model: {name: a, transformer: {layers: 1, hidden_size: 64, heads: 6, "
                    "ffn_size: 8, vocab_size: 9}}, hardware: box, batch: {sequence_length: 8}}"),
            "job.yaml:1:61: model.transformer.heads: hidden_size (64) must be a multiple of heads "
            "(6) where head_dim is not given");
}

TEST(CheckJob, Cluster) {
  EXPECT_EQ(SetError("plan.data_parallel=4"),
            "--set plan.data_parallel=4: plan.data_parallel: data_parallel (4) must equal nodes x "
            "gpus_per_node (2 x 4); nearest valid: 8, or 0 for all GPUs");
  EXPECT_EQ(
      SetError("gpus_per_node=5"),
      "--set gpus_per_node=5: gpus_per_node: found 5, allowed: at most the 4 of hardware box");
  EXPECT_EQ(ErrorOf(kJob, {"plan.data_parallel=8"}), "no error");
  EXPECT_EQ(ErrorOf(kJob, {"gpus_per_node=4"}), "no error");
  EXPECT_EQ(ErrorOf(kJob, {"nodes=1000000", "hardware.gpus_per_node=1000"}),
            "--set nodes=1000000: nodes: found 1000000 x 1000 GPUs, allowed: at most 10000000");
  EXPECT_EQ(ErrorOf(kJob, {"nodes=2048", "simulate.ranks=all"}), "no error");
  EXPECT_EQ(ErrorOf(kJob, {"nodes=2049", "simulate.ranks=all"}),
            "--set simulate.ranks=all: simulate.ranks: found 'all' for 8196 GPUs, allowed: at most "
            "8192 GPUs, or 'folded'");
}

TEST(CheckJob, Peak) {
  EXPECT_EQ(SetError("precision.compute=fp8"),
            "--set precision.compute=fp8: precision.compute: found 'fp8', for which hardware box "
            "has no peak, allowed: fp32, bf16");
  // A peak that could not be read is one mistake, not two.
  EXPECT_THAT(SetError("hardware.gpu.peak.bf16=fast"),
              testing::Not(testing::HasSubstr("precision.compute")));
}

TEST(CheckJob, Positions) {
  EXPECT_EQ(SetError("model.transformer.positions=learned"),
            "--set model.transformer.positions=learned: model.transformer.max_positions: missing, "
            "allowed: the rows of the learned position table");
  const std::vector<std::string> learned = {"model.transformer.positions=learned",
                                            "model.transformer.max_positions=128"};
  EXPECT_EQ(ErrorOf(kJob, learned), "no error");
  EXPECT_EQ(
      ErrorOf(kJob, {learned[0], learned[1], "batch.sequence_length=129"}),
      "--set batch.sequence_length=129: batch.sequence_length: sequence_length (129) must not "
      "exceed the max_positions (128) of model tiny; nearest valid: 128");
  EXPECT_EQ(ErrorOf("{model: tiny, hardware: box}"),
            "job.yaml:1:1: batch.sequence_length: missing, allowed: a whole number of tokens of at "
            "least 1");
}

TEST(CheckJob, AbsurdSizes) {
  EXPECT_EQ(SetError("model.transformer.layers=1000000000000"),
            "--set model.transformer.layers=1000000000000: model.transformer.layers: found "
            "'1000000000000', allowed: a whole number from 1 to 10000");
  EXPECT_THAT(
      ErrorOf(kJob, {"model.transformer.layers=10000", "model.transformer.hidden_size=1000000",
                     "model.transformer.ffn_size=10000000"}),
      testing::HasSubstr("parameters, allowed: at most 1000 T"));
  EXPECT_THAT(ErrorOf(kJob, {"batch.micro_batch_size=1000000", "batch.sequence_length=10000000",
                             "model.transformer.vocab_size=100000000"}),
              testing::HasSubstr("found activations of about"));
  EXPECT_THAT(ErrorOf(kJob, {"batch.gradient_accumulation_steps=4096", "simulate.steps=1000"}),
              testing::HasSubstr("layers x micro-steps x steps x simulated ranks"));
}

// ---- Keys without effect ----

TEST(CheckJob, KeysWithoutEffect) {
  EXPECT_EQ(
      SetError("plan.strategy=none"),
      "job.yaml:6:3: plan.ddp: has no effect with plan.strategy: none; take it out with --set "
      "plan.ddp=null");
  EXPECT_EQ(SetError("plan.ddp.bucket_cap_mb_list=[1, 25]"),
            "job.yaml:6:9: plan.ddp.bucket_cap_mb: has no effect with plan.ddp.bucket_cap_mb_list; "
            "take it out with --set plan.ddp.bucket_cap_mb=null");
  EXPECT_EQ(SetError("plan.ddp.no_sync=false"),
            "--set plan.ddp.no_sync=false: plan.ddp.no_sync: has no effect with "
            "batch.gradient_accumulation_steps: 1");
  EXPECT_EQ(ErrorOf(kJob, {"plan.ddp.no_sync=false", "batch.gradient_accumulation_steps=2"}),
            "no error");
  EXPECT_EQ(SetError("model=conv"),
            "job.yaml:7:30: batch.sequence_length: has no effect with a model that is a list of "
            "layers; take it out with --set batch.sequence_length=null");
  EXPECT_EQ(SetError("plan.ddp.iteration=first"),
            "job.yaml:6:9: plan.ddp.bucket_cap_mb: has no effect with plan.ddp.iteration: first, "
            "which has one bucket; take it out with --set plan.ddp.bucket_cap_mb=null");
  EXPECT_EQ(ErrorOf(kJob, {"plan.ddp.iteration=first", "plan.ddp.find_unused_parameters=true"}),
            "--set plan.ddp.iteration=first: plan.ddp.iteration: has no effect with "
            "plan.ddp.find_unused_parameters: true, which keeps the first iteration's buckets");
  EXPECT_EQ(ErrorOf(kJob, {"plan.ddp.static_graph=true", "plan.ddp.find_unused_parameters=true"}),
            "--set plan.ddp.find_unused_parameters=true: plan.ddp.find_unused_parameters: has no "
            "effect with plan.ddp.static_graph: true");
  EXPECT_EQ(SetError("model.transformer.max_positions=128"),
            "--set model.transformer.max_positions=128: model.transformer.max_positions: has no "
            "effect with positions that are not learned");
}

// bucket_cap_mb_list only begins like bucket_cap_mb: it is no part of it.
TEST(CheckJob, KeysWithoutEffectThatBeginAlike) {
  const std::string error =
      ErrorOf(kJob, {"plan.ddp.bucket_cap_mb_list=[1, 25]", "plan.ddp.iteration=first"});
  EXPECT_THAT(error, testing::HasSubstr("plan.ddp.bucket_cap_mb: has no effect"));
  EXPECT_THAT(error, testing::HasSubstr("plan.ddp.bucket_cap_mb_list: has no effect"));
}

TEST(CheckJob, TheFirstIterationComesOnce) {
  const std::string job =
      "{model: conv, hardware: box, plan: {ddp: {iteration: first}}, simulate: {steps: 2}}";
  EXPECT_EQ(ErrorOf(job),
            "job.yaml:1:74: simulate.steps: found 2 with plan.ddp.iteration: first, which comes "
            "once, allowed: 1");
  EXPECT_EQ(ErrorOf(job, {"simulate.steps=1"}), "no error");
}

TEST(CheckJob, ANetworkOfOneNode) {
  EXPECT_EQ(ErrorOf(kJob, {"nodes=1", "network=slow"}),
            "--set network=slow: network: has no effect with nodes: 1");
  EXPECT_EQ(ErrorOf(kJob, {"nodes=1", "network.link.latency=1 us"}),
            "--set network.link.latency=1 us: hardware.network.link.latency: has no effect with "
            "nodes: 1");
  EXPECT_EQ(ErrorOf(kJob, {"nodes=1"}), "no error");
}

}  // namespace
}  // namespace stepsim
