#include "models/study/ddp_live.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "models/calibration/error_statistics.h"
#include "models/parallel/ddp_buckets.h"
#include "models/simulate_job.h"
#include "models/spec/load_job.h"
#include "models/workload/workload.h"
#include "sim/base/diagnostics.h"

namespace stepsim {
namespace {

constexpr double kMiB = 1 << 20;

// A network as a list of layers, one a tensor.
struct Profile {
  const LiveProfile* gradients = nullptr;
  double forward = 0;  // seconds of a micro-step
  double backward = 0;
};

std::string Seconds(double seconds) { return fmt::format("{:.6f} us", seconds * 1e6); }

// In execution order, which is that of the gradients reversed. Of forward only the sum is known; it
// is split as backward is, which DDP does not see. What backward does behind the last gradient
// stands in the forward of the first layer.
std::string LayersText(const Profile& profile) {
  std::string text;
  const LiveProfile& gradients = *profile.gradients;
  const double backward = std::max(gradients.back().ready, 1e-12);
  const double rest = std::max(0.0, profile.backward - gradients.back().ready);
  for (std::size_t i = gradients.size(); i-- > 0;) {
    const LiveGradient& gradient = gradients[i];
    const double time = gradient.ready - (i == 0 ? 0 : gradients[i - 1].ready);
    const double forward =
        profile.forward * time / backward + (i + 1 == gradients.size() ? rest : 0);
    text += fmt::format(
        "    - {{name: \"{0}\", parameters: [{{name: \"{0}\", elements: {1}}}], forward_time: {2}, "
        "backward_time: {3}}}\n",
        gradient.name, std::max<std::int64_t>(gradient.bytes / 4, 1), Seconds(forward),
        Seconds(time));
  }
  return text;
}

// In the words of a calibration (models/spec/calibration_spec.h).
std::string CurveText(const CollectiveCurve& curve) {
  std::string knots;
  for (const CurveKnot& knot : curve.knots) {
    knots += fmt::format("{}{{size: {} B, time: {}}}", knots.empty() ? "" : ", ", knot.size.value,
                         Seconds(ToSeconds(knot.time)));
  }
  return fmt::format(
      "{{backend: gloo, collective: all_reduce, ranks: 2, nodes: 2, latency: {},\n"
      "       bandwidth: {:.0f} B/s, residual: {:.4f}, smallest: {} B, largest: {} B,\n"
      "       knots: [{}]}}",
      Seconds(ToSeconds(curve.latency)), curve.bandwidth.value, curve.residual,
      curve.smallest.value, curve.largest.value, knots);
}

std::string JobText(const LiveStep& step, const LiveExperiment& experiment, const LiveLink& link,
                    const Profile& profile) {
  const double bandwidth = link.curve.bandwidth.value;
  // What the link carries is compared with the fastest that a rank's own link does: a hundredth of
  // it makes every transfer one at full rate.
  const double own = link.is_always_full ? bandwidth / 100 : bandwidth;
  return fmt::format(
             "# {0} over {1}: written from micro-measurements of both.\n"
             "name: \"{0} over {1}\"\n"
             "hardware:\n"
             "  base: cpu-core-gloo\n"
             "  intra_node: {{bandwidth: {2:.0f} B/s}}\n"
             "  network: {{name: \"{1}\", link: {{bandwidth: {3:.0f} B/s, efficiency: 1}}}}\n"
             "  collective_curves:\n"
             "    - {4}\n"
             "  gpu: {{contention: {{core_demand: {5:.4f}, core_wait: {6}}}}}\n",
             step.config, experiment.curve, own, bandwidth, CurveText(link.curve), link.core_demand,
             Seconds(link.core_wait)) +
         fmt::format(
             "nodes: 2\n"
             "gpus_per_node: 1\n"
             "plan:\n"
             "  strategy: ddp\n"
             "  ddp: {{first_bucket_mb: 1, bucket_cap_mb: {}, gradient_as_bucket_view: {}}}\n"
             "batch: {{micro_batch_size: 1, gradient_accumulation_steps: {}}}\n"
             "precision: {{compute: fp32, parameters: fp32}}\n"
             "optimizer: none\n"
             "collectives: {{model: gloo, gloo_threads: {}}}\n"
             "model:\n"
             "  name: \"{}\"\n"
             "  layers:\n{}",
             step.cap_mb, experiment.bucket_view, step.accumulation, experiment.threads,
             experiment.network, LayersText(profile));
}

// The steps of one link and configuration.
class CurvePredictor {
 public:
  CurvePredictor(const LiveSweep& sweep, const ConfigSource& configs, double smallest)
      : sweep_(sweep), configs_(configs), smallest_(smallest) {}

  LiveCurve operator()(std::vector<LiveStep> steps) const {
    std::stable_sort(steps.begin(), steps.end(),
                     [](const LiveStep& a, const LiveStep& b) { return a.cap_mb < b.cap_mb; });
    LiveCurve curve;
    curve.link = steps[0].link;
    curve.config = steps[0].config;
    const LiveExperiment experiment = ParseExperiment(curve.link, curve.config);
    curve.fitted = FitLink(sweep_, experiment, curve.config, smallest_);
    curve.job = JobText(steps[0], experiment, curve.fitted, ProfileOf(steps, experiment));
    const std::string file = fmt::format("{}/{}", curve.link, curve.config);
    JobSpec job = LoadJobText(curve.job, file, {}, configs_).job;
    JobSpec alone = job;
    alone.plan.strategy = "none";
    const double no_sync = ToSeconds(TryJob(alone).step);
    for (LiveStep& step : steps) {
      job.plan.ddp.bucket_cap_mb = step.cap_mb;
      LivePrediction point;
      point.predicted = ToSeconds(TryJob(job).step);
      point.predicted_no_sync = no_sync;
      point.buckets =
          static_cast<std::int64_t>(PlanBuckets(job.plan.ddp, BuildWorkload(job)).size());
      point.step = std::move(step);
      curve.points.push_back(std::move(point));
    }
    FindBest(&curve);
    return curve;
  }

 private:
  Profile ProfileOf(const std::vector<LiveStep>& steps, const LiveExperiment& experiment) const {
    std::vector<double> backward, total;
    for (const LiveStep& step : steps) {
      backward.push_back(step.backward_no_sync);
      total.push_back(step.seconds_no_sync / static_cast<double>(step.accumulation));
    }
    Profile profile;
    profile.backward = Quantile(backward, 0.5);
    profile.forward = std::max(0.0, Quantile(total, 0.5) - profile.backward);
    profile.gradients = FindGradients(steps[0], experiment);
    if (profile.gradients != nullptr) return profile;
    throw ConfigError(Place{}, fmt::format("{} over {}: found no gradients with the time at which "
                                           "they are ready, allowed: a table that has them for "
                                           "the network {}",
                                           steps[0].config, steps[0].link, experiment.network));
  }

  // Of this very configuration, else of its network: first on the same link.
  const LiveProfile* FindGradients(const LiveStep& step, const LiveExperiment& experiment) const {
    const auto own = sweep_.profiles.find({step.link, step.config});
    if (own != sweep_.profiles.end()) return &own->second;
    for (const bool same_link : {true, false}) {
      for (const auto& [key, profile] : sweep_.profiles) {
        if ((!same_link || key.first == step.link) &&
            ParseExperiment(key.first, key.second).network == experiment.network) {
          return &profile;
        }
      }
    }
    return nullptr;
  }

  static void FindBest(LiveCurve* curve) {
    struct Layout {
      std::int64_t buckets;
      double cap;
      std::vector<double> measured, predicted;
    };
    std::vector<Layout> layouts;
    for (const LivePrediction& point : curve->points) {
      if (layouts.empty() || layouts.back().buckets != point.buckets) {
        layouts.push_back({point.buckets, point.step.cap_mb, {}, {}});
      }
      layouts.back().measured.push_back(point.step.seconds);
      layouts.back().predicted.push_back(point.predicted);
    }
    const auto fastest = [&](std::vector<double> Layout::*steps) {
      return std::min_element(layouts.begin(), layouts.end(),
                              [&](const Layout& a, const Layout& b) {
                                return Quantile(a.*steps, 0.5) < Quantile(b.*steps, 0.5);
                              });
    };
    const auto best = fastest(&Layout::measured);
    const auto chosen = fastest(&Layout::predicted);
    curve->best_cap = best->cap;
    curve->predicted_best_cap = chosen->cap;
    curve->best_distance = chosen - best;
    curve->cost_of_choice = Quantile(chosen->measured, 0.5) / Quantile(best->measured, 0.5) - 1;
  }

  const LiveSweep& sweep_;
  const ConfigSource& configs_;
  double smallest_;
};

}  // namespace

LiveValidation ValidateLiveSweep(const LiveSweep& sweep, const ConfigSource& configs) {
  std::vector<std::vector<LiveStep>> groups;
  std::map<std::pair<std::string, std::string>, std::size_t> group_of;
  double smallest = sweep.steps.empty() ? 1 : sweep.steps[0].cap_mb;
  for (const LiveStep& step : sweep.steps) {
    const auto [known, is_new] = group_of.try_emplace({step.link, step.config}, groups.size());
    if (is_new) groups.emplace_back();
    groups[known->second].push_back(step);
    smallest = std::min(smallest, step.cap_mb);
  }
  const CurvePredictor predict(sweep, configs, smallest * kMiB);
  LiveValidation validation;
  for (std::vector<LiveStep>& group : groups) {
    validation.curves.push_back(predict(std::move(group)));
  }
  return validation;
}

}  // namespace stepsim
