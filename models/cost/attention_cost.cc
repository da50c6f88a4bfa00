#include "models/cost/attention_cost.h"

#include <cmath>

#include "models/cost/gemm_cost.h"
#include "sim/base/check.h"

namespace stepsim {
namespace {

double Real(std::int64_t n) { return static_cast<double>(n); }

// The vector units' share grows as heads get smaller; 1 for 128.
double HeadFactor(std::int64_t head_dim, double ramp) {
  constexpr double kReference = 128;
  const double d = Real(head_dim);
  return d / (d + ramp) * (kReference + ramp) / kReference;
}

}  // namespace

double AttentionSeconds(const ComputeWork& work, const GpuSpec& gpu, std::int64_t sms) {
  SIM_CHECK(work.m > 0 && sms >= 1, "blocks need a shape and an SM");
  const AttentionCurve& curve = gpu.attention;
  const double pass = work.pass == Pass::kForward ? curve.forward : curve.backward;
  const double efficiency =
      gpu.attention_efficiency * pass * HeadFactor(work.k, curve.head_dim_ramp);
  const double sm_rate = PeakOf(gpu, work.dtype).value / Real(gpu.sms) * efficiency;
  const double blocks = Real(work.batch) * std::ceil(Real(work.m) / Real(curve.query_rows));
  // Under a causal mask the mean row sees half of the keys, the longest one all of them.
  const double longest_over_mean = work.causal ? 2 : 1;
  const double keys = Real(work.n) / longest_over_mean;
  const double mean = work.flops.value / blocks * (1 + curve.key_ramp / keys) / sm_rate;
  const double longest = mean * longest_over_mean;
  return Waves(blocks / Real(sms) / longest_over_mean, curve.tail) * longest;
}

}  // namespace stepsim
