// Kernels for buffers in symmetric windows, and copy engines: one NVLink domain, few or no SMs.
//
// NCCL has its own model of these kernels, the only one that says what n SMs reach
// (src/sym_kernels.cc of v2.30):
//
//   t = latency + softplus(bus bytes / bw - 1 us),   bw = softmin(SMs x rate of one x multiplier,
//   peak)
#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "models/cost/nccl_candidate.h"

namespace stepsim {
namespace {

constexpr double kGiBPerUs = 1024.0 * 1024 * 1024 / 1e6;  // bytes/us of 1 GiB/s
constexpr std::int64_t kMostCtas = 64;

enum class Kernel { kLl, kDirect, kMulticast };

struct KernelModel {
  double bus_bytes = 0;
  double multiplier = 1;
  double latency_us = 0;
  double sm_rate = 0;  // bytes/us
  double peak = 0;     // bytes/us
  std::int64_t most_ctas = kMostCtas;
};

double SoftMin(double x, double ceiling, double softness) {
  return ceiling -
         softness * std::log1p((std::exp(ceiling / softness) - 1) * std::exp(-x / softness));
}
double SoftPlus(double x) { return x > 100 ? x : std::log1p(std::exp(x)); }

double TransferUs(const KernelModel& model, std::int64_t ctas) {
  const double rate = SoftMin(static_cast<double>(ctas) * model.sm_rate * model.multiplier,
                              model.peak, model.sm_rate);
  return SoftPlus(model.bus_bytes / rate - 1);
}

KernelModel ModelOf(Kernel kernel, CollectiveOp op, double bytes, const NcclSystem& system,
                    double link_rate) {
  const bool is_blackwell = system.compute_capability >= 10;
  const bool is_all_reduce = op == CollectiveOp::kAllReduce;
  const double n = system.ranks;
  KernelModel model;
  if (is_blackwell) {
    const double ll = op == CollectiveOp::kAllGather ? 8.5 : 11;
    model.latency_us = kernel == Kernel::kLl ? ll : is_all_reduce ? 19.5 : 13;
  } else {
    model.latency_us = kernel == Kernel::kLl ? 4.5 : 7.8;
  }
  model.sm_rate = (is_blackwell ? 55 : is_all_reduce ? 65 : 44) * kGiBPerUs;
  model.peak = (is_blackwell ? 600 : 320) * kGiBPerUs;
  switch (kernel) {
    case Kernel::kLl:  // flags, some processing, nothing unrolled: 9 times the bytes
      model.bus_bytes = 9 * bytes * (is_all_reduce ? n : 1);
      break;
    case Kernel::kDirect:
      model.bus_bytes = bytes * (is_all_reduce ? 2 : 1) * (n - 1) / n;
      break;
    case Kernel::kMulticast:
      model.bus_bytes = is_all_reduce ? bytes * (1 + 1 / n) : bytes * (n - 1) / n;
      model.multiplier = is_all_reduce ? n : 0.55 * n;
      if (is_all_reduce) model.peak = (is_blackwell ? 1000 : 480) * kGiBPerUs;
      model.most_ctas = static_cast<std::int64_t>(std::ceil((is_blackwell ? 32 : 16) / n));
      break;
  }
  model.peak = std::min(model.peak, link_rate / 1e6);  // no kernel is faster than its link
  return model;
}

// The fewest thread blocks within 2.5 % of the best.
std::int64_t FewestCtas(const KernelModel& model, std::int64_t least, std::int64_t most) {
  const double best = model.latency_us + TransferUs(model, most);
  for (std::int64_t ctas = least; ctas < most; ++ctas) {
    if (model.latency_us + TransferUs(model, ctas) <= 1.025 * best) return ctas;
  }
  return most;
}

bool IsOneNvlinkDomain(const NcclSystem& system) {
  return system.nodes <= 1 && system.is_switched && system.intra_link == NcclLink::kNvlink;
}

// A latency and a bandwidth that give the time at this size.
NcclPrediction AsPrediction(double latency_us, double transfer_us, double bytes) {
  if (bytes <= 0) return {latency_us + transfer_us, 1};
  return {latency_us, bytes / (1000 * transfer_us)};
}

}  // namespace

std::optional<NcclCandidate> SymmetricCandidate(const NcclGroup& group,
                                                const HardwareSpec& hardware,
                                                const CollectiveRequest& request,
                                                const CollectiveModelSpec& spec) {
  const NcclSystem& system = group.seen;
  const bool is_known = request.op == CollectiveOp::kAllReduce || IsGatherOrScatter(request.op);
  if (!spec.symmetric_memory || !is_known || !IsOneNvlinkDomain(system) ||
      system.compute_capability < 9 || group.minor < 27) {
    return std::nullopt;
  }
  constexpr double kPenaltyPerCta = 0.025;  // a kernel with more blocks must be that much faster
  constexpr std::array kKernels = {Kernel::kLl, Kernel::kDirect, Kernel::kMulticast};
  const double bytes = ToDouble(request.bytes);
  const double link_rate = IntraNode(hardware).bandwidth.value;
  NcclCandidate best;
  double best_score = 0;
  for (const Kernel kernel : kKernels) {
    if (kernel == Kernel::kMulticast && !spec.nvls) continue;
    const KernelModel model = ModelOf(kernel, request.op, bytes, system, link_rate);
    const std::int64_t limit = spec.max_ctas > 0 ? spec.max_ctas : kMostCtas;
    const std::int64_t most = std::max<std::int64_t>(1, std::min(model.most_ctas, limit));
    const std::int64_t least = std::clamp<std::int64_t>(spec.min_ctas, 1, most);
    const std::int64_t ctas = FewestCtas(model, least, most);
    const double transfer = TransferUs(model, ctas);
    const double score =
        (model.latency_us + transfer) * (1 + kPenaltyPerCta * static_cast<double>(ctas));
    if (best_score > 0 && score >= best_score) continue;
    best_score = score;
    best.protocol = kernel == Kernel::kLl ? NcclProtocol::kLl : NcclProtocol::kSimple;
    best.delivered = AsPrediction(model.latency_us, transfer, bytes);
    best.nccl_us = model.latency_us + transfer;
    best.channels = ctas;
    best.link_factor = bytes > 0 ? model.bus_bytes / bytes : 0;
  }
  best.algorithm = "symmetric";
  best.sms = static_cast<double>(best.channels);
  best.hbm_factor =
      BusFactor(request.op, request.placement.ranks) * HbmPerBusByte(best.protocol, true);
  return best;
}

std::optional<NcclCandidate> CopyEngineCandidate(const NcclGroup& group,
                                                 const HardwareSpec& hardware,
                                                 const CollectiveRequest& request,
                                                 const CollectiveModelSpec& spec) {
  const bool is_copy =
      request.op == CollectiveOp::kAllGather || request.op == CollectiveOp::kAllToAll;
  if (spec.cta_policy != CtaPolicy::kZero || !is_copy || !IsOneNvlinkDomain(group.seen) ||
      group.minor < 28) {
    return std::nullopt;
  }
  const double bytes = ToDouble(request.bytes);
  const double bus = BusFactor(request.op, request.placement.ranks);
  NcclCandidate candidate;
  candidate.algorithm = "copy_engine";
  // The barriers of a symmetric kernel, then copies at the link's rate.
  const double latency = group.seen.compute_capability >= 10 ? 13 : 7.8;
  candidate.delivered = {latency, IntraNode(hardware).bandwidth.value / 1e9 / bus};
  candidate.nccl_us = Microseconds(candidate.delivered, bytes);
  candidate.link_factor = bus;
  candidate.hbm_factor = bus * HbmPerBusByte(NcclProtocol::kSimple, true);
  return candidate;
}

}  // namespace stepsim
