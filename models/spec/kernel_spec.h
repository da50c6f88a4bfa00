// How fast are a GPU's kernels, shape by shape? Curves fitted to measured matrix products and
// attention; they multiply gpu.gemm_efficiency and gpu.attention_efficiency, so that one number
// still moves them all. Equations: models/README.md, "Kernels" and "Attention".
//
//   gemm:
//     - {dtype: bf16, tail: 0.63, k_overhead: 128, split_k: 4, weight_gradient: 0.957,
//        tiles: [{m: 256, n: 128}, {m: 128, n: 64, efficiency: 0.7}]}
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/base/dtype.h"
#include "sim/base/quantity.h"
#include "sim/base/time.h"

namespace stepsim {

// The part of the result that one thread block computes; a library also has it transposed.
struct GemmTile {
  std::int64_t m = 128, n = 128;
  double efficiency = 1;  // of an SM that works on it, relative to the curve's
};

// Matrix products with operands of one type.
struct GemmCurve {
  DType dtype = DType::kBf16;
  double efficiency = 1;  // relative to gpu.gemm_efficiency
  std::vector<GemmTile> tiles;
  double tail = 1;           // share of the time that comes in whole waves: 1 static grid, 0 smooth
  double k_overhead = 0;     // start and end of a tile, in steps of k
  std::int64_t split_k = 1;  // most thread blocks that share one tile's k
  double input_gradient = 1;                // speed of NN relative to TN
  double weight_gradient = 1;               // speed of NT relative to TN
  double fp32_output = 1;                   // speed with a 32-bit result of 16-bit operands
  double misaligned = 1;                    // speed with rows that are no multiple of 16 bytes
  std::optional<double> memory_efficiency;  // unset: gpu.memory_efficiency
  std::optional<Duration> latency;          // unset: gpu.kernel_latency
  // What the curve was fitted to, and how well.
  Flops smallest, largest;
  double residual = 0;  // median |error| left out by shape, a fraction; 0: unknown
};

// Fused (flash) attention. The defaults leave gpu.attention_efficiency as it is.
struct AttentionCurve {
  double forward = 1;  // relative to gpu.attention_efficiency
  double backward = 1;
  double key_ramp = 0;              // start and end of a row of tiles, in keys
  double head_dim_ramp = 0;         // head size at which the softmax takes as long as the products
  std::int64_t query_rows = 128;    // rows of the scores that a thread block computes
  double tail = 0;                  // as of GEMMs, in units of the longest block
  std::optional<Duration> latency;  // unset: gpu.kernel_latency
  double residual = 0;
};

}  // namespace stepsim
