#include "models/cost/measured_curve.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "models/cost/nccl_pricer.h"

namespace stepsim {
namespace {

// Sizes go up in steps of 2: within the next step is still between two measured ones.
constexpr double kStep = 2;

bool IsOutside(const CollectiveCurve& curve, double bytes) {
  return curve.largest.value > 0 &&
         (bytes * kStep <= ToDouble(curve.smallest) || bytes >= ToDouble(curve.largest) * kStep);
}

double LogAt(double bytes) { return std::log(std::max(1.0, bytes)); }

// measured / smooth at a knot.
double LogRatio(const CollectiveCurve& curve, const CurveKnot& knot) {
  return std::log(ToSeconds(knot.time) / SmoothSeconds(curve, ToDouble(knot.size)));
}

// A transport of the host: no SM, no HBM, and of the link the part of its time in which it moves
// bytes (another in flight may use the rest).
void MoveToHost(const CollectiveCurve& curve, bool is_between_nodes, CollectiveCost* cost) {
  cost->algorithm = curve.backend == "gloo" ? "gloo" : "mpi";
  cost->protocol = "";
  cost->channels = 0;
  cost->sms = 0;
  cost->hbm_bytes = 0;
  const double share = cost->seconds > 0 ? 1 - cost->latency_seconds / cost->seconds : 0;
  cost->intra_share = is_between_nodes ? 0 : share;
  cost->network_share = is_between_nodes ? share : 0;
}

// The knobs of a measurement: NCCL's defaults.
CollectiveModelSpec AsMeasured(const CollectiveModelSpec& spec, std::int64_t max_ctas) {
  CollectiveModelSpec plain;
  plain.nccl_version = spec.nccl_version;
  plain.corrections = spec.corrections;
  plain.correction_table = spec.correction_table;
  plain.max_ctas = max_ctas;
  return plain;
}

}  // namespace

double SmoothSeconds(const CollectiveCurve& curve, double bytes) {
  const double transfer = curve.bandwidth.value > 0 ? bytes / curve.bandwidth.value : 0;
  return ToSeconds(curve.latency) + transfer + std::sqrt(ToSeconds(curve.ramp) * transfer);
}

double CurveSeconds(const CollectiveCurve& curve, double bytes) {
  const double smooth = SmoothSeconds(curve, bytes);
  const std::vector<CurveKnot>& knots = curve.knots;
  if (knots.empty() || smooth <= 0) return smooth;
  const auto above = std::lower_bound(
      knots.begin(), knots.end(), bytes,
      [](const CurveKnot& knot, double value) { return ToDouble(knot.size) < value; });
  if (above == knots.begin()) return smooth * std::exp(LogRatio(curve, knots.front()));
  if (above == knots.end()) return smooth * std::exp(LogRatio(curve, knots.back()));
  const CurveKnot& low = *std::prev(above);
  const double from = LogAt(ToDouble(low.size)), to = LogAt(ToDouble(above->size));
  const double part = to > from ? (LogAt(bytes) - from) / (to - from) : 1;
  const double ratio = LogRatio(curve, low);
  return smooth * std::exp(ratio + part * (LogRatio(curve, *above) - ratio));
}

MeasuredCurves::MeasuredCurves(const HardwareSpec& hardware, const CollectiveModelSpec& spec)
    : hardware_(hardware), spec_(spec) {
  for (CollectiveCurve& curve : hardware_.collective_curves) {
    std::stable_sort(curve.knots.begin(), curve.knots.end(),
                     [](const CurveKnot& a, const CurveKnot& b) { return a.size < b.size; });
  }
}
MeasuredCurves::~MeasuredCurves() = default;

// Those of the collective on this shape of group, with the job's limit of thread blocks where one
// was measured with it.
std::vector<const CollectiveCurve*> MeasuredCurves::CurvesOf(
    const CollectiveRequest& request) const {
  std::vector<const CollectiveCurve*> exact, others;
  for (const CollectiveCurve& curve : hardware_.collective_curves) {
    if (curve.collective != ToString(request.op) || curve.ranks != request.placement.ranks ||
        curve.nodes != request.placement.nodes || SmoothSeconds(curve, 1) <= 0) {
      continue;
    }
    (curve.max_ctas == spec_.max_ctas ? exact : others).push_back(&curve);
  }
  return exact.empty() ? others : exact;
}

// Where the job leaves the choice to NCCL, what ran at this size on the real system counts more
// than what the model would choose.
const CollectiveCurve* MeasuredCurves::Find(const CollectiveRequest& request,
                                            const CollectiveCost& cost) const {
  const double bytes = ToDouble(request.bytes);
  const bool is_pinned =
      !spec_.algorithm.empty() || !spec_.protocol.empty() || !spec_.all_reduce.empty();
  const auto matches = [](const std::string& pattern, std::string_view value) {
    return pattern == "*" || pattern == value;
  };
  const auto rank = [&](const CollectiveCurve& curve) {
    const bool is_it = curve.backend != "nccl" || (matches(curve.algorithm, cost.algorithm) &&
                                                   matches(curve.protocol, cost.protocol));
    const bool is_inside = !IsOutside(curve, bytes);
    const int first = is_pinned ? is_it : is_inside, second = is_pinned ? is_inside : is_it;
    return 2 * first + second;
  };
  const CollectiveCurve* best = nullptr;
  for (const CollectiveCurve* curve : CurvesOf(request)) {
    const bool is_better =
        best == nullptr || rank(*curve) > rank(*best) ||
        (rank(*curve) == rank(*best) && CurveSeconds(*curve, bytes) < CurveSeconds(*best, bytes));
    if (is_better) best = curve;
  }
  return best;
}

double MeasuredCurves::ModelSeconds(const CollectiveCurve& curve, const CollectiveRequest& request,
                                    const CollectiveCost& cost) {
  if (spec_.model != CollectiveModel::kNccl) return cost.seconds;
  std::unique_ptr<NcclPricer>& pricer = as_measured_[curve.max_ctas];
  if (pricer == nullptr) {
    pricer = std::make_unique<NcclPricer>(hardware_, AsMeasured(spec_, curve.max_ctas));
  }
  if (curve.algorithm == cost.algorithm) {
    for (const CollectiveCost& candidate : pricer->Candidates(request)) {
      const bool is_it = candidate.algorithm == curve.algorithm &&
                         (curve.protocol == "*" || candidate.protocol == curve.protocol);
      if (is_it) return candidate.seconds;
    }
  }
  return pricer->Price(request).seconds;
}

void MeasuredCurves::ApplyTo(const CollectiveRequest& request, CollectiveCost* cost) {
  const CollectiveCurve* curve = Find(request, *cost);
  if (curve == nullptr || cost->seconds <= 0) return;
  const double bytes = ToDouble(request.bytes);
  const bool is_outside = IsOutside(*curve, bytes);
  if (curve->backend != "nccl") {
    cost->seconds = cost->nccl_seconds = CurveSeconds(*curve, bytes);
    cost->latency_seconds = std::min(ToSeconds(curve->latency), cost->seconds);
    MoveToHost(*curve, request.placement.nodes > 1, cost);
  } else {
    // Sizes too small to tell the bandwidth say nothing of larger ones.
    CollectiveRequest known = request;
    CollectiveCost at_known = *cost;
    if (curve->bandwidth.value <= 0 && is_outside && request.bytes > curve->largest) {
      known.bytes = curve->largest;
      at_known.seconds = 0;  // unknown here: only the model as measured can say it
    }
    const double model = ModelSeconds(*curve, known, at_known);
    if (model <= 0) return;
    const double ratio = CurveSeconds(*curve, ToDouble(known.bytes)) / model;
    cost->seconds *= ratio;
    cost->latency_seconds *= ratio;
  }
  cost->residual = curve->residual;
  cost->is_extrapolated = is_outside;
}

}  // namespace stepsim
