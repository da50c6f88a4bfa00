// What was measured? A table of nccl-tests results as typed points.
//
//   for (const MeasuredCollective& point : ReadMeasuredCollectives(text, "curves.csv")) ...
//
// Columns: system_id, gpu, nodes, gpus_per_node, ranks, nic, intra_fabric, collective, size_bytes,
// time_us; nccl_version where present. Others are left alone. Sizes are plain bytes,
// times plain microseconds: the header carries the unit.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/cost/collective_cost.h"
#include "sim/base/diagnostics.h"
#include "sim/base/quantity.h"

namespace stepsim {

struct MeasuredCollective {
  std::string system_id;
  std::string gpu;  // "H100-SXM-80GB"
  std::int64_t nodes = 1;
  std::int64_t gpus_per_node = 1;  // in use
  std::int64_t ranks = 1;
  std::string nic;           // "8x400G IB NDR", "none"
  std::string intra_fabric;  // "NVSwitch", "PCIe no P2P (SHM)"
  CollectiveOp op = CollectiveOp::kAllReduce;
  Bytes size;  // as nccl-tests counts it
  double seconds = 0;
  std::string nccl_version;  // "2.18.5"; "?" and "" are unknown
};

// Throws ConfigError: missing columns, and every value that is no positive number or no known
// collective, with its line and column.
std::vector<MeasuredCollective> ReadMeasuredCollectives(std::string_view text,
                                                        const std::string& file_name);

}  // namespace stepsim
