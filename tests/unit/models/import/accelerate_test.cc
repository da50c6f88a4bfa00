// Expectations are what Accelerate documents for its configuration (usage guides of FSDP, DeepSpeed
// and Megatron-LM) and its plugins' defaults (utils/dataclasses.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/support/imported.h"

namespace stepsim {
namespace {

using ::testing::HasSubstr;
using testing::Import;
using testing::Joined;
using testing::ValueOf;

// Two machines with two GPUs each.
Import Accelerate(const std::string& type, const std::string& more = "") {
  return {.framework = "accelerate",
          .text = "compute_environment: LOCAL_MACHINE\ndistributed_type: " + type +
                  "\nmixed_precision: bf16\nnum_machines: 2\nnum_processes: 4\n" + more,
          .file = "conf/acc.yaml",
          .sets = {"hardware=box", "model=tiny", "batch.sequence_length=8",
                   "batch.micro_batch_size=2"}};
}

TEST(Accelerate, ProcessesAreGpusOfAllMachines) {
  const ResolvedJob job = Accelerate("MULTI_GPU").Load();
  EXPECT_EQ(job.job.plan.strategy, "ddp");
  EXPECT_EQ(ValueOf(job, "nodes"), "2 (acc.yaml:4)");
  EXPECT_EQ(ValueOf(job, "gpus_per_node"), "2 (acc.yaml:5)");
  EXPECT_EQ(job.job.precision.compute, DType::kBf16);
  Import import = Accelerate("MULTI_GPU");
  import.text += "fsdp_config: {}\n";
  import.text.replace(import.text.find("processes: 4"), 12, "processes: 5");
  EXPECT_THAT(import.Errors(),
              HasSubstr("conf/acc.yaml:5:16: num_processes: num_processes (5) must "
                        "be a multiple of num_machines (2)"));
}

TEST(Accelerate, Fsdp1) {
  const auto plan = [](const std::string& config) {
    return Accelerate("FSDP", "fsdp_config:\n" + config).Load().job.plan.fsdp1;
  };
  const std::string wrap = "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n";
  const Fsdp1Plan defaults = plan(wrap);
  EXPECT_EQ(defaults.sharding_strategy, ShardingStrategy::kFullShard);
  EXPECT_EQ(defaults.backward_prefetch, BackwardPrefetch::kNone);
  EXPECT_EQ(defaults.wrap, WrapPolicy::kLayer);
  EXPECT_TRUE(defaults.limit_all_gathers);
  EXPECT_FALSE(defaults.forward_prefetch);

  const Fsdp1Plan all =
      plan(wrap +
           "  fsdp_sharding_strategy: HYBRID_SHARD\n  fsdp_backward_prefetch: BACKWARD_POST\n"
           "  fsdp_forward_prefetch: true\n  fsdp_use_orig_params: true\n");
  EXPECT_EQ(all.sharding_strategy, ShardingStrategy::kHybridShard);
  EXPECT_EQ(all.backward_prefetch, BackwardPrefetch::kPost);
  EXPECT_TRUE(all.forward_prefetch);
  // Numbers and older names.
  const Fsdp1Plan older =
      plan(wrap + "  fsdp_sharding_strategy: 2\n  fsdp_backward_prefetch_policy: BACKWARD_PRE\n");
  EXPECT_EQ(older.sharding_strategy, ShardingStrategy::kShardGradOp);
  EXPECT_EQ(older.backward_prefetch, BackwardPrefetch::kPre);
}

TEST(Accelerate, Fsdp2) {
  const auto job = [](const std::string& config) {
    return Accelerate("FSDP",
                      "fsdp_config:\n  fsdp_version: 2\n"
                      "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n" +
                          config)
        .Load();
  };
  const ResolvedJob defaults = job("");
  EXPECT_EQ(defaults.job.plan.strategy, "fsdp2");
  EXPECT_EQ(defaults.job.plan.fsdp2.reshard_after_forward, "true");
  EXPECT_EQ(job("  fsdp_reshard_after_forward: false\n").job.plan.fsdp2.reshard_after_forward,
            "false");
  const ResolvedJob checkpointed =
      job("  fsdp_activation_checkpointing: true\n  fsdp_backward_prefetch: BACKWARD_PRE\n");
  EXPECT_TRUE(checkpointed.job.recompute.IsFull());
  EXPECT_TRUE(checkpointed.job.recompute.early_stop);
  EXPECT_THAT(Joined(checkpointed.notes),
              HasSubstr("only with FSDP1 (fsdp_config.fsdp_backward_prefetch)"));
}

TEST(Accelerate, WrappingPolicies) {
  const ResolvedJob by_size = Accelerate("FSDP",
                                         "fsdp_config:\n  fsdp_auto_wrap_policy: SIZE_BASED_WRAP\n"
                                         "  fsdp_min_num_params: 2000\n")
                                  .Load();
  EXPECT_EQ(by_size.job.plan.fsdp1.wrap, WrapPolicy::kMinParameters);
  EXPECT_EQ(by_size.job.plan.fsdp1.wrap_min_parameters, 2000);
  const ResolvedJob whole =
      Accelerate("FSDP", "fsdp_config:\n  fsdp_auto_wrap_policy: NO_WRAP\n").Load();
  EXPECT_EQ(whole.job.plan.fsdp1.wrap, WrapPolicy::kMinParameters);
  EXPECT_THAT(Joined(whole.notes), HasSubstr("the whole model is gathered as one"));
}

TEST(Accelerate, DeepspeedInline) {
  const ResolvedJob job =
      Accelerate("DEEPSPEED",
                 "deepspeed_config:\n  zero_stage: 3\n  gradient_accumulation_steps: 4\n"
                 "  gradient_clipping: 1.0\n  offload_optimizer_device: none\n"
                 "  zero3_init_flag: true\nfsdp_config: {}\n")
          .Load();
  EXPECT_EQ(job.job.plan.strategy, "zero");
  EXPECT_EQ(job.job.plan.zero.stage, 3);
  EXPECT_EQ(job.job.batch.gradient_accumulation_steps, 4);
  EXPECT_THAT(Joined(job.notes), HasSubstr("of a library that is not used (fsdp_config)"));
}

// The named file counts from the one that names it; "auto" there is what this file says.
TEST(Accelerate, DeepspeedFile) {
  Import import = Accelerate("DEEPSPEED", "deepspeed_config:\n  deepspeed_config_file: ds.json\n");
  import.files = {
      { "conf/ds.json",
        "{\"zero_optimization\": {\"stage\": 2, \"overlap_comm\": true}, \"bf16\": "
        "{\"enabled\": \"auto\"}, \"train_micro_batch_size_per_gpu\": 2, "
        "\"gradient_accumulation_steps\": 3}" }};
  const ResolvedJob job = import.Load();
  EXPECT_EQ(ValueOf(job, "plan.zero.stage"), "2 (ds.json:1)");
  EXPECT_EQ(job.job.precision.compute, DType::kBf16);
  EXPECT_EQ(job.job.batch.gradient_accumulation_steps, 3);
  import.files.clear();
  EXPECT_THAT(import.Errors(),
              HasSubstr("conf/acc.yaml:7:26: "
                        "deepspeed_config.deepspeed_config_file: ds.json: found no "
                        "such file"));
}

TEST(Accelerate, Megatron) {
  const ResolvedJob job =
      Accelerate("MEGATRON_LM",
                 "megatron_lm_config:\n  megatron_lm_tp_degree: 1\n  megatron_lm_pp_degree: 1\n"
                 "  megatron_lm_num_micro_batches: 2\n  megatron_lm_recompute_activations: true\n"
                 "  megatron_lm_use_distributed_optimizer: true\n")
          .Load();
  EXPECT_EQ(job.job.plan.strategy, "megatron");
  EXPECT_TRUE(job.job.plan.megatron.use_distributed_optimizer);
  EXPECT_EQ(job.job.batch.gradient_accumulation_steps, 2);
  EXPECT_TRUE(job.job.recompute.IsSelective(RecomputePolicy::kModules));
  // Sequence parallelism is off unless asked for.
  const auto is_cut = [](const std::string& more) {
    const ParallelPlan plan =
        Accelerate("MEGATRON_LM", "megatron_lm_config: {megatron_lm_tp_degree: 2" + more + "}\n")
            .Load()
            .job.plan;
    EXPECT_EQ(plan.tensor_parallel, 2);
    return plan.sequence_parallel();
  };
  EXPECT_FALSE(is_cut(""));
  EXPECT_TRUE(is_cut(", megatron_lm_sequence_parallelism: true"));
}

// The norm of all gradients is simulated with model parallelism; 0 turns clipping off.
TEST(Accelerate, MegatronClipsOverAllRanks) {
  const auto load = [](const std::string& norm) {
    return Accelerate("MEGATRON_LM",
                      "megatron_lm_config: {megatron_lm_tp_degree: 2, "
                      "megatron_lm_gradient_clipping: " +
                          norm + "}\n")
        .Load();
  };
  EXPECT_EQ(ValueOf(load("1.0"), "plan.clip_gradients").substr(0, 4), "true");
  EXPECT_EQ(ValueOf(load("0"), "plan.clip_gradients").substr(0, 5), "false");
}

TEST(Accelerate, Compiler) {
  EXPECT_EQ(Accelerate("MULTI_GPU", "dynamo_backend: 'NO'\n").Load().job.kernels,
            KernelMode::kEager);
  EXPECT_EQ(
      Accelerate("MULTI_GPU", "dynamo_config: {dynamo_backend: INDUCTOR}\n").Load().job.kernels,
      KernelMode::kCompiled);
}

TEST(Accelerate, SaysWhatIsMissingOrWrong) {
  Import import = Accelerate("MULTI_GPU");
  import.sets = {};
  EXPECT_THAT(import.Errors(),
              HasSubstr("a file of accelerate does not say: model, hardware, "
                        "batch.sequence_length, batch.micro_batch_size; give them"));
  EXPECT_THAT(Accelerate("XLA").Errors(), HasSubstr("distributed_type: found 'XLA', allowed: NO, "
                                                    "MULTI_GPU, FSDP, DEEPSPEED, MEGATRON_LM"));
  EXPECT_THAT(Accelerate("MULTI_GPU", "fp8_config: {backend: TE}\n").Errors(), HasSubstr("fp8"));
  EXPECT_THAT(Joined(Accelerate("MULTI_GPU", "num_procesess: 4\n").Load().warnings),
              HasSubstr("num_procesess (line 6; nearest known: num_processes)"));
}

// Accelerate's ParallelismConfig: sizes of dp_replicate x dp_shard x cp x tp. Four processes.
std::string Mesh(const std::string& sizes) {
  std::string text = "parallelism_config:\n";
  std::size_t begin = 0;
  while (begin < sizes.size()) {
    const std::size_t end = std::min(sizes.find(' ', begin), sizes.size());
    std::string pair = sizes.substr(begin, end - begin);
    pair.replace(pair.find('='), 1, ": ");
    text += "  parallelism_config_" + pair + "\n";
    begin = end + 1;
  }
  return text;
}
const std::string kFsdp2 =
    "fsdp_config: {fsdp_version: 2, fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP}\n";

TEST(Accelerate, AMeshOfSeveralDimensions) {
  const auto plan = [](const std::string& type, const std::string& sizes) {
    return Accelerate(type, (type == "FSDP" ? kFsdp2 : "") + Mesh(sizes)).Load().job.plan;
  };
  const ParallelPlan tensor = plan("FSDP", "dp_shard_size=2 tp_size=2");
  EXPECT_EQ(tensor.strategy, "fsdp2");
  EXPECT_EQ(tensor.tensor_parallel, 2);
  EXPECT_EQ(tensor.data_parallel, 2);
  EXPECT_EQ(tensor.tensor.sequence_parallel, false);
  EXPECT_FALSE(tensor.tensor.vocabulary_parallel_loss);
  const ParallelPlan context = plan("FSDP", "dp_shard_size=2 cp_size=2");
  EXPECT_EQ(context.context_parallel, 2);
  EXPECT_EQ(context.context.comm_type, ContextExchange::kAllGather);
  EXPECT_EQ(context.fsdp2.shard_size, 0);  // over all
  EXPECT_EQ(plan("FSDP", "dp_shard_size=2 cp_size=2 cp_comm_strategy=alltoall").context.comm_type,
            ContextExchange::kP2p);
  const ParallelPlan hybrid = plan("FSDP", "dp_replicate_size=2 dp_shard_size=2 tp_size=1");
  EXPECT_EQ(hybrid.fsdp2.shard_size, 2);
  EXPECT_EQ(plan("MULTI_GPU", "dp_replicate_size=4").strategy, "ddp");
  Import alone = Accelerate("MULTI_GPU", Mesh("tp_size=2"));
  alone.text.replace(alone.text.find("processes: 4"), 12, "processes: 2");
  EXPECT_EQ(alone.Load().job.plan.strategy, "none");
  EXPECT_EQ(alone.Load().job.plan.tensor_parallel, 2);
}

TEST(Accelerate, RefusesMeshesThatAccelerateRefuses) {
  const struct {
    std::string type, text, problem;
  } kCases[] = {
      {"FSDP", kFsdp2 + Mesh("dp_shard_size=2 tp_size=4"),
       "num_processes: found 4, allowed: dp_replicate_size x dp_shard_size x tp_size x cp_size of "
       "parallelism_config (1 x 2 x 4 x 1)"},
      {"FSDP", kFsdp2 + Mesh("dp_replicate_size=2 tp_size=2"),
       "found replicas without shards beside tp_size or cp_size"},
      {"FSDP", "fsdp_config: {fsdp_version: 1}\n" + Mesh("dp_shard_size=2 tp_size=2"),
       "found with another library than FSDP2"},
      {"MULTI_GPU", Mesh("dp_shard_size=4"), "found with another library than FSDP2"},
      {"DEEPSPEED", Mesh("tp_size=4"), "distributed_type: found DEEPSPEED beside"},
      {"FSDP", kFsdp2 + Mesh("dp_shard_size=4 sp_size=2"), "sequence_parallel_size"},
      {"FSDP", kFsdp2 + Mesh("dp_shard_size=0"), "found 0, allowed: a whole number from 1"},
      {"FSDP", kFsdp2 + Mesh("dp_shard_size=x"), "found 'x', allowed: a whole number"},
      {"FSDP", kFsdp2 + Mesh("dp_shard_size=2 cp_size=2 cp_comm_strategy=ring"),
       "found 'ring', allowed: allgather, alltoall"},
      {"TP", "tp_config: {tp_size: 4}\n", "parallelism_config_tp_size"},
  };
  for (const auto& test : kCases) {
    EXPECT_THAT(Accelerate(test.type, test.text).Errors(), HasSubstr(test.problem));
  }
  const ResolvedJob off =
      Accelerate("FSDP", kFsdp2 + "use_parallelism_config: false\n" + Mesh("tp_size=2")).Load();
  EXPECT_EQ(off.job.plan.tensor_parallel, 1);
  EXPECT_THAT(Joined(off.notes), HasSubstr("off (parallelism_config)"));
}

}  // namespace
}  // namespace stepsim
