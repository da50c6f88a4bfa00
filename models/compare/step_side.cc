// What either side of a comparison is made of.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <variant>

#include "models/compare/comparison.h"
#include "sim/base/diagnostics.h"

namespace stepsim {
namespace {

using Json = nlohmann::json;

void AddCollective(Duration wait, Duration resident, Duration hidden, Duration exposed,
                   SiteSide* site) {
  ++site->calls;
  site->waiting += wait;
  site->transfer += resident - wait;
  site->hidden += hidden;
  site->exposed += exposed;
}

// Kernels of the reported rank that begin in the window, by class.
std::array<Duration, 3> ClassTimes(const TaskGraph& graph, const Timeline& timeline,
                                   const StepReport& report) {
  std::array<Duration, 3> classes{};
  for (const TaskId t : AllIds<TaskId>(graph.task_count())) {
    const auto* work = std::get_if<ComputeWork>(&graph.work(t));
    if (work == nullptr || Index(graph.rank(t)) != report.reported_rank) continue;
    if (timeline.start[t] < report.window.begin || timeline.start[t] >= report.window.end) continue;
    classes[static_cast<std::size_t>(work->compute_class)] += timeline.end[t] - timeline.start[t];
  }
  return classes;
}

// ---- A result's file ----

[[noreturn]] void Refuse(const std::string& file, const std::string& what) {
  throw ConfigError({file, 0, 0}, fmt::format("found {}, allowed: a result that `stepsim run "
                                              "--export {}` wrote (schema stepsim.result/1)",
                                              what, file));
}

Duration Time(const Json& json, const char* key) {
  const double seconds = json.at(key).get<double>();
  constexpr double kMost = 1e6;
  if (!(std::abs(seconds) <= kMost)) throw std::out_of_range(key);
  return DurationFromSeconds(seconds);
}

RankAccount ReadAccount(const Json& json) {
  RankAccount account;
  account.step = Time(json, "step_time_s");
  account.compute = Time(json, "compute_s");
  account.contention = Time(json, "contention_s");
  account.peer_wait = Time(json, "peer_wait_s");
  account.bubble = Time(json, "bubble_s");
  account.host = Time(json, "host_s");
  account.idle = Time(json, "idle_s");
  account.communication = Time(json, "communication_s");
  account.profiler_exposed = Time(json, "profiler_exposed_s");
  for (std::size_t i = 0; i < kSiteCount; ++i) {
    const std::string name(ToString(static_cast<Site>(i)));
    if (json.at("exposed_s").contains(name)) {
      account.exposed[i] = Time(json.at("exposed_s"), name.c_str());
    }
  }
  return account;
}

std::map<Site, SiteSide> ReadSites(const Json& collectives) {
  std::map<Site, SiteSide> sites;
  for (const Json& collective : collectives) {
    const std::string name = collective.at("site").get<std::string>();
    for (std::size_t i = 0; i < kSiteCount; ++i) {
      const auto site = static_cast<Site>(i);
      if (ToString(site) != name) continue;
      const Duration start = Time(collective, "start_s");
      AddCollective(Time(collective, "transfer_start_s") - start, Time(collective, "end_s") - start,
                    Time(collective, "hidden_s"), Time(collective, "exposed_s"), &sites[site]);
    }
  }
  return sites;
}

}  // namespace

StepSide PredictedSide(const TaskGraph& graph, const Timeline& timeline, const StepReport& report) {
  StepSide side;
  side.name = report.context.job;
  side.account = report.account();
  for (const CollectiveReport& c : report.collectives) {
    AddCollective(c.transfer_start - c.start, c.end - c.start, c.hidden, c.exposed,
                  &side.sites[c.site]);
  }
  side.classes = ClassTimes(graph, timeline, report);
  return side;
}

StepSide ReadResultSide(std::string_view text, const std::string& file) {
  StepSide side;
  side.name = file;
  try {
    const Json json = Json::parse(text);
    if (!json.is_object() || json.value("schema", "") != "stepsim.result/1") {
      Refuse(file, "another schema");
    }
    side.account = ReadAccount(json);
    side.sites = ReadSites(json.at("collectives"));
  } catch (const Json::exception& error) {
    Refuse(file, fmt::format("no such file's form ({})", error.what()));
  } catch (const std::out_of_range& error) {
    Refuse(file, fmt::format("a time that cannot be in '{}'", error.what()));
  }
  return side;
}

StepSide MeasuredSide(const MeasuredRun& run, const MeasuredReport& report) {
  StepSide side;
  side.name =
      fmt::format("step {} of {}", report.which.number, run.ranks[report.step.reported_rank].file);
  side.account = report.step.account();
  side.knows_waiting = run.matched_collectives > 0;
  const MeasuredDetail& detail = report.detail();
  for (const MeasuredSite& measured : detail.sites) {
    SiteSide& site = side.sites[measured.site];
    site.calls += measured.calls;
    site.transfer += measured.resident - measured.waiting;
    site.waiting += measured.waiting;
    site.hidden += measured.hidden;
    site.exposed += measured.exposed;
  }
  std::array<Duration, 3> classes{};
  for (const ClassTime& time : detail.classes) {
    if (time.kernel_class == KernelClass::kCommunication) continue;
    classes[static_cast<std::size_t>(ComputeClassOf(time.kernel_class))] += time.busy;
  }
  side.classes = classes;
  return side;
}

}  // namespace stepsim
