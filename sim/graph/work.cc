#include "sim/graph/work.h"

#include <array>

namespace stepsim {

std::string_view ToString(ComputeClass compute_class) {
  constexpr std::array<std::string_view, 3> kNames = {"gemm", "attention", "memory"};
  return kNames[static_cast<std::size_t>(compute_class)];
}

std::string_view ToString(CollectiveOp op) {
  constexpr std::array<std::string_view, 9> kNames = {"all_reduce", "all_gather", "reduce_scatter",
                                                      "all_to_all", "broadcast",  "reduce",
                                                      "send_recv",  "peer_copy",  "barrier"};
  return kNames[static_cast<std::size_t>(op)];
}

TaskKind KindOf(const Work& work) {
  if (const auto* opaque = std::get_if<OpaqueWork>(&work)) return opaque->kind;
  if (std::holds_alternative<CollectiveWork>(work)) return TaskKind::kTransfer;
  if (std::holds_alternative<HostWork>(work)) return TaskKind::kHost;
  return TaskKind::kCompute;
}

}  // namespace stepsim
