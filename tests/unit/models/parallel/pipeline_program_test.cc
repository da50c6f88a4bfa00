// Do the calls of two neighbouring pipeline ranks fit together?
#include "models/parallel/pipeline_program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

namespace stepsim {
namespace {

using Moves = std::vector<std::tuple<bool, std::int32_t, std::int32_t, bool>>;

Moves Sorted(const std::vector<StageMove>& moves, bool seen_from_other_end) {
  Moves sorted;
  for (const StageMove& m : moves) {
    sorted.emplace_back(m.is_backward, m.edge, m.microbatch, m.is_send != seen_from_other_end);
  }
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

// Calls of `rank` with `peer`, in no order.
std::vector<Moves> CallsOf(const PipelineProgram& program, std::int32_t rank, std::int32_t peer,
                           bool seen_from_other_end) {
  std::vector<Moves> calls;
  for (const PipelineInstruction& it : program.ranks[static_cast<std::size_t>(rank)]) {
    if (it.op == PipelineOp::kTransfer && it.peer == peer) {
      calls.push_back(Sorted(it.moves, seen_from_other_end));
    }
  }
  std::sort(calls.begin(), calls.end());
  return calls;
}

// A call is one kernel that meets one kernel at the other end: what one end has in a call the other
// has in one call too. With fewer micro-batches than ranks the first ranks have no pairs of a
// forward and a backward, the last ones do.
TEST(PipelineProgram, BothEndsOfACallMoveTheSame) {
  for (const PipelineRuntime runtime : {PipelineRuntime::kPytorch, PipelineRuntime::kMegatron}) {
    for (const char* name : {"1f1b", "gpipe"}) {
      for (std::int32_t p = 2; p <= 6; ++p) {
        for (std::int32_t m = 1; m <= 9; ++m) {
          const PipelineSchedule schedule =
              FindSchedule(name)->Make({.ranks = p, .microbatches = m});
          const PipelineProgram program = PlanPipeline({.runtime = runtime}, schedule);
          for (std::int32_t r = 0; r + 1 < p; ++r) {
            EXPECT_EQ(CallsOf(program, r, r + 1, false), CallsOf(program, r + 1, r, true))
                << name << ", ranks " << p << ", micro-batches " << m << ", edge " << r;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace stepsim
