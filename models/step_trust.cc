#include "models/step_trust.h"

#include <fmt/format.h>

#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include "sim/base/units.h"

namespace stepsim {
namespace {

constexpr double kOutsideTheFit = 2;  // its residual counts so often

// Of kernels, or of collectives: seconds of the simulated ranks.
struct Known {
  double all = 0;
  double with_residual = 0;
  double error = 0;  // sum of residual x seconds
  double outside = 0;

  void Add(const CostTrust& trust, double seconds) {
    all += seconds;
    if (trust.is_extrapolated) outside += seconds;
    if (trust.residual <= 0) return;
    with_residual += seconds;
    error += seconds * trust.residual * (trust.is_extrapolated ? kOutsideTheFit : 1);
  }
  double share() const { return all > 0 ? with_residual / all : 0; }
  double outside_share() const { return all > 0 ? outside / all : 0; }
};

std::string Percent(double fraction) { return fmt::format("{:.0f}%", 100 * fraction); }

// "78% of kernel time within 3%, 12% outside the measured shapes".
std::string Describe(const Known& known, const char* whole, const char* part,
                     const char* measured) {
  constexpr double kAlmostAll = 0.995, kAlmostNone = 0.005;
  if (known.share() < kAlmostNone) return fmt::format("nothing measured is known of {}", whole);
  std::string text = known.share() > kAlmostAll
                         ? std::string(whole)
                         : fmt::format("{} of {}", Percent(known.share()), part);
  text += fmt::format(" within {}", Percent(known.error / known.with_residual));
  if (known.outside_share() > kAlmostNone) {
    text += fmt::format(", {} outside the measured {}", Percent(known.outside_share()), measured);
  }
  return text;
}

// Of models that no fit stands behind. Median errors over 965 published measurements
// (models/README.md, "Corrections and calibration").
std::string WithoutFit(const CollectiveModelSpec& spec) {
  if (spec.model == CollectiveModel::kAlphaBeta)
    return "the alpha_beta ring is off by 33% (median)";
  if (spec.corrections == "none") return "NCCL's own table is off by 25% (median)";
  return "nothing measured is known of its collectives";
}

std::string NameOf(const CollectiveWork& work, const TaskGraph& graph) {
  return fmt::format("{} of {} over {} ranks", ToString(work.op), FormatBytes(work.bytes),
                     graph.group(work.group).ranks.size());
}

}  // namespace

void AddTrust(const TaskGraph& graph, const GraphCosts& priced, const JobSpec& job,
              StepReport* report) {
  Known kernels, collectives;
  std::map<std::string, std::size_t> outside;
  for (const TaskId t : AllIds<TaskId>(graph.task_count())) {
    const WorkId w = graph.work_id(t);
    const CostTrust& trust = priced.trust[w];
    const double seconds = ToSeconds(priced.costs[w].isolated);
    if (const auto* work = std::get_if<CollectiveWork>(&graph.work(w))) {
      collectives.Add(trust, seconds);
      if (trust.is_extrapolated) ++outside[NameOf(*work, graph)];
    } else if (graph.kind(t) == TaskKind::kCompute) {
      kernels.Add(trust, seconds);
    }
  }
  StepContext& context = report->context;
  for (const auto& [name, count] : outside) {
    context.assumptions.push_back(
        {name, fmt::format("{} calls", count), "extrapolated beyond the calibrated sizes"});
  }
  if (kernels.outside_share() > 0) {
    context.assumptions.push_back(
        {"kernels", Percent(kernels.outside_share()) + " of their time",
         "extrapolated beyond the shapes that their curves were fitted to"});
  }
  std::string text = Describe(kernels, "kernels", "kernel time", "shapes");
  if (collectives.all > 0) {
    text += ", " + (collectives.with_residual > 0
                        ? Describe(collectives, "collectives", "communication", "sizes")
                        : WithoutFit(job.collectives));
  }
  const bool has_figure = text.find(" within ") != std::string::npos;
  context.confidence += has_figure ? "; alone, " + text + " (median)" : "; " + text;
}

}  // namespace stepsim
