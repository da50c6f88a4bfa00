#include "models/step_trust.h"

#include <fmt/format.h>

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
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

constexpr double kAlmostNone = 0.005;
constexpr double kAlmostAll = 0.995;

// How far to trust a part of the step, and whether a median error stands behind that.
struct Statement {
  std::string text;
  bool has_median = false;
};

// "78% of kernel time within 3%, 12% outside the measured shapes".
Statement Describe(const Known& known, const char* whole, const char* part, const char* measured) {
  if (known.share() < kAlmostNone) return {fmt::format("nothing measured is known of {}", whole)};
  std::string text = known.share() > kAlmostAll
                         ? std::string(whole)
                         : fmt::format("{} of {}", Percent(known.share()), part);
  text += fmt::format(" within {}", Percent(known.error / known.with_residual));
  if (known.outside_share() > kAlmostNone) {
    text += fmt::format(", {} outside the measured {}", Percent(known.outside_share()), measured);
  }
  return {text, true};
}

// Collectives that no fit stands behind.
Statement WithoutFit(const CollectiveModelSpec& spec) {
  if (spec.model == CollectiveModel::kAlphaBeta) {
    return {"collectives by the alpha_beta model, held against no measurement"};
  }
  if (spec.model == CollectiveModel::kGloo) return {"collectives as the link's profile has them"};
  // results/validation/README.md, "uncorrected": the median of all points.
  if (spec.corrections == "none") return {"collectives without corrections within 16%", true};
  return {"nothing measured is known of its collectives"};
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
  constexpr std::string_view kMedian = " (median)";
  const Statement first = Describe(kernels, "kernels", "kernel time", "shapes");
  Statement second;
  if (collectives.all > 0) {
    second = collectives.with_residual > 0
                 ? Describe(collectives, "collectives", "communication", "sizes")
                 : WithoutFit(job.collectives);
  }
  context.confidence += first.has_median || second.has_median ? "; alone, " : "; ";
  context.confidence += first.text;
  if (first.has_median && !second.has_median) context.confidence += kMedian;
  if (!second.text.empty()) context.confidence += ", " + second.text;
  if (second.has_median) context.confidence += kMedian;
}

}  // namespace stepsim
