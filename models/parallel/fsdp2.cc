// PyTorch FSDP2 (fully_shard), hook by hook: models/README.md,
// "FSDP2".
#include <cstddef>
#include <optional>

#include "models/parallel/fsdp2_gathers.h"
#include "models/parallel/fsdp2_reductions.h"
#include "models/parallel/grouped_strategy.h"
#include "models/spec/wrap_modules.h"

namespace stepsim {
namespace {

class Fsdp2 : public GroupedStrategy {
 public:
  explicit Fsdp2(const StrategyContext& context)
      : GroupedStrategy(context.workload, GroupUnits(context.workload, context.job.plan.fsdp2)),
        plan_(context.job.plan.fsdp2),
        is_ideal_(context.job.plan.ideal),
        names_layers_(NamesLayers(context.job)),
        gathers_(context, groups()),
        reductions_(context, groups(), gathers_) {}

  void GradientReady(const Moment& moment, std::int32_t parameter) override {
    const ParameterTensor& tensor = workload().parameters[static_cast<std::size_t>(parameter)];
    reductions_.GradientReady(moment, GroupOfParameter(parameter), tensor.elements);
  }

  // The final callback: first the groups whose inputs need no gradient, so that no hook has run.
  void AfterLastBackward(const Moment& moment) override {
    PostBackwardOf(moment, kRoot);
    if (GroupOf(0) != kRoot) PostBackwardOf(moment, GroupOf(0));
    reductions_.Finish(moment);
  }

  // Pipelines. What the micro-batches have added up is in the type that it is reduced in.
  void UnshardChunk(const Moment&) override {
    for (std::size_t g = 0; g < group_count(); ++g) gathers_.Unshard(g, Direction::kForward);
  }
  void ReshardChunk(const Moment&) override {
    for (std::size_t g = 0; g < group_count(); ++g) gathers_.Reshard(g);
  }
  void StartReduction(const Moment& moment) override {
    Moment last = moment;
    last.is_first_microstep = false;
    last.is_last_microstep = true;
    for (std::size_t i = group_count(); i-- > 0;) {
      gathers_.Reshard(i);
      reductions_.Reduce(last, i);
    }
    reductions_.Finish(last);
  }

  bool AccumulatesGradients(const Moment& moment) const override {
    return reductions_.AccumulatesInPlace(moment);
  }

 private:
  using Direction = Fsdp2Gathers::Direction;

  void BeginForward(const Moment& moment) override { gathers_.BeginForward(moment); }

  void PreForward(const Moment&, std::size_t g) override {
    gathers_.Unshard(g, Direction::kForward);
    gathers_.WaitForUnshard(g, Direction::kForward);
    if (names_layers_) return PrefetchLayer(g, Direction::kForward);
    for (std::int64_t i = 1; i <= plan_.forward_prefetch; ++i) {
      const std::size_t next = g + static_cast<std::size_t>(i);
      if (next < group_count()) gathers_.Unshard(next, Direction::kForward);
    }
  }

  void PostForward(const Moment&, std::size_t g) override {
    gathers_.ReshardAfterForward(g);
    if (g == kRoot) gathers_.EndForward();
  }

  void PreBackward(const Moment&, std::size_t g) override {
    gathers_.Unshard(g, Direction::kBackward);
    gathers_.WaitForUnshard(g, Direction::kBackward);
    if (names_layers_) return PrefetchLayer(g, Direction::kBackward);
    for (std::int64_t i = 1; i <= plan_.backward_prefetch; ++i) {
      if (const auto next = NextOfBackward(g, static_cast<std::size_t>(i))) {
        gathers_.Unshard(*next, Direction::kBackward);
      }
    }
  }

  // torchtitan's lists: a layer names the next one and its experts, what is no layer the next
  // module alone. Experts and the root have no list: FSDP2's own prefetch finds nothing left to do.
  void PrefetchLayer(std::size_t g, Direction direction) {
    const bool is_root = g == kRoot;
    if (GroupAt(g).is_expert || (is_root && direction == Direction::kForward)) return;
    std::optional<std::size_t> next = g;
    do {
      next = Behind(*next, direction);
    } while (next && GroupAt(*next).is_expert);
    if (!next) return;
    gathers_.Unshard(*next, direction);
    const ShardGroup& named = GroupAt(*next);
    if (is_root || !IsLayer(UnitAt(GroupAt(g).first_unit).name)) return;
    for (std::int32_t u = named.first_unit; u <= named.last_unit; ++u) {
      if (NestedIn(u) != kRoot) gathers_.Unshard(NestedIn(u), direction);
    }
  }
  std::optional<std::size_t> Behind(std::size_t g, Direction direction) const {
    if (direction == Direction::kBackward) return NextOfBackward(g, 1);
    return g + 1 < group_count() ? std::optional(g + 1) : std::nullopt;
  }
  const ModelUnit& UnitAt(std::int32_t unit) const {
    return workload().units[static_cast<std::size_t>(unit)];
  }

  // Without a limit on memory what backward will need can stay. So do experts in any case.
  void PreRerun(const Moment& moment, std::size_t g) override {
    if (!is_ideal_ && !GroupAt(g).is_expert) return PreForward(moment, g);
    gathers_.Unshard(g, Direction::kBackward);
    gathers_.WaitForUnshard(g, Direction::kBackward);
  }
  void PostRerun(const Moment&, std::size_t g) override {
    if (!is_ideal_) gathers_.ReshardAfterForward(g);
  }

  void PostBackward(const Moment& moment, std::size_t g) override {
    if (GroupAt(g).first_unit > 0 || GroupAt(g).is_expert) PostBackwardOf(moment, g);
  }

  void PostBackwardOf(const Moment& moment, std::size_t g) {
    reductions_.Accumulate(moment, g);
    if (plan_.reshard_after_backward || moment.is_last_microstep) gathers_.Reshard(g);
    reductions_.Reduce(moment, g);
  }

  const Fsdp2Plan& plan_;
  const bool is_ideal_;
  const bool names_layers_;  // set_modules_to_forward_prefetch and ..._backward_prefetch
  Fsdp2Gathers gathers_;
  Fsdp2Reductions reductions_;
};

}  // namespace

std::unique_ptr<Strategy> MakeFsdp2(const StrategyContext& context) {
  return std::make_unique<Fsdp2>(context);
}

}  // namespace stepsim
