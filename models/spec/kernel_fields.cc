#include "models/spec/spec_fields.h"

namespace stepsim {
namespace {

const StructTable<GemmTile>& TileFields() {
  using T = GemmTile;
  static const StructTable<T> table{
      Field("m", &T::m, "rows of the result that a thread block computes").Range(1, 4096),
      Field("n", &T::n, "columns; the transposed tile is meant as well").Range(1, 4096),
      Field("efficiency", &T::efficiency, "of an SM that works on it, relative to the curve's")
          .Range(0.001, 1.5),
  };
  return table;
}

}  // namespace

const StructTable<GemmCurve>& GemmCurveFields() {
  using G = GemmCurve;
  static const StructTable<G> table{
      Field("dtype", &G::dtype, "element type of the operands")
          .Choices({"fp32", "tf32", "bf16", "fp16", "fp8"}),
      Field("efficiency", &G::efficiency, "large products, relative to gpu.gemm_efficiency")
          .Range(0.001, 1000),
      Field("tiles", &G::tiles, TileFields(), "thread-block tiles; the fastest one is taken"),
      Field("tail", &G::tail,
            "share of the time that comes in whole waves: 1 a static grid, 0 no steps")
          .Range(0, 1),
      Field("k_overhead", &G::k_overhead, "start and end of a tile, in steps of k").Range(0, 1e5),
      Field("split_k", &G::split_k, "most thread blocks that share the k of one tile")
          .Range(1, 1024),
      Field("input_gradient", &G::input_gradient, "speed of NN products relative to TN")
          .Range(0.01, 100),
      Field("weight_gradient", &G::weight_gradient, "speed of NT products relative to TN")
          .Range(0.01, 100),
      Field("fp32_output", &G::fp32_output, "speed with a 32-bit result of 16-bit operands")
          .Range(0.01, 100),
      Field("misaligned", &G::misaligned,
            "speed with rows that are no multiple of 16 bytes: no fast copies into shared memory")
          .Range(0.01, 1),
      Field("memory_efficiency", &G::memory_efficiency,
            "reached fraction of hbm_bandwidth in products bound by it")
          .Range(0.001, 1)
          .Unset("gpu.memory_efficiency"),
      Field("latency", &G::latency, "fixed time of a product").Unset("gpu.kernel_latency"),
      Field("smallest", &G::smallest, "smallest product the curve was fitted to"),
      Field("largest", &G::largest, "largest product the curve was fitted to; 0: unknown"),
      Field("residual", &G::residual, "median |error| of shapes left out of the fit; 0: unknown")
          .Range(0, 10),
  };
  return table;
}

const StructTable<AttentionCurve>& AttentionCurveFields() {
  using A = AttentionCurve;
  static const StructTable<A> table{
      Field("forward", &A::forward, "speed of forward relative to gpu.attention_efficiency")
          .Range(0.001, 1000),
      Field("backward", &A::backward, "speed of backward relative to gpu.attention_efficiency")
          .Range(0.001, 1000),
      Field("key_ramp", &A::key_ramp, "start and end of a row of tiles, in keys").Range(0, 1e5),
      Field("head_dim_ramp", &A::head_dim_ramp,
            "head size at which the softmax takes as long as the products; the efficiencies hold "
            "for 128")
          .Range(0, 1e4),
      Field("query_rows", &A::query_rows, "rows of the scores that a thread block computes")
          .Range(1, 4096),
      Field("tail", &A::tail,
            "share of the time that comes in whole waves of the longest thread block")
          .Range(0, 1),
      Field("latency", &A::latency, "fixed time of a call").Unset("gpu.kernel_latency"),
      Field("residual", &A::residual, "median |error| of the fit; 0: unknown").Range(0, 10),
  };
  return table;
}

}  // namespace stepsim
