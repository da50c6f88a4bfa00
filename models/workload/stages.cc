#include "models/workload/stages.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "models/workload/model_flops.h"
#include "models/workload/recompute.h"
#include "sim/base/check.h"

namespace stepsim {
namespace {

bool IsLayer(const ModelUnit& unit) { return unit.name.rfind("layers.", 0) == 0; }

// Units in front of the first layer, and behind the last.
struct Ends {
  std::size_t first_layer = 0;
  std::size_t layers_end = 0;
};

Ends EndsOf(const Workload& workload) {
  const auto& units = workload.units;
  const auto first = std::find_if(units.begin(), units.end(), IsLayer);
  const auto end = std::find_if_not(first, units.end(), IsLayer);
  return {static_cast<std::size_t>(first - units.begin()),
          static_cast<std::size_t>(end - units.begin())};
}

StageSplit Evenly(std::int64_t layers, std::int64_t stages) {
  StageSplit split;
  for (std::int64_t s = 0; s < stages; ++s) {
    split.push_back(layers / stages + (s < layers % stages ? 1 : 0));
  }
  return split;
}

// Embedding and head count as a layer each.
StageSplit WithEnds(std::int64_t layers, std::int64_t stages) {
  StageSplit split = Evenly(layers + 2, stages);
  split.front() -= 1;
  split.back() -= 1;
  return split;
}

double WorkOf(const ModelUnit& unit) {
  double flops = 0;
  for (const Operator& op : unit.operators) {
    flops += op.forward.flops.value;
    for (const ComputeWork& work : op.backward_input) flops += work.flops.value;
    for (const ComputeWork& work : op.backward_weight) flops += work.flops.value;
  }
  return flops;
}

double ParametersOf(const Workload& workload, const ModelUnit& unit) {
  double elements = 0;
  for (const Operator& op : unit.operators) {
    for (const std::vector<std::int32_t>* used : {&op.parameters_ready, &op.also_uses}) {
      for (const std::int32_t p : *used) {
        elements += static_cast<double>(workload.parameters[static_cast<std::size_t>(p)].elements);
      }
    }
  }
  return elements;
}

double WeightOf(const Workload& workload, const ModelUnit& unit, StageBalance balance) {
  return balance == StageBalance::kTime ? WorkOf(unit) : ParametersOf(workload, unit);
}

// The smallest weight of the busiest stage that `stages` can do, each at most that much: bisection
// over it, filling up stage after stage.
StageSplit ByWeight(const Workload& workload, std::int64_t stages, StageBalance balance) {
  const Ends ends = EndsOf(workload);
  double before = 0, behind = 0;
  std::vector<double> layers;
  for (std::size_t u = 0; u < workload.units.size(); ++u) {
    const double work = WeightOf(workload, workload.units[u], balance);
    if (u < ends.first_layer) {
      before += work;
    } else if (u < ends.layers_end) {
      layers.push_back(work);
    } else {
      behind += work;
    }
  }
  // Layers of each stage under a bound; those that find no place go to the last.
  const auto fill = [&](double bound) {
    StageSplit split;
    std::size_t next = 0;
    for (std::int64_t s = 0; s < stages; ++s) {
      double work = (s == 0 ? before : 0) + (s + 1 == stages ? behind : 0);
      const auto left = static_cast<std::int64_t>(layers.size() - next);
      const std::int64_t most = left - (stages - 1 - s);  // a layer for every later stage
      std::int64_t count = 0;
      while (count < most && (count == 0 || work + layers[next] <= bound)) {
        work += layers[next++];
        ++count;
      }
      split.push_back(count);
    }
    split.back() += static_cast<std::int64_t>(layers.size() - next);
    return split;
  };
  const auto busiest = [&](const StageSplit& split) {
    double most = 0;
    std::size_t next = 0;
    for (std::size_t s = 0; s < split.size(); ++s) {
      double work = (s == 0 ? before : 0) + (s + 1 == split.size() ? behind : 0);
      for (std::int64_t i = 0; i < split[s]; ++i) work += layers[next++];
      most = std::max(most, work);
    }
    return most;
  };
  double low = 0, high = before + behind + std::accumulate(layers.begin(), layers.end(), 0.0);
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (busiest(fill(middle)) <= middle ? high : low) = middle;
  }
  return fill(high);
}

// Parameters that the operators of a stage use, in registration order; old index -> new index.
class ParameterMap {
 public:
  explicit ParameterMap(const Workload& whole) : whole_(whole), is_used_(whole.parameters.size()) {}

  void Use(std::int32_t p) { is_used_[static_cast<std::size_t>(p)] = true; }

  std::vector<ParameterTensor> Number() {
    std::vector<ParameterTensor> parameters;
    numbers_.assign(is_used_.size(), -1);
    for (std::size_t p = 0; p < is_used_.size(); ++p) {
      if (!is_used_[p]) continue;
      numbers_[p] = static_cast<std::int32_t>(parameters.size());
      parameters.push_back(whole_.parameters[p]);
    }
    return parameters;
  }

  std::int32_t NumberOf(std::int32_t p) const { return numbers_[static_cast<std::size_t>(p)]; }

 private:
  const Workload& whole_;
  std::vector<char> is_used_;
  std::vector<std::int32_t> numbers_;
};

bool Completes(const Workload& stage, std::int32_t parameter) {
  for (const ModelUnit& unit : stage.units) {
    for (const Operator& op : unit.operators) {
      if (std::count(op.parameters_ready.begin(), op.parameters_ready.end(), parameter) > 0) {
        return true;
      }
    }
  }
  return false;
}

bool IsUsedTwice(const Workload& stage, std::int32_t parameter) {
  for (const ModelUnit& unit : stage.units) {
    for (const Operator& op : unit.operators) {
      if (std::count(op.also_uses.begin(), op.also_uses.end(), parameter) > 0) return true;
    }
  }
  return false;
}

// A tied embedding without its head: nobody leaves a gradient that it would have to add.
void ForgetTiedHead(Workload* stage) {
  for (ModelUnit& unit : stage->units) {
    for (Operator& op : unit.operators) {
      const bool adds = op.name == "token_embedding" && op.weight_gradients_taken.value > 0;
      if (!adds || IsUsedTwice(*stage, op.parameters_ready.front())) continue;
      op.weight_gradients_taken = {};
      op.backward_weight.pop_back();
    }
  }
}

// A tied head without its embedding: the gradient of its copy is complete with its own backward.
// (With fp8 operands the cast names the weight, and the product behind it makes the gradient.)
void CompleteTiedCopies(Workload* stage) {
  for (ModelUnit& unit : stage->units) {
    for (std::size_t i = 0; i < unit.operators.size(); ++i) {
      Operator& op = unit.operators[i];
      for (const std::int32_t p : std::exchange(op.also_uses, {})) {
        if (Completes(*stage, p)) {
          op.also_uses.push_back(p);
          continue;
        }
        stage->parameters[static_cast<std::size_t>(p)].name += " (tied)";
        op.parameters_ready.push_back(p);
        const bool is_behind = op.weight_gradients_made.value == 0 && i + 1 < unit.operators.size();
        unit.operators[is_behind ? i + 1 : i].weight_gradients_made = {};
      }
    }
  }
}

Workload StageOf(const JobSpec& job, const Workload& whole, std::size_t begin, std::size_t end) {
  Workload stage;
  stage.samples = whole.samples;
  stage.tokens = whole.tokens;
  stage.buffers = begin == 0 ? whole.buffers : Bytes{};
  stage.units.assign(whole.units.begin() + static_cast<std::ptrdiff_t>(begin),
                     whole.units.begin() + static_cast<std::ptrdiff_t>(end));
  ParameterMap map(whole);
  for (const ModelUnit& unit : stage.units) {
    for (const Operator& op : unit.operators) {
      for (const std::int32_t p : op.parameters_ready) map.Use(p);
      for (const std::int32_t p : op.also_uses) map.Use(p);
    }
  }
  stage.parameters = map.Number();
  for (ModelUnit& unit : stage.units) {
    for (Operator& op : unit.operators) {
      for (std::int32_t& p : op.parameters_ready) p = map.NumberOf(p);
      for (std::int32_t& p : op.also_uses) p = map.NumberOf(p);
    }
  }
  ForgetTiedHead(&stage);
  CompleteTiedCopies(&stage);
  // Checkpoints do not reach over the end of a stage.
  for (ModelUnit& unit : stage.units) {
    for (Operator& op : unit.operators) op.dropped = op.held = {};
  }
  if (job.recompute.granularity != RecomputeGranularity::kNone) {
    ApplyRecompute(job.recompute, &stage);
  }
  return stage;
}

}  // namespace

StageSplit SplitLayers(const JobSpec& job, const Workload& workload, std::int64_t stages) {
  const PipelinePlan& plan = job.plan.pipeline;
  if (!plan.layers_per_stage.empty()) {
    return {plan.layers_per_stage.begin(), plan.layers_per_stage.end()};
  }
  const Ends ends = EndsOf(workload);
  const auto layers = static_cast<std::int64_t>(ends.layers_end - ends.first_layer);
  switch (plan.balance) {
    case StageBalance::kLayers:
      return Evenly(layers, stages);
    case StageBalance::kEnds:
      return WithEnds(layers, stages);
    case StageBalance::kTime:
    case StageBalance::kParameters:
      break;
  }
  return ByWeight(workload, stages, plan.balance);
}

std::vector<Workload> SplitWorkload(const JobSpec& job, const Workload& workload,
                                    const StageSplit& split) {
  const Ends ends = EndsOf(workload);
  SIM_CHECK(std::accumulate(split.begin(), split.end(), std::int64_t{0}) ==
                static_cast<std::int64_t>(ends.layers_end - ends.first_layer),
            "a split deals out every layer");
  std::vector<Workload> stages;
  std::size_t begin = 0, end = ends.first_layer;
  for (std::size_t s = 0; s < split.size(); ++s) {
    end += static_cast<std::size_t>(split[s]);
    if (s + 1 == split.size()) end = workload.units.size();
    stages.push_back(StageOf(job, workload, begin, end));
    begin = end;
  }
  return stages;
}

}  // namespace stepsim
