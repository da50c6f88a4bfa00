// Which schedules are there? Each family's rule (which shapes it admits) and order, one file each.
#pragma once

#include <optional>

#include "models/pipeline/schedule.h"

namespace stepsim {

// gpipe.cc: all forwards, then all backwards.
ShapeProblem OneChunkRule(const ScheduleShape& shape);
RankOrders GPipeOrder(const ScheduleShape& shape);

// one_f_one_b.cc
RankOrders OneFOneBOrder(const ScheduleShape& shape);

// interleaved.cc: PyTorch's and Megatron's choice of groups; zero bubble with a split backward.
ShapeProblem RoundsRule(const ScheduleShape& shape);
RankOrders InterleavedOrder(const ScheduleShape& shape);
RankOrders InterleavedZeroBubbleOrder(const ScheduleShape& shape);
ShapeProblem MegatronGroupRule(const ScheduleShape& shape);
RankOrders MegatronInterleavedOrder(const ScheduleShape& shape);
RankOrders MegatronPairedOrder(const ScheduleShape& shape);

// looped_bfs.cc: breadth first.
ShapeProblem LoopedRule(const ScheduleShape& shape);
RankOrders LoopedBfsOrder(const ScheduleShape& shape);

// zb2p.cc: a greedy heuristic under a limit of memory.
RankOrders Zb2pOrder(const ScheduleShape& shape);

// zbv.cc
ShapeProblem TwoChunksRule(const ScheduleShape& shape);
RankOrders ZbvOrder(const ScheduleShape& shape);
RankOrders SailZbvOrder(const ScheduleShape& shape);

// v_half.cc: ZB-V's placement with half and a third of its memory.
ShapeProblem SlotPlanRule(const ScheduleShape& shape);
RankOrders VHalfOrder(const ScheduleShape& shape);
RankOrders VMinOrder(const ScheduleShape& shape);

// dualpipe.cc
ShapeProblem DualPipeRule(const ScheduleShape& shape);
RankOrders DualPipeOrder(const ScheduleShape& shape);
ShapeProblem DualPipeVRule(const ScheduleShape& shape);
RankOrders DualPipeVOrder(const ScheduleShape& shape);

// bubble.cc: idle time per rank. All assume equal stages and free transfers.
std::optional<double> FlushedIdle(const ScheduleShape& shape, const ChunkTimes& times);
std::optional<double> InterleavedIdle(const ScheduleShape& shape, const ChunkTimes& times);
std::optional<double> ZeroBubbleIdle(const ScheduleShape& shape, const ChunkTimes& times);
std::optional<double> ZbvIdle(const ScheduleShape& shape, const ChunkTimes& times);
std::optional<double> DualPipeIdle(const ScheduleShape& shape, const ChunkTimes& times);
std::optional<double> DualPipeVIdle(const ScheduleShape& shape, const ChunkTimes& times);

}  // namespace stepsim
