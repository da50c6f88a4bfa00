// How is a collective called outside? Ours, nccl-tests', MPI's and PyTorch's spellings: one table.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "sim/graph/work.h"

namespace stepsim {

// "all_reduce", "AllReduce", "allreduce", "all_reduce_perf", "MPI_Allreduce" are one.
std::optional<CollectiveOp> CollectiveNamed(std::string_view name);

// "op: found 'all_redcue', allowed: ...; did you mean 'all_reduce'?"
std::string UnknownCollective(std::string_view field, std::string_view found);

}  // namespace stepsim
