#include "models/parallel/strategy.h"

#include <algorithm>
#include <array>

namespace stepsim {
namespace {

std::unique_ptr<Strategy> MakeNone(const StrategyContext&) { return std::make_unique<Strategy>(); }

constexpr std::array kStrategies = {
    StrategyRow{"ddp", "PyTorch DistributedDataParallel: bucketed all_reduce of the gradients",
                MakeDdp},
    StrategyRow{"fsdp1", "PyTorch FullyShardedDataParallel: flat parameters, sharded", MakeFsdp1},
    StrategyRow{"fsdp2", "PyTorch fully_shard: parameters, gradients and optimizer states sharded",
                MakeFsdp2},
    StrategyRow{"zero", "DeepSpeed ZeRO, stages 1 to 3", MakeZero},
    StrategyRow{"megatron",
                "Megatron-LM's data parallelism: bucketed reduction, distributed optimizer",
                MakeMegatron},
    StrategyRow{"none", "independent replicas: no communication", MakeNone},
};

}  // namespace

std::span<const StrategyRow> Strategies() { return kStrategies; }

const StrategyRow* FindStrategy(std::string_view name) {
  const auto found = std::find_if(kStrategies.begin(), kStrategies.end(),
                                  [&](const StrategyRow& row) { return row.name == name; });
  return found == kStrategies.end() ? nullptr : &*found;
}

}  // namespace stepsim
