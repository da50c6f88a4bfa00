#include "models/cost/gemm_cost.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/base/check.h"
#include "sim/base/quantity.h"

namespace stepsim {
namespace {

double Real(std::int64_t n) { return static_cast<double>(n); }

// Copies into shared memory go 16 bytes at a time. The contiguous sides of the operands: k and the
// result's columns; of a weight gradient (NT) both sides of the result.
bool IsMisaligned(const ComputeWork& work) {
  constexpr std::int64_t kCopy = 16;
  const std::int64_t size = ElementSize(work.dtype).value;
  const std::int64_t other = work.pass == Pass::kWeightGradient ? work.m : work.k;
  return work.n * size % kCopy != 0 || other * size % kCopy != 0;
}

double ShapeFactor(const ComputeWork& work, const GemmCurve& curve) {
  double factor = curve.efficiency;
  if (work.pass == Pass::kInputGradient) factor *= curve.input_gradient;
  if (work.pass == Pass::kWeightGradient) factor *= curve.weight_gradient;
  if (work.output == DType::kFp32 && ElementSize(work.dtype).value < 4) factor *= curve.fp32_output;
  if (IsMisaligned(work)) factor *= curve.misaligned;
  return factor;
}

struct Machine {
  double sm_rate;    // FLOP/s of one SM at the curve's efficiency
  double hbm;        // bytes/s reached
  std::int64_t sms;  // at work
};

// One tile shape, k cut into `split` pieces whose fp32 sums go through memory once.
GemmTime TimeOf(const ComputeWork& work, const GemmCurve& curve, const Machine& machine,
                const GemmTile& tile, std::int64_t split) {
  const double blocks =
      Real(CeilDiv(work.m, tile.m)) * Real(CeilDiv(work.n, tile.n)) * Real(work.batch * split);
  const double steps = Real(work.k) / Real(split) + curve.k_overhead;
  const double block =
      2 * Real(tile.m) * Real(tile.n) * steps / (machine.sm_rate * tile.efficiency);
  GemmTime time{Waves(blocks / Real(machine.sms), curve.tail) * block, blocks};
  if (split > 1) {
    constexpr double kPartialSum = 4 + 4;  // bytes written and read again
    time.seconds +=
        kPartialSum * Real(split) * Real(work.m) * Real(work.n) * Real(work.batch) / machine.hbm;
  }
  return time;
}

}  // namespace

double Waves(double blocks_per_sm, double tail) {
  return tail * std::ceil(blocks_per_sm) + (1 - tail) * std::max(blocks_per_sm, 1.0);
}

GemmTime TimeOnSms(const ComputeWork& work, const GpuSpec& gpu, const GemmCurve& curve,
                   std::int64_t sms) {
  SIM_CHECK(work.m > 0 && sms >= 1, "tiles need a shape and an SM");
  const double efficiency = gpu.gemm_efficiency * ShapeFactor(work, curve);
  const double memory = curve.memory_efficiency.value_or(gpu.memory_efficiency);
  const Machine machine{PeakOf(gpu, work.dtype).value / Real(gpu.sms) * efficiency,
                        gpu.hbm_bandwidth.value * memory, sms};
  const std::vector<GemmTile> any = {GemmTile{}};
  GemmTime best{std::numeric_limits<double>::infinity(), 0};
  for (const GemmTile& tile : curve.tiles.empty() ? any : curve.tiles) {
    for (const GemmTile& turned : {tile, GemmTile{tile.n, tile.m, tile.efficiency}}) {
      for (std::int64_t split = 1; split <= std::min(curve.split_k, work.k); split *= 2) {
        const GemmTime time = TimeOf(work, curve, machine, turned, split);
        if (time.seconds < best.seconds) best = time;
      }
    }
  }
  return best;
}

}  // namespace stepsim
