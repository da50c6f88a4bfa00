#include "models/parallel/build_step.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "models/parallel/chunk_runner.h"
#include "models/parallel/operator_runner.h"
#include "models/parallel/pipeline_program.h"
#include "models/parallel/process_groups.h"
#include "models/parallel/rank_step.h"
#include "models/parallel/strategy.h"
#include "models/spec/pipeline_rules.h"
#include "models/spec/rank_pace.h"
#include "models/spec/sharding.h"
#include "models/workload/stages.h"
#include "sim/base/check.h"

namespace stepsim {
namespace {

LaunchModel LaunchModelOf(const JobSpec& job, HostThread host) {
  LaunchModel model;
  model.has_host = host == HostThread::kLaunches;
  model.has_handovers = TimesOf(job).event_handover > Duration::zero();
  model.captures_graphs = job.host.cuda_graphs;
  model.connections = ConnectionsOf(job);
  return model;
}

// A host that runs ahead is at its steady pace from the second step on: in the first it starts
// together with the device. Before the very first iteration of a job there is nothing.
std::int64_t StepsOf(const JobSpec& job, HostThread host) {
  const bool is_first = IsFirstIteration(job);
  const bool runs_ahead = host == HostThread::kLaunches && !job.host.synchronize;
  return std::max<std::int64_t>(job.simulate.steps, runs_ahead && !is_first ? 2 : 1);
}

HostWork Difference(const HostWork& now, const HostWork& before) {
  return {.launches = now.launches - before.launches,
          .graph_nodes = now.graph_nodes - before.graph_nodes,
          .collective_calls = now.collective_calls - before.collective_calls,
          .graph_launches = now.graph_launches - before.graph_launches};
}

// One rank for each place of the pipeline, or all.
std::vector<std::int32_t> SimulatedRanks(const JobSpec& job, const Mesh& mesh) {
  std::vector<std::int32_t> ranks;
  if (job.simulate.all_ranks) {
    for (std::int64_t r = 0; r < job.gpus(); ++r) ranks.push_back(static_cast<std::int32_t>(r));
    return ranks;
  }
  for (std::int64_t p = 0; p < mesh.Size(MeshAxis::kPipeline); ++p) {
    ranks.push_back(static_cast<std::int32_t>(mesh.Moved(0, MeshAxis::kPipeline, p)));
  }
  return ranks;
}

// PyTorch's pipelines reduce a stage of FSDP after its last backward, and keep its parameters from
// the first micro-batch to the last unless told otherwise.
JobSpec WithPipelineDefaults(const JobSpec& job) {
  JobSpec changed = job;
  if (job.plan.pipeline_parallel == 1 || !Uses(job, "fsdp2")) return changed;
  Fsdp2Plan& plan = changed.plan.fsdp2;
  plan.requires_gradient_sync = plan.reshard_after_backward = plan.is_last_backward = false;
  if (plan.reshard_after_forward == "auto") plan.reshard_after_forward = "false";
  return changed;
}

PipelineRules RulesOf(const JobSpec& job, const PipelineSchedule& schedule) {
  const PipelinePlan& plan = job.plan.pipeline;
  PipelineRules rules;
  rules.runtime = RuntimeOf(job);
  rules.has_one_communicator = plan.eager_communicators;
  rules.overlaps_transfers = plan.overlap_p2p_comm.value_or(schedule.shape.chunks > 1);
  rules.overlaps_warmup = plan.overlap_p2p_comm_warmup_flush;
  rules.synchronizes = WaitsForTransfers(job);
  rules.aligns_gather = Uses(job, "megatron") && job.plan.megatron.overlap_param_gather &&
                        job.plan.megatron.align_param_gather;
  rules.aligns_reduction = job.plan.megatron.align_grad_reduce;
  rules.runs_pairs = PairsMicrobatches(job);
  rules.shards_stages = Uses(job, "fsdp2");
  rules.reduces_after_backward =
      Uses(job, "fsdp2") || (Uses(job, "megatron") && job.plan.megatron.overlap_grad_reduce);
  return rules;
}

// What all ranks have in common.
struct StepPlan {
  JobSpec job;
  std::vector<Workload> stages;  // empty: the network is one
  PipelineSchedule schedule;
  PipelineProgram program;
};

StepPlan PlanStep(const JobSpec& job, const Workload& workload) {
  StepPlan plan{WithPipelineDefaults(job), {}, {}, {}};
  if (job.plan.pipeline_parallel == 1) return plan;
  plan.schedule = ScheduleOf(job);
  plan.stages = SplitWorkload(job, workload, SplitLayers(job, workload, plan.schedule.stages()));
  plan.program = PlanPipeline(RulesOf(job, plan.schedule), plan.schedule);
  return plan;
}

class StepBuilder {
 public:
  StepBuilder(const JobSpec& job, const Workload& workload, HostThread host)
      : plan_(PlanStep(job, workload)),
        workload_(workload),
        row_(FindStrategy(job.plan.strategy)),
        mesh_(job.plan, job.gpus()),
        groups_(graph_, mesh_, job.plan.copies()),
        ranks_(SimulatedRanks(job, mesh_)),
        meetings_(ranks_),
        model_(LaunchModelOf(job, host)),
        steps_(StepsOf(job, host)) {
    SIM_CHECK(row_ != nullptr, "the job names an unknown strategy");
  }

  BuiltStep Build() && {
    std::vector<HostWork> host_work;
    for (const std::int32_t r : ranks_) {
      const RankId id = graph_.AddRank(
          {r, static_cast<std::int32_t>(mesh_.gpus() / static_cast<std::int64_t>(ranks_.size())),
           NameOf(r)});
      model_.pace = RankPaceOf(plan_.job, r);
      RankProgram rank(graph_, meetings_, id, model_);
      OperatorRunner run(plan_.job, groups_, rank, r);
      const PipelinePlace place = PlaceOf(r);
      std::vector<ModelChunk> chunks = ChunksOf(place, rank, run, r);
      std::vector<const Workload*> workloads;
      for (const ModelChunk& chunk : chunks) workloads.push_back(&chunk.runner->workload());
      RankStep builder(plan_.job, groups_, rank, std::move(chunks),
                       FinishGradients(plan_.job, groups_, rank, r, std::move(workloads)), place);
      for (std::int32_t step = 0; step < steps_; ++step) {
        const HostWork before = rank.host_work();
        builder.Build(step);
        if (step + 1 == steps_) host_work.push_back(Difference(rank.host_work(), before));
      }
      builder.AddContext();
    }
    return {std::move(graph_).Build(), std::move(host_work)};
  }

 private:
  std::string NameOf(std::int32_t rank) const {
    if (plan_.stages.empty()) return "";
    return "pp " + std::to_string(mesh_.PlaceOf(rank, MeshAxis::kPipeline));
  }

  PipelinePlace PlaceOf(std::int32_t rank) const {
    PipelinePlace place;
    if (plan_.stages.empty()) return place;
    place.program = &plan_.program;
    place.rank = static_cast<std::int32_t>(mesh_.PlaceOf(rank, MeshAxis::kPipeline));
    place.stages = plan_.schedule.stages();
    for (std::int64_t p = 0; p < mesh_.Size(MeshAxis::kPipeline); ++p) {
      place.peers.push_back(static_cast<std::int32_t>(mesh_.Moved(rank, MeshAxis::kPipeline, p)));
    }
    for (const Workload& stage : plan_.stages) place.edges.push_back(stage.units.back().output);
    const bool is_megatron = RuntimeOf(plan_.job) == PipelineRuntime::kMegatron;
    place.splits_first_stage = is_megatron;
    place.runs_pairs = PairsMicrobatches(plan_.job);
    place.keeps_outputs = !is_megatron || !plan_.job.plan.pipeline.deallocate_pipeline_outputs;
    return place;
  }

  std::vector<ModelChunk> ChunksOf(const PipelinePlace& place, RankProgram& rank,
                                   OperatorRunner& run, std::int32_t r) {
    std::vector<std::int32_t> stages = {0};
    if (place.program != nullptr) stages = plan_.schedule.StagesOf(place.rank);
    std::vector<ModelChunk> chunks;
    for (const std::int32_t s : stages) {
      const Workload& workload =
          plan_.stages.empty() ? workload_ : plan_.stages[static_cast<std::size_t>(s)];
      ModelChunk chunk{s, row_->make(ContextOf(workload, rank, r, s)), nullptr};
      chunk.runner = std::make_unique<ChunkRunner>(plan_.job, workload, rank, run, *chunk.strategy);
      chunks.push_back(std::move(chunk));
    }
    return chunks;
  }

  StrategyContext ContextOf(const Workload& workload, RankProgram& rank, std::int32_t r,
                            std::int32_t stage) {
    const Shardings shardings = ShardingsOf(plan_.job);
    StrategyContext context{plan_.job, workload, rank, groups_, DenseGroups(shardings.dense, r),
                            {},        r,        stage};
    if (plan_.job.plan.has_expert_mesh()) context.experts = ExpertGroups(shardings.experts, r);
    return context;
  }

  // HSDP: consecutive ranks hold one copy; ranks a copy apart hold the same shard.
  ReplicaGroups DenseGroups(const Sharding& sharding, std::int32_t r) {
    const GroupId all = groups_.Gradients(r);
    if (sharding.shards == 1 || sharding.replicas == 1) return {all, all, all};
    return {all, groups_.Part(r, sharding.shards, 1, "shard", "one copy of the parameters"),
            groups_.Part(r, sharding.replicas, sharding.shards, "replicate",
                         "the same shard of every copy")};
  }
  ReplicaGroups ExpertGroups(const Sharding& sharding, std::int32_t r) {
    const GroupId all = groups_.ExpertGradients(r);
    if (sharding.shards == 1 || sharding.replicas == 1) return {all, all, all};
    return {all,
            groups_.PartOfExperts(r, sharding.shards, 1, "edp shard", "one copy of the experts"),
            groups_.PartOfExperts(r, sharding.replicas, sharding.shards, "edp replicate",
                                  "the same shard of every copy of the experts")};
  }

  StepPlan plan_;
  const Workload& workload_;
  const StrategyRow* row_;
  TaskGraphBuilder graph_;
  Mesh mesh_;
  ProcessGroups groups_;
  std::vector<std::int32_t> ranks_;
  Meetings meetings_;
  LaunchModel model_;
  std::int64_t steps_;
};

}  // namespace

BuiltStep BuildStep(const JobSpec& job, const Workload& workload, HostThread host) {
  return StepBuilder(job, workload, host).Build();
}

}  // namespace stepsim
