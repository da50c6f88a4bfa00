#include "tests/support/case_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <vector>

#include "models/cost/collective_cost.h"
#include "sim/base/nearest.h"
#include "sim/metrics/metric_table.h"

namespace stepsim::testing {
namespace {

struct Measure {
  std::string_view name;
  std::string_view doc;
  double (*value)(const StepReport&);
};

template <class Part>
double SumOf(const StepReport& report, Part part) {
  double sum = 0;
  for (const CollectiveReport& collective : report.collectives) sum += part(collective);
  return sum;
}

constexpr std::array kMeasures = {
    Measure{"collectives", "how many calls the reported rank takes part in",
            [](const StepReport& r) { return static_cast<double>(r.collectives.size()); }},
    Measure{"gradient_reductions", "how many of them reduce gradients",
            [](const StepReport& r) {
              return SumOf(r, [](const CollectiveReport& c) {
                return c.site == Site::kGradientReduce ? 1.0 : 0.0;
              });
            }},
    Measure{"gradient_hidden_s", "how much of those compute hides",
            [](const StepReport& r) {
              return SumOf(r, [](const CollectiveReport& c) {
                return c.site == Site::kGradientReduce ? ToSeconds(c.hidden) : 0.0;
              });
            }},
    Measure{"gather_transfer_s", "transfer_s of those that collect parameters",
            [](const StepReport& r) {
              return SumOf(r, [](const CollectiveReport& c) {
                return c.site == Site::kParameterGather ? ToSeconds(c.end - c.transfer_start) : 0.0;
              });
            }},
    Measure{"last_hidden_s", "how much of the last collective compute hides",
            [](const StepReport& r) {
              return r.collectives.empty() ? 0 : ToSeconds(r.collectives.back().hidden);
            }},
    Measure{"transfer_s", "collectives, from the arrival of the last rank to their end",
            [](const StepReport& r) {
              return SumOf(
                  r, [](const CollectiveReport& c) { return ToSeconds(c.end - c.transfer_start); });
            }},
    Measure{"waiting_s", "collectives, from their start to the arrival of the last rank",
            [](const StepReport& r) {
              return SumOf(r, [](const CollectiveReport& c) {
                return ToSeconds(c.transfer_start - c.start);
              });
            }},
    Measure{"ceiling_s", "what the step would gain without the collective that costs it most",
            [](const StepReport& r) {
              double most = 0;
              for (const CollectiveReport& c : r.collectives) {
                if (c.saved) most = std::max(most, ToSeconds(*c.saved));
              }
              return most;
            }},
    Measure{"first_rank_peer_wait_s", "peer_wait of rank 0, which need not be the slowest",
            [](const StepReport& r) { return ToSeconds(r.ranks.front().peer_wait); }},
    Measure{"first_rank_exposed_s", "exposed_total of rank 0",
            [](const StepReport& r) { return ToSeconds(r.ranks.front().exposed_total()); }},
    Measure{"most_peer_wait_s", "the largest peer_wait of a rank",
            [](const StepReport& r) {
              Duration most{};
              for (const RankAccount& rank : r.ranks) most = std::max(most, rank.peer_wait);
              return ToSeconds(most);
            }},
    Measure{"warnings", "how many the report has",
            [](const StepReport& r) { return static_cast<double>(r.context.warnings.size()); }},
};

[[noreturn]] void FailOnName(const std::string& name, const std::vector<std::string>& allowed) {
  throw std::invalid_argument(
      fmt::format("found no value '{}'; did you mean '{}'?", name, Nearest(name, allowed)));
}

CollectiveOp OpNamed(const std::string& name) {
  std::vector<std::string> names;
  for (int i = 0; i <= static_cast<int>(CollectiveOp::kSendRecv); ++i) {
    const auto op = static_cast<CollectiveOp>(i);
    if (ToString(op) == name) return op;
    names.emplace_back(ToString(op));
  }
  FailOnName(name, names);
}

}  // namespace

double ReportValue(const StepReport& report, const std::string& name) {
  std::vector<std::string> names;
  for (const Metric& metric : Metrics()) {
    if (metric.name == name) return metric.value(report);
    names.emplace_back(metric.name);
  }
  for (const Measure& measure : kMeasures) {
    if (measure.name == name) return measure.value(report);
    names.emplace_back(measure.name);
  }
  FailOnName(name, names);
}

double CollectiveValue(const JobSpec& job, const CaseVariant& variant, const std::string& name) {
  const CollectiveOp op = OpNamed(*variant.collective);
  const Placement everybody{
      .ranks = job.gpus(), .nodes = job.nodes, .ranks_per_node = job.gpus_per_node};
  const CollectiveCost cost = CollectivePricer(
      job.hardware, job.collectives)({op, *variant.bytes, DType::kFp32, everybody});
  const double gb_s = ToDouble(*variant.bytes) / cost.seconds / 1e9;
  if (name == "time_s") return cost.seconds;
  if (name == "sms") return cost.sms;
  if (name == "algbw_gb_s") return gb_s;
  if (name == "busbw_gb_s") return gb_s * BusFactor(op, job.gpus());
  FailOnName(name, {"time_s", "algbw_gb_s", "busbw_gb_s", "sms"});
}

}  // namespace stepsim::testing
