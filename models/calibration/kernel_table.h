// What do measured kernels say? A table of matrix products as works with times, and the profile
// that each row's GPU belongs to.
//
//   const CsvTable csv = ParseCsv(text, "gemm_points.csv");
//   const KernelTable table = ReadKernelTable(csv);
//   MatchGpu("A100-PCIE-80GB", {"A100-SXM4-80GB", "A100-PCIe-80GB"})   -> 1
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "models/calibration/csv_table.h"
#include "sim/graph/work.h"

namespace stepsim {

struct KernelRow {
  std::size_t row = 0;  // of the table
  std::string gpu;
  ComputeWork work;
  double seconds = 0;
};

struct KernelTable {
  std::vector<KernelRow> rows;
  std::size_t other_kinds = 0;  // rows of attention, memory bandwidth, whole steps
  std::size_t no_shape = 0;     // matrix products without all of m, n, k
};

// Columns: kind, gpu, m, n, k, dtype_in, tflops; used where present: groups_or_batch, layout (TN,
// NN, NT, or fwd, bwd_grad_act, bwd_grad_w of the forward's shape; none: m and n as cuBLAS names
// them, column-major), dtype_out, accumulate. Rows of kind gemm and grouped_gemm are read. Throws
// ConfigError with every problem.
KernelTable ReadKernelTable(const CsvTable& table);

// Index of the GPU that a name in a table means: the family must agree (export variants such as
// H800 are their origin unless they have a profile), then as many of form factor and memory as
// possible. The first of equals.
std::optional<std::size_t> MatchGpu(const std::string& name, const std::vector<std::string>& gpus);

}  // namespace stepsim
