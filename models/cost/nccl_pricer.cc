#include "models/cost/nccl_pricer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <string>

#include "models/cost/collective_correction.h"
#include "models/cost/nccl_candidate.h"
#include "models/cost/nccl_group.h"
#include "models/cost/nccl_levels.h"
#include "models/cost/nccl_overrides.h"
#include "sim/base/diagnostics.h"

namespace stepsim {
namespace {

constexpr std::array kProtocols = {NcclProtocol::kLl, NcclProtocol::kLl128, NcclProtocol::kSimple};
constexpr std::array<std::string_view, 2> kLevelAlgorithms = {"hierarchical", "two_level"};

bool IsP2p(CollectiveOp op) {
  return op == CollectiveOp::kAllToAll || op == CollectiveOp::kSendRecv;
}

bool IsFaster(const CollectiveCost& a, const CollectiveCost& b) {
  return a.nccl_seconds < b.nccl_seconds;
}

// The parts of a collective in two levels are NCCL's own calls: nothing is pinned.
CollectiveModelSpec WithoutAlgorithms(CollectiveModelSpec spec) {
  spec.algorithm.clear();
  spec.all_reduce.clear();
  return spec;
}

}  // namespace

struct NcclPricer::Impl {
  Impl(const HardwareSpec& hardware_in, const CollectiveModelSpec& spec_in)
      : hardware(hardware_in), spec(spec_in), overrides(spec_in) {}

  const NcclGroup& Group(const Placement& placement);
  std::string_view RefusalOf(const NcclAlgorithmRow& row, const NcclCall& call) const;
  // By the table's order; then what needs no table.
  std::vector<CollectiveCost> Enabled(const CollectiveRequest& request);
  void AddLevels(const CollectiveRequest& request, std::vector<CollectiveCost>* costs);
  std::optional<CollectiveCost> Special(const CollectiveRequest& request);
  const CollectiveCost* PreferredInSwitch(const CollectiveRequest& request,
                                          const std::vector<CollectiveCost>& costs,
                                          const CollectiveCost& fastest);
  CollectiveCost Choose(const CollectiveRequest& request);
  void Calibrate(const CollectiveRequest& request, CollectiveCost* cost);
  [[noreturn]] void Refuse(const CollectiveRequest& request);

  HardwareSpec hardware;
  CollectiveModelSpec spec;
  NcclOverrides overrides;
  std::map<Placement, std::unique_ptr<NcclGroup>> groups;
  std::unique_ptr<NcclPricer> parts;  // of collectives in two levels
};

const NcclGroup& NcclPricer::Impl::Group(const Placement& placement) {
  std::unique_ptr<NcclGroup>& group = groups[placement];
  if (group == nullptr) {
    group = std::make_unique<NcclGroup>(hardware, placement, spec.nccl_version);
  }
  return *group;
}

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

// Symmetric kernels and copy engines are taken where the job set them up; grouped sends know no
// algorithms.
std::optional<CollectiveCost> NcclPricer::Impl::Special(const CollectiveRequest& request) {
  const NcclGroup& group = Group(request.placement);
  const auto cost_of = [&](const NcclCandidate& candidate) {
    return CostOf(candidate, group, hardware, request, spec);
  };
  if (!overrides.NamesAlgorithms(request.op)) {
    if (const auto engine = CopyEngineCandidate(group, hardware, request, spec)) {
      return cost_of(*engine);
    }
    if (const auto kernel = SymmetricCandidate(group, hardware, request, spec)) {
      return cost_of(*kernel);
    }
  }
  if (IsP2p(request.op)) return cost_of(P2pCandidate(group, hardware, request, spec));
  return std::nullopt;
}

void NcclPricer::Impl::AddLevels(const CollectiveRequest& request,
                                 std::vector<CollectiveCost>* costs) {
  for (const std::string_view algorithm : kLevelAlgorithms) {
    if (!overrides.AsksFor(request.op, algorithm)) continue;
    if (parts == nullptr) {
      parts = std::make_unique<NcclPricer>(hardware, WithoutAlgorithms(spec));
    }
    std::vector<CollectiveCost> levels;
    for (const CollectiveRequest& level : LevelsOf(algorithm, request)) {
      levels.push_back(parts->Price(level));
    }
    if (!levels.empty()) costs->push_back(SumOfLevels(algorithm, levels));
  }
}

std::vector<CollectiveCost> NcclPricer::Impl::Enabled(const CollectiveRequest& request) {
  const NcclGroup& group = Group(request.placement);
  std::vector<CollectiveCost> costs;
  if (!IsP2p(request.op)) {
    for (const NcclAlgorithmRow& row : NcclAlgorithmRows()) {
      for (const NcclProtocol protocol : kProtocols) {
        if (!RefusalOf(row, group.Seen(request.op, protocol)).empty()) continue;
        const NcclCandidate candidate = TableCandidate(group, row, protocol, request, spec);
        costs.push_back(CostOf(candidate, group, hardware, request, spec));
      }
    }
    AddLevels(request, &costs);
  }
  return costs;
}

// With registered buffers NCCL gathers and scatters in the switch, to spare SMs, although a ring is
// faster; from 2.27 on only under the efficiency policy.
const CollectiveCost* NcclPricer::Impl::PreferredInSwitch(const CollectiveRequest& request,
                                                          const std::vector<CollectiveCost>& costs,
                                                          const CollectiveCost& fastest) {
  const bool is_policy =
      Group(request.placement).minor < 27 || spec.cta_policy == CtaPolicy::kEfficiency;
  if (!spec.registered_buffers || !is_policy || !IsGatherOrScatter(request.op)) return nullptr;
  if (overrides.NamesAlgorithms(request.op) || overrides.NamesProtocols(request.op)) return nullptr;
  for (const CollectiveCost& cost : costs) {
    if (cost.algorithm == "nvls" && cost.channels <= fastest.channels) return &cost;
  }
  return nullptr;
}

CollectiveCost NcclPricer::Impl::Choose(const CollectiveRequest& request) {
  if (const std::optional<CollectiveCost> special = Special(request)) return *special;
  const std::vector<CollectiveCost> costs = Enabled(request);
  if (costs.empty()) Refuse(request);
  const CollectiveCost& fastest = *std::min_element(costs.begin(), costs.end(), IsFaster);
  const CollectiveCost* preferred = PreferredInSwitch(request, costs, fastest);
  return preferred != nullptr ? *preferred : fastest;
}

// Says of each allowed algorithm why it is not there, with a protocol that the job allows.
void NcclPricer::Impl::Refuse(const CollectiveRequest& request) {
  const NcclGroup& group = Group(request.placement);
  std::string reasons;
  for (const NcclAlgorithmRow& row : NcclAlgorithmRows()) {
    if (!overrides.AllowsAlgorithm(request.op, row.name)) continue;
    std::string_view reason;
    for (const NcclProtocol protocol : kProtocols) {
      if (!overrides.AllowsProtocol(request.op, NameOf(protocol)) && !reason.empty()) continue;
      reason = RefusalOf(row, group.Seen(request.op, protocol));
    }
    reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", row.name, reason);
  }
  for (const std::string_view algorithm : kLevelAlgorithms) {
    if (!overrides.AsksFor(request.op, algorithm)) continue;
    reasons +=
        fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", algorithm, LevelsRefusal(algorithm));
  }
  const Placement& placement = request.placement;
  throw ConfigError(
      Place{},
      fmt::format("collectives: no algorithm is left for {} over {} ranks on {} node{}{}{}",
                  ToString(request.op), placement.ranks, placement.nodes,
                  placement.nodes == 1 ? "" : "s", reasons.empty() ? "" : ": ", reasons));
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
  if (const std::optional<CollectiveCost> special = impl_->Special(request)) {
    costs.push_back(*special);
  }
  if (costs.empty()) impl_->Refuse(request);
  for (CollectiveCost& cost : costs) impl_->Calibrate(request, &cost);
  return costs;
}

}  // namespace stepsim
