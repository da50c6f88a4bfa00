// What holds for every mixture of tensor, context, pipeline and data parallelism?
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "models/parallel/build_step.h"
#include "models/run_step.h"
#include "models/simulate_job.h"
#include "models/spec/check_job.h"
#include "models/topology/mesh.h"
#include "tests/support/random_job.h"
#include "tests/support/shipped.h"

namespace stepsim {
namespace {

constexpr std::uint64_t kJobs = 400;

// Draws that do not follow from those of the job.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : state_((seed + 7) * 0x9E3779B97F4A7C15ull) {}
  template <class T>
  T Of(const std::vector<T>& choices) {
    state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
    return choices[(state_ >> 33) % choices.size()];
  }

 private:
  std::uint64_t state_;
};

// A mixture on every third job.
void DrawExperts(Draw& draw, JobSpec& job) {
  ParallelPlan& plan = job.plan;
  // Experts ask for a sequence that is cut over the tensor-parallel ranks.
  if (plan.tensor_parallel > 1 && !plan.sequence_parallel()) return;
  auto& spec = std::get<TransformerSpec>(job.model.network);
  if (!draw.Of<bool>({false, false, true})) return;
  spec.experts = {
      .count = 4, .top_k = 2, .ffn_size = 256, .shared_ffn_size = draw.Of<std::int64_t>({0, 512})};
  plan.expert_parallel = draw.Of<std::int64_t>({1, 2, 4});
  plan.expert.dispatcher = draw.Of<ExpertDispatcher>(
      {ExpertDispatcher::kAllToAll, ExpertDispatcher::kAllToAll, ExpertDispatcher::kAllGather});
  plan.fsdp2.layer_prefetch = draw.Of<bool>({false, true});
  plan.fsdp2.shard_size = draw.Of<std::int64_t>({0, 0, 4});
  if (plan.strategy != "megatron") {
    if (plan.strategy == "zero") plan.expert_parallel = 1;
    if (plan.expert_parallel > 1) plan.expert.dispatcher = ExpertDispatcher::kAllToAll;
    if (job.gradient_ranks() <= 4) plan.fsdp2.shard_size = 0;
  }
  if (plan.expert_parallel > 1) plan.expert.tensor_parallel = draw.Of<std::int64_t>({0, 1});
  plan.expert.shared_expert_overlap = spec.experts.shared_ffn_size > 0 &&
                                      plan.expert.dispatcher == ExpertDispatcher::kAllToAll &&
                                      draw.Of<bool>({false, true});
}

// Eight GPUs on two nodes, a small Llama, every degree and schedule.
ResolvedJob ParallelJob(std::uint64_t seed) {
  ResolvedJob resolved = testing::RandomJob(seed);
  JobSpec& job = resolved.job;
  Draw draw(seed);
  job.model.network = TransformerSpec{.layers = 8,
                                      .hidden_size = 256,
                                      .heads = 8,
                                      .kv_heads = draw.Of<std::int64_t>({2, 8}),
                                      .head_dim = 32,
                                      .ffn_size = 512,
                                      .gated_mlp = true,
                                      .vocab_size = 1024,
                                      .tied_embeddings = draw.Of<bool>({false, true})};
  job.attention = AttentionKind::kFlash;
  job.recompute = {};
  job.recompute.granularity =
      draw.Of<RecomputeGranularity>({RecomputeGranularity::kNone, RecomputeGranularity::kFull});
  job.batch = {.micro_batch_size = 1, .sequence_length = 256};
  job.nodes = 2;
  job.gpus_per_node = job.hardware.gpus_per_node = 4;
  ParallelPlan& plan = job.plan;
  plan = {};
  plan.strategy = draw.Of<std::string>({"ddp", "fsdp2", "megatron", "zero", "none"});
  plan.zero.stage = 1;
  plan.megatron.use_distributed_optimizer = draw.Of<bool>({false, true});
  plan.megatron.overlap_grad_reduce = draw.Of<bool>({false, true});
  plan.megatron.overlap_param_gather = plan.megatron.use_distributed_optimizer &&
                                       plan.megatron.overlap_grad_reduce &&
                                       draw.Of<bool>({false, true});
  plan.tensor_parallel = draw.Of<std::int64_t>({1, 2});
  plan.context_parallel = draw.Of<std::int64_t>({1, 1, 2});
  plan.pipeline_parallel = draw.Of<std::int64_t>({1, 2, 4});
  while (plan.model_ranks() > 8) plan.pipeline_parallel /= 2;
  plan.data_parallel = job.replicas();
  plan.tensor.sequence_parallel = draw.Of<bool>({false, true});
  plan.mesh_order = draw.Of<std::string>({"tp-cp-dp-pp", "tp-cp-pp-dp", "pp-dp-cp-tp"});
  plan.pipeline.schedule = draw.Of<std::string>(
      {"1f1b", "gpipe", "interleaved_1f1b", "zb1p", "zbv", "dualpipev", "looped_bfs", "v_half"});
  plan.pipeline.runtime =
      draw.Of<PipelineRuntime>({PipelineRuntime::kAuto, PipelineRuntime::kMegatron});
  job.batch.gradient_accumulation_steps = plan.pipeline_parallel * draw.Of<std::int64_t>({1, 2, 3});
  DrawExperts(draw, job);
  return resolved;
}

// Two micro-batches at once, where the experts' exchanges and the schedule allow it.
void Pair(std::uint64_t seed, JobSpec* job) {
  Draw draw(seed + kJobs);
  ParallelPlan& plan = job->plan;
  const bool joins = plan.pipeline_parallel > 1 && draw.Of<bool>({false, false, true});
  if (joins) {
    plan.pipeline.schedule = draw.Of<std::string>({"dualpipe", "dualpipev"});
    job->batch.gradient_accumulation_steps = 2 * plan.pipeline_parallel;
  }
  if (plan.expert_parallel == 1 || draw.Of<bool>({false, false, true})) return;
  plan.expert.dispatcher = ExpertDispatcher::kAllToAll;
  plan.expert.shared_expert_overlap = false;
  plan.expert.delay_weight_gradients = draw.Of<bool>({false, true});
  job->recompute = {};
  job->precision.compute = DType::kBf16;
  plan.pipeline.overlap_forward_backward = joins;
  plan.expert.overlap_microbatches = !joins;
  if (!joins && plan.pipeline_parallel > 1) plan.pipeline.schedule = "interleaved_1f1b";
}

template <class Check>
void ForEachJob(Check check) {
  std::size_t tried = 0;
  for (std::uint64_t seed = 0; seed < kJobs; ++seed) {
    ResolvedJob job = ParallelJob(seed);
    Pair(seed, &job.job);
    if (!IsPossible(job.job)) continue;  // dualpipev with too few micro-batches and its like
    ++tried;
    SCOPED_TRACE("seed " + std::to_string(seed));
    check(job);
    if (::testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GT(tried, kJobs / 2);  // else the jobs no longer say anything
}

// The identity holds to the picosecond, which AccountWindow checks; the step is none of its parts.
TEST(Parallel, EveryPicosecondIsAccountedFor) {
  ForEachJob([](const ResolvedJob& job) {
    const StepResult result = RunStep(job);
    const StepReport& report = result.report;
    testing::ExpectPathTilesStep(result.graph, result.timeline, report);
    EXPECT_EQ(static_cast<std::int64_t>(report.ranks.size()), job.job.plan.pipeline_parallel);
    for (const RankAccount& rank : report.ranks) {
      EXPECT_EQ(rank.step, rank.compute + rank.contention + rank.exposed_total() + rank.peer_wait +
                               rank.bubble + rank.host + rank.idle);
      EXPECT_GT(rank.compute, Duration::zero());
    }
  });
}

TEST(Parallel, MemoryIsGivenBack) {
  ForEachJob([](const ResolvedJob& job) {
    const SimulatedStep step = SimulateJob(job.job, BuildWorkload(job.job));
    std::map<std::pair<std::size_t, std::string>, std::int64_t> left;
    for (const MemoryEvent& event : step.graph.memory_events()) {
      left[{Index(step.graph.rank(event.task)), step.graph.memory_categories()[event.category]}] +=
          event.delta.value;
    }
    for (const auto& [key, bytes] : left) {
      EXPECT_EQ(bytes, 0) << "rank " << key.first << ": " << key.second << ", "
                          << job.job.plan.strategy << ", " << job.job.plan.pipeline.schedule;
    }
  });
}

// FLOPs and bytes of all kernels, bytes of all collectives.
std::tuple<double, std::int64_t, std::int64_t> WorkOf(const JobSpec& job) {
  const TaskGraph graph = BuildStep(job, BuildWorkload(job), HostThread::kAhead).graph;
  double flops = 0;
  std::int64_t bytes = 0, sent = 0;
  for (const TaskId t : AllIds<TaskId>(graph.task_count())) {
    if (const auto* kernel = std::get_if<ComputeWork>(&graph.work(t))) {
      flops += kernel->flops.value;
      bytes += kernel->bytes.value;
    } else if (const auto* collective = std::get_if<CollectiveWork>(&graph.work(t))) {
      sent += collective->bytes.value;
    }
  }
  return {flops, bytes, sent};
}

// A pair does what its passes do one after the other, in one of the orders in which they could: in
// a row of all that it launches nothing would be over earlier. Reductions that overlap are left
// out.
TEST(Parallel, PairsDoTheSameInNoMoreTime) {
  int tried = 0;
  ForEachJob([&](ResolvedJob job) {
    ParallelPlan& plan = job.job.plan;
    if (!plan.expert.overlap_microbatches) return;
    plan.pipeline_parallel = 1;
    plan.data_parallel = job.job.replicas();
    plan.megatron.overlap_grad_reduce = plan.megatron.overlap_param_gather = false;
    job.job.contention = ContentionMode::kOff;
    const RankAccount pairs = RunStep(job).report.ranks.front();
    const auto paired_work = WorkOf(job.job);
    plan.expert.overlap_microbatches = false;
    plan.expert.delay_weight_gradients.reset();
    const RankAccount row = RunStep(job).report.ranks.front();
    const auto site = static_cast<std::size_t>(Site::kExpertParallel);
    EXPECT_LE(pairs.exposed[site], row.exposed[site]);
    EXPECT_LE(pairs.step, row.step);
    EXPECT_EQ(paired_work, WorkOf(job.job));
    ++tried;
  });
  EXPECT_GT(tried, 3);
}

// One rank per stage stands for its tensor, context and data parallel peers. (In a ring of keys and
// values the ranks differ by the shapes of their kernels: here they exchange heads.)
TEST(Parallel, FoldedRanksAreAllRanks) {
  std::uint64_t count = 0;
  ForEachJob([&](ResolvedJob job) {
    if (++count % 4 != 0) return;
    job.job.plan.context.comm_type = ContextExchange::kAllToAll;
    job.job.contention = ContentionMode::kFull;
    const StepReport folded = RunStep(job).report;
    job.job.simulate.all_ranks = true;
    const StepReport all = RunStep(job).report;
    ASSERT_EQ(static_cast<std::int64_t>(all.ranks.size()), job.job.gpus());
    for (std::size_t r = 0; r < all.ranks.size(); ++r) {
      // The folded rank that stands for it: the one with its place along the pipeline.
      const Mesh mesh(job.job.plan, job.job.gpus());
      const auto stage =
          static_cast<std::size_t>(mesh.PlaceOf(static_cast<std::int64_t>(r), MeshAxis::kPipeline));
      EXPECT_EQ(all.ranks[r].step, folded.ranks[stage].step) << r;
      EXPECT_EQ(all.ranks[r].compute, folded.ranks[stage].compute) << r;
      EXPECT_EQ(all.ranks[r].communication, folded.ranks[stage].communication) << r;
    }
  });
}

// However the network is cut up, the matrix products are the same.
TEST(Parallel, RanksShareTheProducts) {
  ForEachJob([](const ResolvedJob& job) {
    if (job.job.plan.context_parallel > 1 || job.job.recompute.IsOn()) return;
    JobSpec alone = job.job;
    alone.plan.tensor_parallel = alone.plan.pipeline_parallel = 1;
    const auto products = [](const JobSpec& spec) {
      const SimulatedStep step = SimulateJob(spec, BuildWorkload(spec));
      std::int32_t last = 0;
      for (const TaskId t : AllIds<TaskId>(step.graph.task_count())) {
        last = std::max(last, step.graph.position(t).step);
      }
      double flops = 0;
      for (const TaskId t : AllIds<TaskId>(step.graph.task_count())) {
        const auto* work = std::get_if<ComputeWork>(&step.graph.work(t));
        if (work == nullptr || step.graph.position(t).step != last) continue;
        // DTensor: every tensor-parallel rank routes all tokens.
        if (step.graph.label(t).name.find("moe.router") != std::string::npos) continue;
        if (work->compute_class == ComputeClass::kGemm) flops += work->flops.value;
      }
      return flops;
    };
    const double tensor = static_cast<double>(job.job.plan.tensor_parallel);
    const bool keeps_heads = TransformerOf(job.job)->kv_heads % job.job.plan.tensor_parallel == 0;
    if (!keeps_heads) return;
    EXPECT_DOUBLE_EQ(products(job.job) * tensor, products(alone));
  });
}

}  // namespace
}  // namespace stepsim
