#include "models/cost/nccl_candidate.h"

#include <algorithm>

#include "models/cost/collective_correction.h"
#include "models/spec/gpu_generation.h"

namespace stepsim {
namespace {

bool Reduces(CollectiveOp op) {
  return op == CollectiveOp::kAllReduce || op == CollectiveOp::kReduceScatter ||
         op == CollectiveOp::kReduce;
}

// NCCL avoids long rings of fp8 sums: each step rounds.
double AccuracyPenalty(const CollectiveRequest& request, NcclAlgorithm algorithm) {
  const bool rounds_often = algorithm == NcclAlgorithm::kRing && request.dtype == DType::kFp8 &&
                            Reduces(request.op) && request.placement.ranks > 8;
  return rounds_often ? 1024 : 1;
}

}  // namespace

NcclCandidate TableCandidate(const NcclGroup& group, const NcclAlgorithmRow& row,
                             NcclProtocol protocol, const CollectiveRequest& request,
                             const CollectiveModelSpec& spec) {
  const double bytes = ToDouble(request.bytes);
  const NcclCall seen = group.Seen(request.op, protocol);
  const NcclCall delivered = group.Delivered(request.op, protocol);
  const ChannelCount channels = ChannelsOf(seen, row.algorithm, bytes, spec);
  NcclCandidate candidate;
  candidate.algorithm = row.name;
  candidate.protocol = protocol;
  candidate.nccl_us =
      AccuracyPenalty(request, row.algorithm) *
      Microseconds(CorrectedForSize(seen, row.algorithm, bytes, row.predict(seen)), bytes);
  candidate.delivered = CorrectedForSize(delivered, row.algorithm, bytes, row.predict(delivered));
  const bool is_in_switch = IsInSwitch(row.algorithm);
  if (is_in_switch && spec.registered_buffers && IsGatherOrScatter(request.op)) {
    candidate.delivered.bandwidth = MulticastBandwidth(group.delivered);
  }
  candidate.delivered.bandwidth *= channels.rate;
  candidate.channels = channels.used;
  candidate.sms = static_cast<double>(channels.used);
  const double bus = BusFactor(request.op, request.placement.ranks);
  const double wire = WireFactor(protocol);
  candidate.hbm_factor = bus * HbmPerBusByte(protocol, is_in_switch || spec.registered_buffers);
  // In the switch a GPU's link carries the buffer and the GPU's own part of the sum.
  candidate.link_factor = is_in_switch ? 1 + 1 / group.seen.nvls.channels : bus * wire;
  candidate.node_factor = NodeTraffic(seen, row.algorithm) * wire;
  return candidate;
}

CollectiveCost CostOf(const NcclCandidate& candidate, const NcclGroup& group,
                      const HardwareSpec& hardware, const CollectiveRequest& request,
                      const CollectiveModelSpec& spec) {
  const double bytes = ToDouble(request.bytes);
  CollectiveCost cost;
  cost.algorithm = candidate.algorithm;
  cost.protocol = NameOf(candidate.protocol);
  cost.channels = candidate.channels;
  cost.sms = std::min(candidate.sms, static_cast<double>(hardware.gpu.sms));
  cost.nccl_seconds = candidate.nccl_us * 1e-6;
  const CollectiveCorrection& correction = FindCorrection(
      spec.correction_table, {.transport = CorrectionTransport(hardware, group.placement.nodes),
                              .generation = ToString(GenerationOf(hardware.gpu.compute_capability)),
                              .algorithm = cost.algorithm,
                              .protocol = cost.protocol,
                              .collective = ToString(request.op)});
  const NcclPrediction& table = candidate.delivered;
  const SplitTime time = Correct(
      correction, {.latency = 1e-6 * table.latency_us, .transfer = 1e-9 * bytes / table.bandwidth});
  cost.seconds = time.sum();
  cost.latency_seconds = time.latency;
  cost.residual = correction.residual;
  cost.is_extrapolated = IsOutside(correction, request.bytes);
  cost.hbm_bytes = bytes * candidate.hbm_factor;
  if (cost.seconds <= 0) return cost;
  const double rate = bytes / cost.seconds;
  if (group.placement.ranks_per_node > 1) {
    cost.intra_share =
        std::min(1.0, rate * candidate.link_factor / IntraNode(hardware).bandwidth.value);
  }
  if (group.placement.nodes > 1) {
    const double uplink = GroupUplink(hardware, group.placement).bandwidth.value;
    cost.network_share = std::min(1.0, rate * candidate.node_factor / uplink);
  }
  return cost;
}

}  // namespace stepsim
