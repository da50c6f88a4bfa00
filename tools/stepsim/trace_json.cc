#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "sim/base/check.h"
#include "sim/report/writer.h"
#include "tools/stepsim/trace_view.h"

namespace stepsim {
namespace {

using Json = nlohmann::ordered_json;

Json SitesJson(const MeasuredDetail& detail) {
  Json sites = Json::array();
  for (const MeasuredSite& site : detail.sites) {
    sites.push_back({{"site", ToString(site.site)},
                     {"op", ToString(site.op)},
                     {"calls", site.calls},
                     {"bytes", site.bytes.value},
                     {"bytes_known", site.has_bytes},
                     {"resident_s", ToSeconds(site.resident)},
                     {"waiting_s", ToSeconds(site.waiting)},
                     {"hidden_s", ToSeconds(site.hidden)},
                     {"exposed_s", ToSeconds(site.exposed)},
                     {"busbw_bytes_per_s", site.busbw()}});
  }
  return sites;
}

Json ClassesJson(const MeasuredDetail& detail) {
  Json classes = Json::object();
  for (const ClassTime& time : detail.classes) {
    classes[std::string(ToString(time.kernel_class))] = {{"kernels", time.kernels},
                                                         {"time_s", ToSeconds(time.busy)}};
  }
  return classes;
}

Json RankJson(const MeasuredRank& rank, const MeasuredDetail& detail) {
  return {{"rank", rank.rank},
          {"file", rank.file},
          {"device", rank.device},
          {"host_only", rank.is_host_only},
          {"clock_offset_s", ToSeconds(rank.clock_offset)},
          {"compute_kernels_s", ToSeconds(detail.compute_kernels)},
          {"copies_s", ToSeconds(detail.copies)},
          {"communication_s", ToSeconds(detail.communication)},
          {"busy_s", ToSeconds(detail.busy)},
          {"exposed_s", ToSeconds(detail.exposed)},
          {"exposed_beside_copies_s", ToSeconds(detail.exposed_beside_copies)},
          {"overlap_fraction", detail.overlap_fraction()},
          {"launches", ToString(detail.launches)},
          {"launch_delay_s", ToSeconds(detail.launch_delay)},
          {"sites", SitesJson(detail)},
          {"kernel_classes", ClassesJson(detail)}};
}

Json StepsJson(const MeasuredRun& run, const RunReporter& reporter) {
  Json steps = Json::array();
  for (const MeasuredStep& step : run.steps) {
    const RankAccount account = reporter.Accounts(step.window)[reporter.SlowestRank(step.window)];
    steps.push_back({{"step", step.number},
                     {"begin_s", ToSeconds(step.window.begin)},
                     {"step_time_s", ToSeconds(account.step)},
                     {"compute_s", ToSeconds(account.compute)},
                     {"exposed_s", ToSeconds(account.exposed_total())},
                     {"profiler_exposed_s", ToSeconds(account.profiler_exposed)}});
  }
  return steps;
}

}  // namespace

std::string TraceJson(const MeasuredRun& run, const RunReporter& reporter,
                      const MeasuredReport& report) {
  std::string text;
  WriteResultJson({run.graph, run.timeline, report.step},
                  [&](std::string_view piece) { text += piece; });
  Json measured = {{"step", report.which.number < 0 ? Json("all") : Json(report.which.number)},
                   {"matched_collectives", run.matched_collectives},
                   {"clock_residual_s", ToSeconds(run.clock_residual)},
                   {"guessed_sites", run.guessed_sites},
                   {"ranks", Json::array()},
                   {"steps", StepsJson(run, reporter)}};
  for (std::size_t i = 0; i < run.ranks.size(); ++i) {
    measured["ranks"].push_back(RankJson(run.ranks[i], report.ranks[i]));
  }
  // Behind the last member of the result.
  const std::size_t end = text.rfind("\n}");
  SIM_CHECK(end != std::string::npos, "a result is a JSON object");
  text.resize(end);
  return text +
         ",\n  \"measured\": " + measured.dump(2, ' ', false, Json::error_handler_t::replace) +
         "\n}\n";
}

ResultTable TraceStepsTable(const MeasuredRun& run, const RunReporter& reporter,
                            const std::vector<MeasuredStep>& steps) {
  ResultTable table{{"step", "rank", "begin_s", "step_time_s", "compute_s", "exposed_s"}};
  for (std::size_t site = 0; site < kSiteCount; ++site) {
    table.columns.push_back("exposed_" + std::string(ToString(static_cast<Site>(site))) + "_s");
  }
  for (const char* column : {"peer_wait_s", "bubble_s", "host_s", "idle_s", "communication_s",
                             "profiler_exposed_s", "overlap_fraction"}) {
    table.columns.emplace_back(column);
  }
  for (const MeasuredStep& step : steps) {
    const std::vector<RankAccount> accounts = reporter.Accounts(step.window);
    for (std::size_t i = 0; i < accounts.size(); ++i) {
      const RankAccount& a = accounts[i];
      std::vector<Cell> row = {step.number, run.ranks[i].rank, ToSeconds(step.window.begin)};
      for (const Duration time : {a.step, a.compute, a.exposed_total()}) {
        row.emplace_back(ToSeconds(time));
      }
      for (const Duration time : a.exposed) row.emplace_back(ToSeconds(time));
      for (const Duration time :
           {a.peer_wait, a.bubble, a.host, a.idle, a.communication, a.profiler_exposed}) {
        row.emplace_back(ToSeconds(time));
      }
      row.emplace_back(a.overlap_fraction());
      table.rows.push_back(std::move(row));
    }
  }
  return table;
}

}  // namespace stepsim
