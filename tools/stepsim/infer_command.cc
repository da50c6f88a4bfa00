// stepsim infer: what did the hardware deliver, if a step was measured that long?
#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "models/study/infer.h"
#include "models/study/required.h"
#include "sim/base/diagnostics.h"
#include "sim/base/units.h"
#include "tools/stepsim/command.h"
#include "tools/stepsim/job_options.h"
#include "tools/stepsim/measured_value.h"
#include "tools/stepsim/result_table.h"

namespace stepsim {
namespace {

struct InferOptions {
  std::shared_ptr<JobOptions> job;
  std::string step_time;
  std::string free;
  std::vector<std::string> exports;
};

std::vector<InferKind> ParseFree(const std::string& text, const JobSpec& job) {
  const bool sends = FindFreeVariable("network")->problem(job).empty();
  if (text == "compute" || (text.empty() && !sends)) return {InferKind::kCompute};
  if (text.empty()) return {InferKind::kNetwork, InferKind::kCompute};
  const Place place{"--free " + text, 0, 0};
  if (text != "network") {
    throw ConfigError(place, "found no such variable, allowed: network, compute" +
                                 DidYouMean(text, {"network", "compute"}));
  }
  if (!sends) throw ConfigError(place, "one GPU sends nothing, allowed: compute");
  return {InferKind::kNetwork};
}

std::string Name(const JobSpec& job, InferKind kind) {
  if (kind == InferKind::kCompute) return "compute";
  return job.nodes > 1 ? "network" : "links in the node";
}

// What the measured step says, and what to do about it.
std::string Explain(const JobSpec& job, InferKind kind, const Inference& found, double measured) {
  if (found.verdict == InferVerdict::kUnexplained) {
    const bool is_too_long = measured > ToSeconds(found.slowest.step);
    const RateAndStep& end = is_too_long ? found.slowest : found.fastest;
    return fmt::format("no rate gives this step: {} at {:.3g} times the nominal rate, which is {}",
                       FormatTime(end.step), end.factor,
                       is_too_long
                           ? "shorter than measured; something else holds it up"
                           : "longer than measured: what was measured is less work than this job");
  }
  const std::string least = FormatRate(job, kind, *found.least);
  if (!found.most) return fmt::format("at least {}; more would not show in the step", least);
  constexpr double kSame = 1.03;  // two ends this near are one answer
  if (*found.most / *found.least < kSame) {
    return "about " + FormatRate(job, kind, std::sqrt(*found.least * *found.most));
  }
  return fmt::format("{} to {}", least, FormatRate(job, kind, *found.most));
}

std::string Advice(InferKind kind, InferVerdict verdict) {
  const bool is_network = kind == InferKind::kNetwork;
  switch (verdict) {
    case InferVerdict::kSuspicious:
    case InferVerdict::kBroken:
      return is_network ? "run nccl-tests between these nodes; look for TCP in place of RDMA, idle "
                          "rails, NCCL_SOCKET_IFNAME, a shared uplink"
                        : "look at clocks, power caps, a data loader or host that holds the GPU "
                          "up; one GPU alone settles it";
    case InferVerdict::kFaster:
      return "the job or the profile says more work, or slower hardware, than there is";
    default:
      return "";
  }
}

void Run(const InferOptions& options, const Session& session) {
  const std::vector<TableTarget> targets = ParseTableTargets(options.exports);
  RefuseToReplace(InputFiles(*options.job), options.exports);
  const double measured = ParseSeconds(options.step_time, "--step-time");
  const JobVariants variants = LoadVariants(*options.job, session);
  const JobSpec& job = variants.base().job;
  const std::vector<InferKind> kinds = ParseFree(options.free, job);
  Trial trial(variants);
  const StepReport base = trial.Try({});
  std::ostream& text = UsesStandardOutput(targets) ? session.streams.err : session.streams.out;
  text << fmt::format("{}\nmeasured {}, predicted {} ({:+.1f}%)\n", base.context.job,
                      FormatTime(measured), FormatTime(base.account().step),
                      (base.step_time_s() / measured - 1) * 100);
  ResultTable table{{"free", "nominal", "least", "most", "verdict", "text"}};
  for (const InferKind kind : kinds) {
    const Inference found = Infer(trial, kind, DurationFromSeconds(measured));
    const std::string says = Explain(job, kind, found, measured);
    const std::string advice = Advice(kind, found.verdict);
    text << fmt::format("  if all of it is the {}: {} (nominal {}): {}\n{}", Name(job, kind), says,
                        FormatRate(job, kind, found.nominal), ToString(found.verdict),
                        advice.empty() ? "" : "    " + advice + "\n");
    const auto cell = [](const std::optional<double>& value) {
      return value ? Cell(*value) : Cell(std::string());
    };
    table.rows.push_back({Name(job, kind), found.nominal, cell(found.least), cell(found.most),
                          std::string(ToString(found.verdict)), says});
  }
  WriteTable(
      table, "stepsim.infer/1",
      {{"job", base.context.job}, {"measured_s", measured}, {"predicted_s", base.step_time_s()}},
      targets, session.streams.out, &text);
}

}  // namespace

void AddInferCommand(CLI::App& app, const Session& session) {
  const auto options = std::make_shared<InferOptions>();
  options->job = AddJobOptions(app);
  app.add_option("--step-time", options->step_time,
                 "the measured time of a step in its steady state, without the first iterations")
      ->type_name("TIME")
      ->required();
  app.add_option("--free", options->free,
                 "what may differ from the profile: network or compute; default: each alone")
      ->type_name("NAME");
  app.add_option("--export", options->exports,
                 "write the answer as .csv or .json; - is standard output")
      ->type_name("FILE")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  app.callback([options, &session] { Run(*options, session); });
}

}  // namespace stepsim
