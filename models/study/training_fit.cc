#include "models/study/training_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "models/simulate_job.h"
#include "models/workload/model_flops.h"
#include "models/workload/workload.h"
#include "sim/base/check.h"

namespace stepsim {
namespace {

// Below, a factor would have to change tenfold to be seen in a step's noise.
constexpr double kLeastShare = 0.02;
constexpr double kLeast = 0.05, kMost = 20;  // of a factor
constexpr int kIterations = 12;
constexpr double kStep = 0.02;  // of a numerical derivative, in the logarithm

using Factors = std::array<double, 2>;  // logarithms: compute, network

class Fitter {
 public:
  explicit Fitter(const std::vector<MeasuredTraining>& trainings) : trainings_(trainings) {
    for (const MeasuredTraining& t : trainings) {
      is_between_nodes_ = is_between_nodes_ || t.job.nodes > 1;
    }
  }

  TrainingFit Run() {
    TrainingFit fit;
    fit.as_profile = Predict({0, 0});
    FindKnown(fit);
    Factors x = {0, 0};
    for (int i = 0; i < kIterations; ++i) {
      const Factors next = Improve(x, fit);
      const double change = std::abs(next[0] - x[0]) + std::abs(next[1] - x[1]);
      x = next;
      if (change < 1e-4) break;
    }
    fit.compute = std::exp(x[0]);
    fit.network = std::exp(x[1]);
    fit.predicted = Predict(x);
    return fit;
  }

 private:
  std::vector<double> Predict(const Factors& x) const {
    std::vector<double> seconds;
    for (const MeasuredTraining& t : trainings_) {
      JobSpec job = t.job;
      job.hardware = WithFactors(job.hardware, std::exp(x[0]), std::exp(x[1]), is_between_nodes_);
      seconds.push_back(ToSeconds(TryJob(job).step));
    }
    return seconds;
  }

  // How much longer in proportion a step gets when a factor falls.
  std::vector<Factors> Shares(const Factors& x, const std::vector<double>& at) const {
    std::vector<Factors> shares(trainings_.size(), Factors{0, 0});
    for (std::size_t k = 0; k < 2; ++k) {
      Factors lower = x;
      lower[k] -= kStep;
      const std::vector<double> longer = Predict(lower);
      for (std::size_t i = 0; i < at.size(); ++i) {
        shares[i][k] = std::log(longer[i] / at[i]) / kStep;
      }
    }
    return shares;
  }

  void FindKnown(TrainingFit& fit) const {
    const std::vector<Factors> shares = Shares({0, 0}, fit.as_profile);
    double compute = 0, network = 0, determinant = 0;
    for (std::size_t i = 0; i < shares.size(); ++i) {
      compute = std::max(compute, shares[i][0]);
      network = std::max(network, shares[i][1]);
      for (std::size_t j = 0; j < i; ++j) {
        determinant = std::max(determinant,
                               std::abs(shares[i][0] * shares[j][1] - shares[i][1] * shares[j][0]));
      }
    }
    fit.is_compute_known = compute >= kLeastShare;
    fit.is_network_known = network >= kLeastShare;
    if (!fit.is_network_known) {
      fit.notes.push_back(
          "the network cannot be told: no step waits for it, so its factor stays 1");
    }
    if (!fit.is_compute_known) {
      fit.notes.push_back("compute cannot be told: no step depends on it, so its factor stays 1");
    }
    if (!fit.is_compute_known || !fit.is_network_known ||
        determinant >= kLeastShare * kLeastShare * 10) {
      return;
    }
    // One equation, two unknowns: the larger share takes what there is to explain.
    const bool is_compute = compute >= network;
    fit.is_compute_known = is_compute;
    fit.is_network_known = !is_compute;
    fit.notes.push_back(fmt::format(
        "{} only {} can be told: {}'s factor stays 1; a run with another batch, bucket or number "
        "of nodes, so that compute and network weigh otherwise, tells both",
        trainings_.size() == 1 ? "with one configuration" : "with configurations this alike",
        is_compute ? "compute" : "the network", is_compute ? "the network" : "compute"));
  }

  // Gauss-Newton on the logarithm of the times.
  Factors Improve(const Factors& x, const TrainingFit& fit) const {
    const std::vector<double> at = Predict(x);
    const std::vector<Factors> shares = Shares(x, at);
    double a = 0, b = 0, c = 0, p = 0, q = 0;
    for (std::size_t i = 0; i < at.size(); ++i) {
      const double error = std::log(at[i] / trainings_[i].seconds);
      const double u = fit.is_compute_known ? shares[i][0] : 0;
      const double v = fit.is_network_known ? shares[i][1] : 0;
      a += u * u;
      b += u * v;
      c += v * v;
      p += u * error;
      q += v * error;
    }
    // A little damping: where one factor is not known its equation is empty.
    constexpr double kDamping = 1e-9;
    const double determinant = (a + kDamping) * (c + kDamping) - b * b;
    const double dx = ((c + kDamping) * p - b * q) / determinant;
    const double dy = ((a + kDamping) * q - b * p) / determinant;
    const auto moved = [](double from, double by) {
      constexpr double kLongest = 1;  // a step, in the logarithm
      return std::clamp(from + std::clamp(by, -kLongest, kLongest), std::log(kLeast),
                        std::log(kMost));
    };
    return {fit.is_compute_known ? moved(x[0], dx) : 0, fit.is_network_known ? moved(x[1], dy) : 0};
  }

  const std::vector<MeasuredTraining>& trainings_;
  bool is_between_nodes_ = false;
};

}  // namespace

HardwareSpec WithFactors(HardwareSpec hardware, double compute, double network,
                         bool is_network_between_nodes) {
  const auto scale = [](double& efficiency, double factor) {
    efficiency = std::clamp(efficiency * factor, 0.001, 1.0);
  };
  scale(hardware.gpu.gemm_efficiency, compute);
  scale(hardware.gpu.attention_efficiency, compute);
  scale(hardware.gpu.memory_efficiency, compute);
  for (GemmCurve& curve : hardware.gpu.gemm) {
    if (curve.memory_efficiency) scale(*curve.memory_efficiency, compute);
  }
  scale(
      is_network_between_nodes ? hardware.network.link.efficiency : hardware.intra_node.efficiency,
      network);
  return hardware;
}

TrainingFit FitTraining(const std::vector<MeasuredTraining>& trainings) {
  SIM_CHECK(!trainings.empty(), "a fit needs a training");
  TrainingFit fit = Fitter(trainings).Run();
  for (std::size_t i = 0; i < trainings.size(); ++i) {
    const double error = fit.predicted[i] / trainings[i].seconds - 1;
    constexpr double kMuch = 0.05;
    if (std::abs(error) < kMuch) continue;
    fit.notes.push_back(fmt::format("{}: {:+.0f}% remains, which neither factor explains",
                                    trainings[i].job.name, 100 * error));
  }
  return fit;
}

std::optional<StepOfLog> StepOf(const TrainLog& log, const JobSpec& job) {
  const Workload workload = BuildWorkload(job);
  const double microsteps = static_cast<double>(job.replicas()) *
                            static_cast<double>(job.batch.gradient_accumulation_steps);
  const double tokens = workload.tokens * microsteps;
  const auto gpus = static_cast<double>(job.gpus());
  double flops = 0;
  for (const auto& [convention, value] : ModelFlops(job)) {
    if (convention == job.mfu_convention) flops = value.value * microsteps;
  }
  const double peak = PeakOf(job.hardware.gpu, job.precision.compute).value;
  const std::array<std::pair<LogQuantity, double>, 7> amounts = {
      std::pair{LogQuantity::kStepSeconds, -1.0},
      {LogQuantity::kStepsPerSecond, 1.0},
      {LogQuantity::kTokensPerGpuSecond, tokens / gpus},
      {LogQuantity::kTokensPerSecond, tokens},
      {LogQuantity::kSamplesPerSecond, static_cast<double>(job.global_samples())},
      {LogQuantity::kFlopsPerGpuSecond, flops / gpus},
      {LogQuantity::kMfu, peak > 0 ? flops / gpus / peak : 0}};
  for (const auto& [quantity, amount] : amounts) {
    for (const LogSeries& series : log.series) {
      if (series.quantity != quantity || series.median <= 0 || amount == 0) continue;
      const double seconds = amount < 0 ? series.median : amount / series.median;
      return StepOfLog{seconds, quantity, series.used, series.skipped};
    }
  }
  return std::nullopt;
}

}  // namespace stepsim
