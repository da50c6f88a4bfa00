// Expectations are what torchtitan documents for each option (torchtitan/config/job_config.py), and
// what it does with them (models/llama3/infra/parallelize.py, train.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/imported.h"

namespace stepsim {
namespace {

using ::testing::HasSubstr;
using testing::Import;
using testing::Joined;
using ::testing::Not;
using testing::ValueOf;

// Two nodes of four GPUs.
Import Titan(const std::string& more, const std::string& training = "") {
  return {.framework = "torchtitan",
          .text =
              "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[activation_checkpoint]\nmode = "
              "\"none\"\n[training]\nlocal_batch_size = 2\nseq_len = 64\n" +
              training + more};
}

TEST(Torchtitan, ShardsOverAllGpusUnlessToldOtherwise) {
  const ResolvedJob job = Titan("").Load();
  EXPECT_EQ(ValueOf(job, "plan.strategy"), "fsdp2 (x.toml)");
  EXPECT_EQ(job.job.model.name, "llama-3-8b");
  EXPECT_EQ(ValueOf(job, "batch.micro_batch_size"), "2 (x.toml:7)");
  EXPECT_EQ(ValueOf(job, "batch.sequence_length"), "64 (x.toml:8)");
  EXPECT_EQ(job.job.plan.fsdp2.shard_size, 0);
  EXPECT_EQ(job.job.plan.fsdp2.reduce_dtype, DType::kFp32);
  EXPECT_EQ(job.job.precision.compute, DType::kBf16);
  EXPECT_EQ(job.job.precision.parameters, DType::kFp32);
  EXPECT_TRUE(job.job.plan.fsdp2.requires_gradient_sync);
}

TEST(Torchtitan, DefaultsAreTorchtitans) {
  const ResolvedJob job =
      Import{.framework = "torchtitan",
             .text = "[model]\nflavor = \"8B\"\n[activation_checkpoint]\nmode = \"none\"\n"}
          .Load();
  EXPECT_EQ(ValueOf(job, "batch.micro_batch_size"), "8 (torchtitan's default)");
  EXPECT_EQ(ValueOf(job, "batch.sequence_length"), "2048 (torchtitan's default)");
  EXPECT_EQ(ValueOf(job, "optimizer_impl"), "fused (torchtitan's default)");
  EXPECT_EQ(ValueOf(job, "precision.compute"), "bf16 (torchtitan's default)");
}

TEST(Torchtitan, ReplicatesAndShards) {
  const auto degrees = [](const std::string& replicate, const std::string& shard) {
    return Titan("[parallelism]\ndata_parallel_replicate_degree = " + replicate +
                 "\ndata_parallel_shard_degree = " + shard + "\n");
  };
  const ResolvedJob hsdp = degrees("2", "-1").Load();
  EXPECT_EQ(hsdp.job.plan.strategy, "fsdp2");
  EXPECT_EQ(hsdp.job.plan.fsdp2.shard_size, 4);
  EXPECT_EQ(degrees("2", "4").Load().job.plan.fsdp2.shard_size, 4);

  const ResolvedJob ddp = degrees("8", "1").Load();  // replicate(model, bucket_cap_mb=100)
  EXPECT_EQ(ddp.job.plan.strategy, "ddp");
  EXPECT_EQ(ddp.job.plan.ddp.bucket_cap_mb, 100);

  EXPECT_THAT(degrees("3", "-1").Errors(),
              HasSubstr("x.toml:10:34: parallelism.data_parallel_replicate_degree: "
                        "data_parallel_replicate_degree (3) must divide the 8 GPUs"));
  EXPECT_THAT(degrees("2", "8").Errors(), HasSubstr("(2) x data_parallel_shard_degree (8) must "
                                                    "equal the 8 GPUs; -1 shards over all"));
  EXPECT_THAT(degrees("0", "1").Errors(),
              HasSubstr("found 0, allowed: a whole number from 1 to 10000000"));
  EXPECT_THAT(degrees("1", "0").Errors(),
              HasSubstr("found 0, allowed: a whole number from 1 to 10000000, or -1"));
}

// apply_fsdp: [norm, output] is resharded under `always` alone.
TEST(Torchtitan, WrapsAsItsModelsAreWrapped) {
  const auto plan = [](const std::string& policy) {
    return Titan("[parallelism]\nfsdp_reshard_after_forward = \"" + policy + "\"\n")
        .Load()
        .job.plan.fsdp2;
  };
  EXPECT_THAT(plan("default").wrap_modules,
              ::testing::ElementsAre("embedding", "layers.*", "final_norm+head"));
  EXPECT_THAT(plan("default").keep_after_forward, ::testing::ElementsAre("final_norm", "head"));
  EXPECT_TRUE(plan("always").keep_after_forward.empty());
  EXPECT_TRUE(plan("never").keep_after_forward.empty());
}

TEST(Torchtitan, OneGpuHasNothingToShare) {
  Import import = Titan("");
  import.sets = {"hardware=box", "nodes=1", "gpus_per_node=1"};
  EXPECT_EQ(import.Load().job.plan.strategy, "none");
}

// Versions before the table [parallelism].
TEST(Torchtitan, ReadsOlderFiles) {
  const ResolvedJob job =
      Import{.framework = "torchtitan",
             .text =
                 "[model]\nname = \"llama3\"\nflavor = \"8B\"\nnorm_type = \"rmsnorm\"\n"
                 "[optimizer]\nname = \"AdamW\"\nfused = false\n"
                 "[training]\nbatch_size = 4\nseq_len = 64\nwarmup_steps = 2\ncompile = true\n"
                 "data_parallel_replicate_degree = 4\ndata_parallel_shard_degree = 2\n"
                 "tensor_parallel_degree = 1\n"
                 "[experimental]\npipeline_parallel_degree = 1\n"
                 "[activation_checkpoint]\nmode = 'none'\n"}
          .Load();
  EXPECT_EQ(job.job.batch.micro_batch_size, 4);
  EXPECT_EQ(job.job.plan.fsdp2.shard_size, 2);
  EXPECT_EQ(job.job.optimizer_impl, OptimizerImpl::kForeach);
  EXPECT_EQ(job.job.kernels, KernelMode::kCompiled);
  EXPECT_TRUE(job.warnings.empty()) << Joined(job.warnings);
}

// Versions before replicas: one degree, of FSDP2 unless said otherwise.
TEST(Torchtitan, ReadsTheOldestFiles) {
  const auto job = [](const std::string& more) {
    return Titan("", "data_parallel_degree = 8\n" + more);
  };
  EXPECT_EQ(ValueOf(job("").Load(), "plan.strategy"), "fsdp2 (x.toml:9)");
  EXPECT_TRUE(job("data_parallel_type = \"fsdp\"\n").Load().warnings.empty());
  EXPECT_THAT(job("data_parallel_type = \"ddp\"\n").Errors(),
              HasSubstr("training.data_parallel_type: found 'ddp'"));
}

TEST(Torchtitan, GlobalBatchMeansAccumulation) {
  const ResolvedJob job = Titan("", "global_batch_size = 64\n").Load();
  EXPECT_EQ(ValueOf(job, "batch.gradient_accumulation_steps"), "4 (batch.global_batch_size)");
  EXPECT_EQ(Titan("", "global_batch_size = -1\n").Load().job.batch.gradient_accumulation_steps, 1);
  EXPECT_THAT(Titan("", "global_batch_size = 24\n").Errors(),
              HasSubstr("x.toml:9:21: batch.global_batch_size: global_batch_size (24) must be a "
                        "multiple of micro_batch_size x GPUs (2 x 8); nearest valid: 16, 32"));
  // DDP reduces in every micro-step: torchtitan does not use no_sync.
  const std::string ddp = "[parallelism]\ndata_parallel_replicate_degree = 8\n";
  EXPECT_FALSE(Titan(ddp, "global_batch_size = 64\n").Load().job.plan.ddp.no_sync);
}

TEST(Torchtitan, ReshardingAndCompilation) {
  const auto reshard = [](const std::string& policy) {
    return Titan("[parallelism]\nfsdp_reshard_after_forward = \"" + policy + "\"\n");
  };
  EXPECT_EQ(reshard("default").Load().job.plan.fsdp2.reshard_after_forward, "auto");
  EXPECT_EQ(reshard("always").Load().job.plan.fsdp2.reshard_after_forward, "true");
  EXPECT_EQ(reshard("never").Load().job.plan.fsdp2.reshard_after_forward, "false");
  EXPECT_THAT(reshard("nevr").Errors(), HasSubstr("found 'nevr', allowed: default, always, never"));

  const auto kernels = [](const std::string& table) {
    return Titan("[compile]\n" + table).Load().job.kernels;
  };
  EXPECT_EQ(kernels("enable = true\n"), KernelMode::kCompiled);
  EXPECT_EQ(kernels("enable = true\ncomponents = [\"model\", \"loss\"]\n"), KernelMode::kCompiled);
  EXPECT_EQ(kernels("enable = true\ncomponents = [\"loss\"]\n"), KernelMode::kEager);
  EXPECT_EQ(kernels("enable = false\n"), KernelMode::kEager);
}

// torchtitan's default is selective, every second layer; 'op' is its per-operator policy.
TEST(Torchtitan, RecomputesActivations) {
  const auto recompute = [](const std::string& table) {
    return Import{.framework = "torchtitan", .text = "[model]\nflavor = \"8B\"\n" + table}
        .Load()
        .job.recompute;
  };
  const std::string table = "[activation_checkpoint]\n";
  EXPECT_EQ(recompute(table + "mode = \"none\"\n").granularity, RecomputeGranularity::kNone);
  EXPECT_EQ(recompute(table + "mode = \"full\"\n").granularity, RecomputeGranularity::kFull);
  EXPECT_TRUE(recompute(table + "mode = 'selective'\nselective_ac_option = 'op'\n")
                  .IsSelective(RecomputePolicy::kOp));
  for (const std::string& by_layer : {std::string(), table + "mode = 'selective'\n"}) {
    EXPECT_TRUE(recompute(by_layer).IsSelective(RecomputePolicy::kLayer));
    EXPECT_EQ(recompute(by_layer).num_layers, 2);
  }
  EXPECT_EQ(recompute(table + "mode = 'selective'\nselective_ac_option = '1'\n").num_layers, 1);
  // What is a default of the framework's is no key without effect.
  Import import{.framework = "torchtitan", .text = "[model]\nflavor = \"8B\"\n"};
  import.sets.emplace_back("recompute.granularity=none");
  EXPECT_EQ(import.Errors(), "");
}

// Micro-batches are local_batch_size / microbatch_size; the other degrees leave 8 / 2 / 2 ranks.
TEST(Torchtitan, SpreadsTheModel) {
  const JobSpec job =
      Titan(
          "[parallelism]\ntensor_parallel_degree = 2\npipeline_parallel_degree = 2\n"
          "pipeline_parallel_schedule = \"1F1B\"\ndata_parallel_shard_degree = 2\n")
          .Load()
          .job;
  EXPECT_EQ(job.plan.tensor_parallel, 2);
  EXPECT_EQ(job.plan.pipeline_parallel, 2);
  EXPECT_EQ(job.plan.pipeline.balance, StageBalance::kEnds);
  EXPECT_EQ(job.plan.strategy, "fsdp2");
  EXPECT_EQ(job.replicas(), 2);
  EXPECT_EQ(job.batch.micro_batch_size, 1);
  EXPECT_EQ(job.batch.gradient_accumulation_steps, 2);
  const auto error = [](const std::string& keys) {
    return Titan("[parallelism]\ntensor_parallel_degree = 2\n" + keys).Errors();
  };
  EXPECT_THAT(error("data_parallel_shard_degree = 8\n"), HasSubstr("must equal the 4 GPUs"));
  EXPECT_THAT(error("enable_async_tensor_parallel = true\n"), HasSubstr("compile.enable"));
}

// A Llama 3 8B of its real depth.
Import Pipeline(const std::string& keys) {
  Import import = Titan("[parallelism]\npipeline_parallel_degree = 4\n" + keys);
  import.text.replace(import.text.find("size = 2"), 8, "size = 8");
  import.files["models/llama-3-8b.yaml"] =
      "{name: llama-3-8b, transformer: {layers: 32, hidden_size: 8, heads: 2, ffn_size: 8, "
      "vocab_size: 9}}";
  return import;
}

// models/llama3/infra/pipeline.py: stages = ceil((layers + 1 + 1) / layers_per_stage).
TEST(Torchtitan, SplitsTheLayers) {
  const std::string interleaved = "pipeline_parallel_schedule = \"Interleaved1F1B\"\n";
  const struct {
    std::string keys;
    std::vector<double> layers;
    std::int64_t chunks;
  } kCases[] = {
      {"pipeline_parallel_layers_per_stage = 9\n", {8, 9, 8, 7}, 0},  // 34 = 9 + 9 + 8 + 8
      {interleaved + "pipeline_parallel_layers_per_stage = 4\n"
                     "pipeline_parallel_first_stage_less_layers = 0\n"
                     "pipeline_parallel_last_stage_less_layers = 0\n",
       {4, 4, 4, 4, 4, 4, 4, 4},
       2},
      {"pipeline_parallel_first_stage_less_layers = 0\n"
       "pipeline_parallel_last_stage_less_layers = 0\n",
       {8, 8, 8, 8},
       0},
      {interleaved + "pipeline_parallel_last_stage_less_layers = 3\n",
       {4, 5, 5, 5, 4, 4, 4, 1},  // 36 = 4 x 5 + 4 x 4
       2},
      {"pipeline_parallel_split_points = [\"layers.7\", \"layers.15\", \"layers.24\"]\n",
       {7, 8, 9, 8},
       0},
      {"pipeline_parallel_split_points = \"layers.7,layers.15,layers.24\"\n", {7, 8, 9, 8}, 0},
  };
  for (const auto& test : kCases) {
    const PipelinePlan plan = Pipeline(test.keys).Load().job.plan.pipeline;
    EXPECT_EQ(plan.layers_per_stage, test.layers) << test.keys;
    EXPECT_EQ(plan.virtual_stages, test.chunks) << test.keys;
  }
}

TEST(Torchtitan, SplitsByNames) {
  std::string names = "module_fqns_per_model_part = [[\"tok_embeddings\"";
  for (int i = 0; i < 32; ++i) {
    if (i == 5 || i == 14 || i == 24)
      names += "], [\"layers." + std::to_string(i) + "\"";
    else
      names += ", \"layers." + std::to_string(i) + "\"";
  }
  const PipelinePlan plan = Pipeline(names + ", \"norm\", \"output\"]]\n").Load().job.plan.pipeline;
  EXPECT_EQ(plan.layers_per_stage, (std::vector<double>{5, 9, 10, 8}));
}

TEST(Torchtitan, RefusesSplitsThatTorchtitanRefuses) {
  const struct {
    std::string keys, problem;
  } kCases[] = {
      {"pipeline_parallel_layers_per_stage = 5\n",
       "found 7 stages, allowed with the schedule 1F1B: 4, one for each rank"},
      {"pipeline_parallel_schedule = \"ZBVZeroBubble\"\npipeline_parallel_layers_per_stage = 9\n",
       "found 4 stages, allowed with the schedule ZBVZeroBubble: a multiple of 4 ranks"},
      {"pipeline_parallel_schedule = \"Interleaved1F1B\"\npipeline_parallel_layers_per_stage = 5\n",
       "found 7 stages, allowed with the schedule Interleaved1F1B: a multiple of 4 ranks, at least "
       "two for each"},
      {"pipeline_parallel_layers_per_stage = 0\n", "found '0', allowed: a whole number up to"},
      {"pipeline_parallel_layers_per_stage = \"x\"\n", "found 'x', allowed: a whole number"},
      {"pipeline_parallel_first_stage_less_layers = 30\n", "the ends take 30 and 1"},
      {"pipeline_parallel_split_points = [\"layers.40\"]\n", "below the 32 layers"},
      {"module_fqns_per_model_part = [[\"layers.0\"]]\n", "found 1 stages, allowed"},
      {"module_fqns_per_model_part = [[\"lm\"]]\n", "found 'lm' in part 0"},
      {"module_fqns_per_model_part = 7\n", "found 0 stages"},
  };
  for (const auto& test : kCases) {
    EXPECT_THAT(Pipeline(test.keys).Errors(), HasSubstr(test.problem)) << test.keys;
  }
  Import other = Pipeline("pipeline_parallel_layers_per_stage = 9\n");
  other.text.replace(other.text.find("8B"), 2, "9B");
  other.sets.emplace_back("model=tiny");
  EXPECT_THAT(other.Errors(), HasSubstr("--set plan.pipeline.layers_per_stage=[...] says"));
  const ResolvedJob alone = Titan("[parallelism]\npipeline_parallel_layers_per_stage = 9\n").Load();
  EXPECT_THAT(Joined(alone.notes), HasSubstr("only with pipeline parallelism"));
}

// What the importer knows of the depth of the shipped models is what configs/models has.
TEST(Torchtitan, KnowsTheDepthOfShippedModels) {
  const DirectoryConfigSource source(STEPSIM_SOURCE_DIR "/configs");
  const std::vector<std::pair<std::string, std::string>> shipped = {
      {"llama3", "8B"}, {"llama3", "70B"}, {"llama3", "405B"},
      {"llama2", "7B"}, {"llama2", "13B"}, {"llama2", "70B"}};
  for (const auto& [name, flavor] : shipped) {
    const std::string text = "[model]\nname = \"" + name + "\"\nflavor = \"" + flavor +
                             "\"\n[training]\nlocal_batch_size = 8\n[parallelism]\n"
                             "pipeline_parallel_degree = 2\n"
                             "pipeline_parallel_last_stage_less_layers = 2\n";
    const ImportRequest request{.files = {{"torchtitan", {"x.toml", text, ""}}}, .job = {}};
    EXPECT_NO_THROW(LoadImportedJob(request, {"hardware=h100-sxm-dgx", "nodes=1"}, source))
        << name << flavor;
  }
}

// distributed/pipeline_parallel.py: pairs run at once with DualPipeV and experts on several ranks.
TEST(Torchtitan, PairsOfDualPipe) {
  const std::string plain = "pipeline_parallel_expert_parallel_overlap = true\n";
  const ResolvedJob job = Pipeline(plain).Load();
  EXPECT_FALSE(job.job.plan.pipeline.overlap_forward_backward);
  EXPECT_THAT(Joined(job.notes), HasSubstr("only with DualPipeV and experts on several ranks"));

  const auto overlaps = [](const std::string& keys) {
    const Import import = Pipeline("pipeline_parallel_schedule = \"DualPipeV\"\n" + keys);
    Diagnostics ignored;
    const ImportedJob imported =
        ImportTorchtitan({import.file, import.text, ""}, {.gpus = 8}, ignored);
    return std::any_of(imported.over.begin(), imported.over.end(), [](const Setting& setting) {
      return setting.path == "plan.pipeline.overlap_forward_backward";
    });
  };
  EXPECT_TRUE(overlaps("expert_parallel_degree = 2\n"));
  EXPECT_FALSE(overlaps(""));
  EXPECT_FALSE(
      overlaps("expert_parallel_degree = 2\n"
               "pipeline_parallel_expert_parallel_overlap = false\n"));
}

// ParallelDims: experts borrow the sharding ranks, and the tensor parallel ones unless these cut
// them.
TEST(Torchtitan, DealsOutExperts) {
  const auto qwen = [](const std::string& parallelism) {
    return Import{.framework = "torchtitan",
                  .text =
                      "[model]\nname = \"qwen3\"\nflavor = \"30B-A3B\"\n[activation_checkpoint]\n"
                      "mode = \"none\"\n[training]\nlocal_batch_size = 1\nseq_len = 64\n"
                      "[parallelism]\n" +
                      parallelism};
  };
  const ResolvedJob job = qwen("expert_parallel_degree = 4\n").Load();
  EXPECT_EQ(ValueOf(job, "plan.expert_parallel"), "4 (x.toml:10)");
  EXPECT_EQ(ValueOf(job, "plan.expert.tensor_parallel"), "1 (torchtitan's default)");
  EXPECT_EQ(job.job.model.name, "qwen3-30b-a3b");
  EXPECT_EQ(job.job.plan.strategy, "fsdp2");
  const std::string both = "expert_parallel_degree = 4\ntensor_parallel_degree = 2\n";
  EXPECT_EQ(qwen(both).Load().job.plan.expert.tensor_parallel, 1);
  EXPECT_EQ(
      qwen(both + "expert_tensor_parallel_degree = 2\n").Load().job.plan.expert.tensor_parallel, 2);
  EXPECT_THAT(
      qwen(both + "expert_tensor_parallel_degree = 4\n").Errors(),
      HasSubstr("found 4, allowed: tensor_parallel (2), or 1 with expert_parallel above 1"));
  EXPECT_THAT(Joined(qwen("expert_tensor_parallel_degree = 2\n").Load().notes),
              HasSubstr("only with expert parallelism"));
}

TEST(Torchtitan, RefusesWhatIsNotSimulated) {
  const auto error = [](const std::string& more) { return Titan(more).Errors(); };
  EXPECT_THAT(error("[parallelism]\nexpert_parallel_degree = 2\n"),
              HasSubstr("found 2 with model llama-3-8b, which has no experts, allowed: 1"));
  EXPECT_THAT(error("[parallelism]\nexpert_parallel_comm_backend = \"deepep\"\n"),
              HasSubstr("DeepEP"));
  EXPECT_THAT(error("[fault_tolerance]\nenable = true\n"), HasSubstr("torchft"));
  EXPECT_THAT(Titan("", "enable_cpu_offload = true\n").Errors(), HasSubstr("offloading"));
  const std::string float8 = "[model]\nname = \"llama3\"\nflavor = \"8B\"\nconverters = ";
  for (const char* on : {"\"float8\"", "[\"float8\"]"}) {
    EXPECT_THAT((Import{.framework = "torchtitan", .text = float8 + on + "\n"}.Errors()),
                ::testing::AllOf(HasSubstr("x.toml:4:14: model.converters: "),
                                 HasSubstr("to run without it, take the key out")));
    EXPECT_THAT((Import{.framework = "torchtitan", .text = float8 + on + "\n"}.Errors()),
                Not(HasSubstr("or write")));
  }
  // Versions before converters.
  EXPECT_THAT(error("[float8]\nenable_float8_linear = true\n"),
              HasSubstr("float8.enable_float8_linear: found 'true', which stepsim does not "
                        "simulate (float8)"));
  EXPECT_EQ(error("[float8]\nenable_float8_linear = false\n"), "");
  // Switched off they are fine.
  EXPECT_EQ(error("[parallelism]\ntensor_parallel_degree = 1\npipeline_parallel_degree = 1\n"), "");
}

TEST(Torchtitan, NoKeyPassesSilently) {
  const ResolvedJob job = Titan("[lr_scheduler]\nwarmup_steps = 5\n[new_table]\nkey = 1\n",
                                "sed_len = 3\nsteps = 100\nmax_norm = 1.0\n")
                              .Load();
  EXPECT_THAT(Joined(job.warnings),
              HasSubstr("x.toml: not understood and left out: training.sed_len (line 9; nearest "
                        "known: training.seq_len), new_table (line 14)"));
  EXPECT_THAT(Joined(job.notes), HasSubstr("x.toml: 2 keys without effect on the time of a step: "
                                           "length of the training (training.steps); learning rate "
                                           "(lr_scheduler.warmup_steps)"));
  EXPECT_THAT(Joined(job.notes), HasSubstr("clipping of the gradients"));
}

// A summary cuts a warning after two lines, a note only after twelve.
TEST(Torchtitan, ALongListIsANote) {
  const ResolvedJob job = Titan("[new_table]\n", "a1 = 1\na2 = 1\na3 = 1\na4 = 1\n").Load();
  EXPECT_THAT(Joined(job.warnings),
              HasSubstr("x.toml: 5 keys not understood and left out, see the note: training.a1"));
  EXPECT_THAT(Joined(job.notes), HasSubstr("x.toml: not understood and left out: training.a1 "
                                           "(line 9"));
  EXPECT_THAT(Joined(job.notes), HasSubstr("training.a4 (line 12"));
}

TEST(Torchtitan, AModelThatIsNotShippedMustBeGiven) {
  Import import{.framework = "torchtitan",
                .text =
                    "[model]\nname = \"qwen3\"\nflavor = \"0.6B\"\n[activation_checkpoint]\nmode "
                    "= \"none\"\n"};
  EXPECT_THAT(import.Errors(),
              HasSubstr("x.toml: a file of torchtitan does not say: model; give it "
                        "in a JOB file or with, for example, --set "
                        "model=llama-3-8b"));
  import.sets.emplace_back("model=tiny");
  const ResolvedJob job = import.Load();
  EXPECT_EQ(job.job.model.name, "tiny");
  EXPECT_THAT(Joined(job.notes), HasSubstr("qwen3 0.6B is not among the shipped models"));
}

}  // namespace
}  // namespace stepsim
