#include "models/cost/nccl_pricer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>

#include "models/cost/collective_correction.h"
#include "models/cost/nccl_group.h"
#include "models/cost/nccl_occupancy.h"
#include "models/cost/nccl_overrides.h"
#include "sim/base/diagnostics.h"

namespace stepsim {
namespace {

constexpr std::array kProtocols = {NcclProtocol::kLl, NcclProtocol::kLl128, NcclProtocol::kSimple};

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

struct NcclPricer::Impl {
  Impl(const HardwareSpec& hardware_in, const CollectiveModelSpec& spec_in)
      : hardware(hardware_in),
        spec(spec_in),
        table(NcclTableFor(spec_in.nccl_version)),
        overrides(spec_in) {}

  const NcclGroup& Group(const Placement& placement) {
    const auto found = groups.find(placement);
    if (found != groups.end()) return *found->second;
    auto group = std::make_unique<NcclGroup>(hardware, placement, table);
    return *groups.emplace(placement, std::move(group)).first->second;
  }

  std::string_view RefusalOf(const NcclAlgorithmRow& row, const NcclCall& call) const;
  CollectiveCost PriceRow(const NcclGroup& group, const NcclAlgorithmRow& row,
                          const CollectiveRequest& request, NcclProtocol protocol) const;
  void Occupy(const NcclGroup& group, const NcclCall& call, NcclAlgorithm algorithm,
              const ChannelCount& channels, double bytes, CollectiveCost* cost) const;
  std::vector<CollectiveCost> Enabled(const CollectiveRequest& request);
  [[noreturn]] void Refuse(const CollectiveRequest& request);
  void Calibrate(const CollectiveRequest& request, CollectiveCost* cost);
  CollectiveCost Choose(const CollectiveRequest& request);

  HardwareSpec hardware;
  CollectiveModelSpec spec;
  const NcclTable& table;
  NcclOverrides overrides;
  std::map<Placement, std::unique_ptr<NcclGroup>> groups;
};

std::string_view NcclPricer::Impl::RefusalOf(const NcclAlgorithmRow& row,
                                             const NcclCall& call) const {
  if (!overrides.AllowsAlgorithm(call.op, row.name)) return "not among collectives.algorithm";
  if (!overrides.AllowsProtocol(call.op, NameOf(call.protocol))) {
    return "not among collectives.protocol";
  }
  const std::string_view reason = row.refusal(call, spec);
  if (!reason.empty()) return reason;
  return ProtocolRefusal(call, overrides.NamesProtocols(call.op));
}

void NcclPricer::Impl::Occupy(const NcclGroup& group, const NcclCall& call, NcclAlgorithm algorithm,
                              const ChannelCount& channels, double bytes,
                              CollectiveCost* cost) const {
  const bool is_in_switch =
      algorithm == NcclAlgorithm::kNvls || algorithm == NcclAlgorithm::kNvlsTree;
  cost->channels = channels.used;
  cost->sms = static_cast<double>(channels.used);
  const double bus_bytes = bytes * BusFactor(call.op, group.placement.ranks);
  const bool is_direct = is_in_switch || spec.registered_buffers;
  cost->hbm_bytes = bus_bytes * HbmPerBusByte(call.protocol, is_direct);
  if (cost->seconds <= 0) return;
  const double wire = WireFactor(call.protocol) / cost->seconds;
  if (group.placement.ranks_per_node > 1) {
    // In the switch a GPU's link carries the buffer and its own part of the sum, not the bus bytes.
    const double link_bytes =
        is_in_switch ? bytes * (1 + 1 / std::max(1.0, call.system.nvls.channels)) : bus_bytes;
    cost->intra_share = std::min(1.0, link_bytes * wire / IntraNode(hardware).bandwidth.value);
  }
  if (group.placement.nodes > 1) {
    const double uplink = GroupUplink(hardware, group.placement).bandwidth.value;
    cost->network_share = std::min(1.0, bytes * NodeTraffic(call, algorithm) * wire / uplink);
  }
}

CollectiveCost NcclPricer::Impl::PriceRow(const NcclGroup& group, const NcclAlgorithmRow& row,
                                          const CollectiveRequest& request,
                                          NcclProtocol protocol) const {
  const double bytes = ToDouble(request.bytes);
  const NcclCall seen = group.Seen(request.op, protocol);
  const NcclCall delivered = group.Delivered(request.op, protocol);
  CollectiveCost cost;
  cost.algorithm = row.name;
  cost.protocol = NameOf(protocol);
  cost.nccl_seconds =
      1e-6 * AccuracyPenalty(request, row.algorithm) *
      Microseconds(CorrectedForSize(seen, row.algorithm, bytes, row.predict(seen)), bytes);
  const ChannelCount channels = ChannelsOf(seen, row.algorithm, bytes, spec);
  NcclPrediction prediction =
      CorrectedForSize(delivered, row.algorithm, bytes, row.predict(delivered));
  prediction.bandwidth *= channels.rate;
  const CollectiveCorrection& correction = FindCorrection(
      spec.correction_table, {.transport = CorrectionTransport(hardware, group.placement.nodes),
                              .generation = GenerationName(hardware.gpu.compute_capability),
                              .algorithm = cost.algorithm,
                              .protocol = cost.protocol,
                              .collective = ToString(request.op)});
  const SplitTime time = Correct(correction, {.latency = 1e-6 * prediction.latency_us,
                                              .transfer = 1e-9 * bytes / prediction.bandwidth});
  cost.seconds = time.sum();
  cost.latency_seconds = time.latency;
  cost.residual = correction.residual;
  Occupy(group, seen, row.algorithm, channels, bytes, &cost);
  return cost;
}

std::vector<CollectiveCost> NcclPricer::Impl::Enabled(const CollectiveRequest& request) {
  const NcclGroup& group = Group(request.placement);
  std::vector<CollectiveCost> costs;
  for (const NcclAlgorithmRow& row : NcclAlgorithmRows()) {
    for (const NcclProtocol protocol : kProtocols) {
      if (!RefusalOf(row, group.Seen(request.op, protocol)).empty()) continue;
      costs.push_back(PriceRow(group, row, request, protocol));
    }
  }
  return costs;
}

// Says for each algorithm why it is not there, by the protocol that came furthest.
void NcclPricer::Impl::Refuse(const CollectiveRequest& request) {
  const NcclGroup& group = Group(request.placement);
  std::string reasons;
  for (const NcclAlgorithmRow& row : NcclAlgorithmRows()) {
    if (!overrides.AllowsAlgorithm(request.op, row.name)) continue;
    std::string_view reason;
    for (const NcclProtocol protocol : kProtocols) {
      const NcclCall call = group.Seen(request.op, protocol);
      if (reason.empty() || overrides.AllowsProtocol(request.op, NameOf(protocol))) {
        reason = RefusalOf(row, call);
      }
    }
    reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", row.name, reason);
  }
  throw ConfigError(
      Place{},
      fmt::format("collectives: no algorithm is left for {} over {} ranks on {} node{}: {}",
                  ToString(request.op), request.placement.ranks, request.placement.nodes,
                  request.placement.nodes == 1 ? "" : "s",
                  reasons.empty() ? "none of NCCL's is allowed" : reasons));
}

CollectiveCost NcclPricer::Impl::Choose(const CollectiveRequest& request) {
  const std::vector<CollectiveCost> costs = Enabled(request);
  if (costs.empty()) Refuse(request);
  return *std::min_element(costs.begin(), costs.end(),
                           [](const CollectiveCost& a, const CollectiveCost& b) {
                             return a.nccl_seconds < b.nccl_seconds;
                           });
}

void NcclPricer::Impl::Calibrate(const CollectiveRequest& request, CollectiveCost* cost) {
  std::vector<CollectiveCalibration::Knot> knots;
  for (const CollectivePoint& point : PointsFor(hardware, request.op, request.placement)) {
    CollectiveRequest at_point = request;
    at_point.bytes = point.size;
    const CollectiveCost predicted = Choose(at_point);
    knots.push_back({.bytes = ToDouble(point.size),
                     .predicted = {.latency = predicted.latency_seconds,
                                   .transfer = predicted.seconds - predicted.latency_seconds},
                     .measured = ToSeconds(point.time)});
  }
  CollectiveCalibration(knots).ApplyTo(ToDouble(request.bytes), cost);
}

NcclPricer::NcclPricer(const HardwareSpec& hardware, const CollectiveModelSpec& spec)
    : impl_(std::make_unique<Impl>(hardware, spec)) {}
NcclPricer::~NcclPricer() = default;

CollectiveCost NcclPricer::Price(const CollectiveRequest& request) {
  CollectiveCost cost = impl_->Choose(request);
  impl_->Calibrate(request, &cost);
  return cost;
}

std::vector<CollectiveCost> NcclPricer::Candidates(const CollectiveRequest& request) {
  std::vector<CollectiveCost> costs = impl_->Enabled(request);
  if (costs.empty()) impl_->Refuse(request);
  for (CollectiveCost& cost : costs) impl_->Calibrate(request, &cost);
  return costs;
}

}  // namespace stepsim
