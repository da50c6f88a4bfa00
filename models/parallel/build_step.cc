#include "models/parallel/build_step.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "models/parallel/operator_runner.h"
#include "models/parallel/process_groups.h"
#include "models/parallel/step_memory.h"
#include "models/parallel/strategy.h"
#include "models/spec/sharding.h"
#include "models/workload/kernel_work.h"
#include "models/workload/optimizer_work.h"
#include "sim/base/check.h"

namespace stepsim {
namespace {

class StepBuilder {
 public:
  StepBuilder(const JobSpec& job, const Workload& workload, RankProgram& rank, OperatorRunner& run,
              Strategy& strategy)
      : job_(job),
        workload_(workload),
        rank_(rank),
        run_(run),
        strategy_(strategy),
        memory_(job, workload, rank) {}

  void BuildStepNumber(std::int32_t step) {
    const auto microsteps = static_cast<std::int32_t>(job_.batch.gradient_accumulation_steps);
    rank_.BeginStep();
    for (std::int32_t m = 0; m < microsteps; ++m) {
      const Moment moment{rank_, m, step, m == 0, m + 1 == microsteps};
      rank_.SetPosition(Phase::kForward, {m, step});
      rank_.BeginGraph();
      Forward(moment);
      rank_.SetPosition(Phase::kBackward, {m, step});
      Backward(moment);
      if (moment.is_last_microstep) Optimize(moment);
    }
    if (job_.host.synchronize) rank_.Synchronize();
  }

  void Finish() { memory_.AddContext(); }

 private:
  void Forward(const Moment& moment) {
    for (std::size_t u = 0; u < workload_.units.size(); ++u) {
      const auto unit = static_cast<std::int32_t>(u);
      strategy_.BeforeForward(moment, unit);
      for (const Operator& op : workload_.units[u].operators) {
        strategy_.BeforeForwardOf(moment, unit, op);
        const TaskSpan kernels = run_.Forward(op, NameOf(unit, op), ".forward");
        memory_.Forward(kernels.first, op);
        strategy_.AfterForwardOf(moment, unit, op);
      }
      strategy_.AfterForward(moment, unit);
    }
  }

  void Backward(const Moment& moment) {
    for (std::size_t u = workload_.units.size(); u-- > 0;) {
      const auto unit = static_cast<std::int32_t>(u);
      strategy_.BeforeBackward(moment, unit);
      const auto& operators = workload_.units[u].operators;
      for (std::size_t i = operators.size(); i-- > 0;) {
        RunAgainBefore(moment, {unit, static_cast<std::int32_t>(i)});
        BackwardOf(moment, unit, operators[i]);
      }
      strategy_.AfterBackward(moment, unit);
    }
    rank_.SetPosition(Phase::kOther, {moment.microstep, moment.step});
    strategy_.AfterLastBackward(moment);
  }

  // What a checkpoint has thrown away is made anew.
  void RunAgainBefore(const Moment& moment, OperatorPlace place) {
    for (const Rerun& rerun : workload_.RerunsBefore(place)) {
      for (const Rerun::Step& step : rerun.steps) {
        const Operator& op = workload_.OperatorAt(step.place);
        strategy_.BeforeRerunOf(moment, step.place.unit, op);
        const TaskSpan kernels = run_.Forward(op, NameOf(step.place.unit, op), ".recompute");
        memory_.Rerun(kernels.first, step);
        strategy_.AfterRerunOf(moment, step.place.unit, op);
      }
    }
  }

  // The input gradient first, then the weight gradient; then autograd's hooks fire.
  void BackwardOf(const Moment& moment, std::int32_t unit, const Operator& op) {
    const std::string name = NameOf(unit, op);
    strategy_.BeforeBackwardOf(moment, unit, op);
    const TaskSpan input = run_.InputGradient(op, name);
    const TaskSpan weight = run_.WeightGradient(op, name);
    run_.EndBackward();
    const bool accumulates = strategy_.AccumulatesGradients(moment);
    memory_.BeginBackward(input.first != kNoId<TaskId> ? input : weight, op);
    for (const std::int32_t p : op.parameters_ready) {
      memory_.GradientBegins(weight, p, moment.microstep, accumulates);
    }
    memory_.EndBackward(op);
    for (const std::int32_t p : op.parameters_ready) {
      const ParameterTensor& parameter = workload_.parameters[static_cast<std::size_t>(p)];
      if (accumulates) {
        rank_.Launch(rank_.compute(), AccumulateWork(parameter.dtype, parameter.elements),
                     "accumulate " + parameter.name);
      }
      strategy_.GradientReady(moment, p);
      memory_.GradientIsUsed(p);
    }
    strategy_.AfterBackwardOf(moment, unit, op);
  }

  void Optimize(const Moment& moment) {
    strategy_.BeforeOptimizer(moment);
    rank_.SetPosition(Phase::kOptimizer, {moment.microstep, moment.step});
    memory_.Optimizer(LaunchAll(OptimizerWorkOf(job_, workload_), "optimizer"));
    strategy_.AfterOptimizer(moment);
  }

  TaskSpan LaunchAll(const std::vector<ComputeWork>& works, const std::string& name) {
    TaskSpan span;
    for (const ComputeWork& work : works) {
      span.last = rank_.Launch(rank_.compute(), work, name);
      if (span.first == kNoId<TaskId>) span.first = span.last;
    }
    return span;
  }

  std::string NameOf(std::int32_t unit, const Operator& op) const {
    return workload_.units[static_cast<std::size_t>(unit)].name + "." + op.name;
  }

  const JobSpec& job_;
  const Workload& workload_;
  RankProgram& rank_;
  OperatorRunner& run_;
  Strategy& strategy_;
  StepMemory memory_;
};

LaunchModel LaunchModelOf(const JobSpec& job, HostThread host) {
  LaunchModel model;
  model.has_host = host == HostThread::kLaunches;
  model.has_handovers = TimesOf(job).event_handover > Duration::zero();
  model.captures_graphs = job.host.cuda_graphs;
  model.connections = job.host.max_connections;
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

}  // namespace

BuiltStep BuildStep(const JobSpec& job, const Workload& workload, HostThread host) {
  const std::int64_t simulated = job.simulate.all_ranks ? job.gpus() : 1;
  const StrategyRow* row = FindStrategy(job.plan.strategy);
  SIM_CHECK(row != nullptr, "the job names an unknown strategy");

  TaskGraphBuilder graph;
  const Mesh mesh(job.plan, job.gpus());
  ProcessGroups groups(graph, mesh);
  const Sharding sharding = ShardingOf(job);
  const bool is_cut = sharding.shards > 1 && sharding.replicas > 1;

  std::vector<std::int32_t> ranks;
  for (std::int64_t r = 0; r < simulated; ++r) ranks.push_back(static_cast<std::int32_t>(r));
  Meetings meetings(ranks);
  const LaunchModel model = LaunchModelOf(job, host);
  HostWork host_work;
  for (const std::int32_t r : ranks) {
    const RankId id = graph.AddRank({r, static_cast<std::int32_t>(job.gpus() / simulated)});
    RankProgram rank(graph, meetings, id, model);
    OperatorRunner run(job, groups, rank, r);
    const GroupId all = groups.Gradients(r);
    // HSDP: consecutive ranks hold one copy; ranks a copy apart hold the same shard.
    const GroupId shard =
        is_cut ? groups.Part(r, sharding.shards, 1, "shard", "one copy of the parameters") : all;
    const GroupId replicate = is_cut ? groups.Part(r, sharding.replicas, sharding.shards,
                                                   "replicate", "the same shard of every copy")
                                     : all;
    const auto strategy = row->make({job, workload, rank, groups, all, shard, replicate, r});
    StepBuilder builder(job, workload, rank, run, *strategy);
    for (std::int32_t step = 0; step < StepsOf(job, host); ++step) {
      const HostWork before = rank.host_work();
      builder.BuildStepNumber(step);
      if (r == 0) host_work = Difference(rank.host_work(), before);
    }
    builder.Finish();
  }
  return {std::move(graph).Build(), host_work};
}

}  // namespace stepsim
