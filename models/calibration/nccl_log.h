// What did nccl-tests measure? Its output as people paste it: any version, several programs in one
// file, behind timestamps and ranks of MPI, between lines of NCCL_DEBUG=INFO.
//
//   # nThread 1 nGpus 8 ...
//   #  Rank  0 Group  0 Pid 1887 on worker-1 device  0 [0x8d] NVIDIA H100 80GB HBM3
//   # Collective test starting: all_reduce_perf
//        1048576        262144     float     sum      -1    45.61   22.99   40.23      0    45.1
//        ...
//
// Group size and nodes come from the Rank lines, the collective from the program's name or from the
// ratio of the two bandwidths. NCCL's choice comes from its own lines "... Bytes -> Algo 1 proto
// 2".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "models/calibration/measurements.h"

namespace stepsim {

// What holds for tables that do not say it.
struct NcclLogDefaults {
  std::optional<CollectiveOp> op;
  std::int64_t ranks = 0, nodes = 0;  // 0: not known
};

// Throws ConfigError where there is no table, or one whose collective or group is not known. Rows
// of size 0 and of wrong results are left out, with a note.
Measurements ReadNcclLog(std::string_view text, const std::string& file_name,
                         const NcclLogDefaults& defaults = {});

}  // namespace stepsim
