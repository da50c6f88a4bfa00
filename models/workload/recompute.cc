#include "models/workload/recompute.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/spec/wrap_modules.h"
#include "sim/base/check.h"

namespace stepsim {
namespace {

// Consecutive operators whose saved tensors are managed together.
struct Checkpoint {
  std::int32_t first_unit = 0, last_unit = 0;  // inclusive
  std::int32_t first = 0, last = 0;            // operators of the first and of the last unit
  std::vector<std::vector<char>> runs_again;   // by unit of the checkpoint and operator
  bool drops_results = false;  // what is read outside is made anew too (Megatron's norms)
};

bool IsAttention(const Operator& op) { return op.name.rfind("attention", 0) == 0; }
bool IsNorm(const Operator& op) { return op.name.rfind("norm", 0) == 0; }
// A matrix product with a weight; not the batched ones of attention.
bool IsLinear(const Operator& op) {
  return op.forward.compute_class == ComputeClass::kGemm && !IsAttention(op);
}
// What lies between the norm before the MLP and what follows it.
bool IsMlp(const Operator& op) {
  const std::string_view module = std::string_view(op.name).substr(0, op.name.find('.'));
  constexpr std::string_view kNames[] = {"fc1", "gate", "up", "activation", "fc2", "down"};
  return std::find(std::begin(kNames), std::end(kNames), module) != std::end(kNames);
}

bool IsExpert(const Operator& op) {
  return op.name.rfind("moe.", 0) == 0 || op.name.rfind("shared.", 0) == 0;
}

bool SwapsTokens(const Operator& op) {
  return std::any_of(op.exchanges.begin(), op.exchanges.end(), [](const Exchange& exchange) {
    return exchange.axis == ExchangeAxis::kExpert && exchange.op == CollectiveOp::kAllToAll;
  });
}

class Recomputation {
 public:
  Recomputation(const RecomputeSpec& spec, Workload* workload)
      : spec_(spec), workload_(*workload) {}

  void Apply() {
    const std::vector<std::int32_t> layers = Layers();
    if (spec_.IsFull()) {
      ApplyFull(layers);
    } else if (spec_.policy == RecomputePolicy::kLayer) {
      for (std::size_t i = 0; i < layers.size(); ++i) {
        const bool is_wrapped = static_cast<std::int64_t>(i + 1) % spec_.num_layers == 0;
        if (is_wrapped) Add(Whole(layers[i], layers[i]));
      }
    } else {
      for (const std::int32_t layer : layers) {
        if (spec_.policy == RecomputePolicy::kOp) {
          Add(AllButResults(layer));
        } else {
          AddModules(layer);
        }
      }
    }
    std::stable_sort(workload_.reruns.begin(), workload_.reruns.end(),
                     [](const Rerun& a, const Rerun& b) { return a.before < b.before; });
  }

 private:
  std::vector<std::int32_t> Layers() const {
    std::vector<std::int32_t> layers;
    for (std::size_t u = 0; u < workload_.units.size(); ++u) {
      if (IsLayer(workload_.units[u].name)) layers.push_back(static_cast<std::int32_t>(u));
    }
    return layers;
  }

  // uniform: the last checkpoint has what is left; block: each of the first layers for itself.
  void ApplyFull(const std::vector<std::int32_t>& layers) {
    const std::size_t count = static_cast<std::size_t>(spec_.num_layers);
    const bool is_block = spec_.method == RecomputeMethod::kBlock;
    const std::size_t end = is_block ? std::min(count, layers.size()) : layers.size();
    const std::size_t width = is_block ? 1 : count;
    for (std::size_t begin = 0; begin < end; begin += width) {
      Add(Whole(layers[begin], layers[std::min(begin + width, end) - 1]));
    }
  }

  std::vector<Operator>& OperatorsOf(std::int32_t unit) {
    return workload_.units[static_cast<std::size_t>(unit)].operators;
  }

  Checkpoint Whole(std::int32_t first_unit, std::int32_t last_unit) {
    Checkpoint checkpoint{first_unit, last_unit, 0, 0, {}, false};
    for (std::int32_t unit = first_unit; unit <= last_unit; ++unit) {
      checkpoint.runs_again.emplace_back(OperatorsOf(unit).size(), char{1});
      checkpoint.last = static_cast<std::int32_t>(OperatorsOf(unit).size()) - 1;
    }
    return checkpoint;
  }

  // torchtitan's "op": results of attention, of exchanges between experts and of the first, third,
  // fifth ... product are kept.
  Checkpoint AllButResults(std::int32_t layer) {
    Checkpoint checkpoint = Whole(layer, layer);
    const std::vector<Operator>& operators = OperatorsOf(layer);
    int products = 0;
    for (std::size_t i = 0; i < operators.size(); ++i) {
      const bool is_odd_product = IsLinear(operators[i]) && ++products % 2 == 1;
      const bool is_kept =
          operators[i].name == "attention" || SwapsTokens(operators[i]) || is_odd_product;
      if (is_kept) checkpoint.runs_again.front()[i] = 0;
    }
    return checkpoint;
  }

  bool IsChosen(const Operator& op) const {
    const RecomputeModules& modules = spec_.modules;
    return (modules.core_attn && IsAttention(op)) || (modules.mlp && IsMlp(op)) ||
           (modules.layernorm && IsNorm(op)) || (modules.moe && IsExpert(op));
  }

  // Neighbours that are chosen share a checkpoint.
  void AddModules(std::int32_t layer) {
    const std::vector<Operator>& operators = OperatorsOf(layer);
    for (std::size_t begin = 0; begin < operators.size();) {
      std::size_t end = begin;
      bool only_norms = true;
      for (; end < operators.size() && IsChosen(operators[end]); ++end) {
        only_norms = only_norms && IsNorm(operators[end]);
      }
      if (end > begin) {
        Checkpoint checkpoint{
            layer, layer,     static_cast<std::int32_t>(begin), static_cast<std::int32_t>(end) - 1,
            {},    only_norms};
        checkpoint.runs_again.emplace_back(operators.size(), char{0});
        std::fill(checkpoint.runs_again.front().begin() + static_cast<std::ptrdiff_t>(begin),
                  checkpoint.runs_again.front().begin() + static_cast<std::ptrdiff_t>(end),
                  char{1});
        Add(checkpoint);
      }
      begin = std::max(end, begin + 1);
    }
  }

  // Who wrote what an operator of `unit` reads, seen from inside the checkpoint: the input of a
  // unit is the result of the last operator of the one before.
  OperatorPlace WriterOf(std::int32_t unit, const ReadTensor& read) {
    if (read.writer != kUnitInput) return {unit, read.writer};
    if (unit == 0) return {unit, kUnitInput};
    return {unit - 1, static_cast<std::int32_t>(OperatorsOf(unit - 1).size()) - 1};
  }

  static bool RunsAgain(const Checkpoint& checkpoint, OperatorPlace place) {
    if (place.unit < checkpoint.first_unit || place.unit > checkpoint.last_unit) return false;
    if (place.op < 0) return false;
    return checkpoint.runs_again[static_cast<std::size_t>(place.unit - checkpoint.first_unit)]
                                [static_cast<std::size_t>(place.op)] != 0;
  }

  static bool IsInside(const Checkpoint& checkpoint, OperatorPlace place) {
    const bool is_after = place.unit > checkpoint.first_unit || place.op >= checkpoint.first;
    const bool is_before = place.unit < checkpoint.last_unit || place.op <= checkpoint.last;
    return is_after && is_before;
  }

  void Add(const Checkpoint& checkpoint) {
    Rerun rerun = StepsOf(checkpoint);
    rerun.before = {checkpoint.last_unit, checkpoint.last};
    Drop(checkpoint, &rerun);
    Hold(checkpoint);
    const auto makes_something = [](const Rerun::Step& step) { return step.remade.value > 0; };
    if (checkpoint.drops_results || spec_.early_stop) {
      while (!rerun.steps.empty() && !makes_something(rerun.steps.back())) rerun.steps.pop_back();
    }
    if (!rerun.steps.empty()) workload_.reruns.push_back(std::move(rerun));
  }

  Rerun StepsOf(const Checkpoint& checkpoint) {
    Rerun rerun;
    for (std::int32_t unit = checkpoint.first_unit; unit <= checkpoint.last_unit; ++unit) {
      const auto count = static_cast<std::int32_t>(OperatorsOf(unit).size());
      for (std::int32_t op = 0; op < count; ++op) {
        if (RunsAgain(checkpoint, {unit, op})) rerun.steps.push_back({{unit, op}, {}});
      }
    }
    return rerun;
  }

  // What an operator saved and did not read is its own making.
  static Bytes OwnOf(const Operator& op) {
    Bytes own = op.saved;
    for (const ReadTensor& read : op.reads) {
      if (read.is_counted) own = own - read.bytes;
    }
    SIM_CHECK(own.value >= 0, "an operator saves less than it reads and saves");
    return own;
  }

  void Drop(const Checkpoint& checkpoint, Rerun* rerun) {
    const auto remake = [&](OperatorPlace writer, Operator* saver, Bytes bytes) {
      saver->dropped += bytes;
      const auto step = std::find_if(rerun->steps.begin(), rerun->steps.end(),
                                     [&](const Rerun::Step& s) { return s.place == writer; });
      step->remade += bytes;
    };
    for (std::int32_t unit = checkpoint.first_unit; unit <= checkpoint.last_unit; ++unit) {
      std::vector<Operator>& operators = OperatorsOf(unit);
      for (std::int32_t i = 0; i < static_cast<std::int32_t>(operators.size()); ++i) {
        Operator& op = operators[static_cast<std::size_t>(i)];
        const OperatorPlace place{unit, i};
        const bool is_inside = IsInside(checkpoint, place);
        if (RunsAgain(checkpoint, place)) remake(place, &op, OwnOf(op));
        for (const ReadTensor& read : op.reads) {
          const OperatorPlace writer = WriterOf(unit, read);
          if (!read.is_saved || !RunsAgain(checkpoint, writer)) continue;
          if (!is_inside && !checkpoint.drops_results) continue;
          remake(writer, &op, read.is_counted ? read.bytes : Bytes{});
          if (checkpoint.drops_results) rerun->before = place;
        }
      }
    }
  }

  // The results of others that reruns read; once each, unless somebody keeps them anyway.
  void Hold(const Checkpoint& checkpoint) {
    std::vector<std::pair<OperatorPlace, std::int32_t>> held;
    for (std::int32_t unit = checkpoint.first_unit; unit <= checkpoint.last_unit; ++unit) {
      std::vector<Operator>& operators = OperatorsOf(unit);
      for (std::size_t i = 0; i < operators.size(); ++i) {
        if (!RunsAgain(checkpoint, {unit, static_cast<std::int32_t>(i)})) continue;
        for (const ReadTensor& read : operators[i].reads) {
          const OperatorPlace writer = WriterOf(unit, read);
          if (RunsAgain(checkpoint, writer) || IsKept(operators, read)) continue;
          const auto tensor = std::pair(writer, read.part);
          if (std::find(held.begin(), held.end(), tensor) != held.end()) continue;
          held.push_back(tensor);
          operators[i].held += read.bytes;
        }
      }
    }
  }

  static bool IsKept(const std::vector<Operator>& operators, const ReadTensor& tensor) {
    return std::any_of(operators.begin(), operators.end(), [&](const Operator& op) {
      return std::any_of(op.reads.begin(), op.reads.end(), [&](const ReadTensor& read) {
        return read.is_counted && read.writer == tensor.writer && read.part == tensor.part;
      });
    });
  }

  const RecomputeSpec& spec_;
  Workload& workload_;
};

}  // namespace

void ApplyRecompute(const RecomputeSpec& recompute, Workload* workload) {
  if (recompute.IsOn()) Recomputation(recompute, workload).Apply();
}

}  // namespace stepsim
