// The schema "stepsim.result/1": one object, times in seconds, sizes in bytes. Fields are added,
// never renamed, within a version of the schema.
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/check.h"
#include "sim/metrics/accounting.h"
#include "sim/metrics/collective_report.h"
#include "sim/metrics/metric_table.h"
#include "sim/report/writer.h"

namespace stepsim {
namespace {

using Json = nlohmann::ordered_json;

// Of all ranks together, with about 0.7 kB each.
constexpr std::size_t kMostListedCollectives = 50'000;

// JSON has no infinity: a number that is none would silently become null.
double Finite(double value, std::string_view name) {
  SIM_CHECK(std::isfinite(value),
            "the result holds a number that is not finite: " + std::string(name));
  return value;
}

double MetricValue(const StepReport& report, std::string_view name) {
  for (const Metric& metric : Metrics()) {
    if (metric.name == name) return Finite(metric.value(report), name);
  }
  SIM_CHECK(false, "no such metric: " + std::string(name));
  return 0;
}

Json ExposedJson(const RankAccount& account) {
  Json exposed = Json::object();
  for (std::size_t site = 0; site < kSiteCount; ++site) {
    exposed[std::string(ToString(static_cast<Site>(site)))] = ToSeconds(account.exposed[site]);
  }
  exposed["total"] = ToSeconds(account.exposed_total());
  return exposed;
}

void AddAccount(const RankAccount& account, Json* object) {
  Json& json = *object;
  json["step_time_s"] = ToSeconds(account.step);
  json["compute_s"] = ToSeconds(account.compute);
  json["contention_s"] = ToSeconds(account.contention);
  json["exposed_s"] = ExposedJson(account);
  json["peer_wait_s"] = ToSeconds(account.peer_wait);
  json["bubble_s"] = ToSeconds(account.bubble);
  json["host_s"] = ToSeconds(account.host);
  json["idle_s"] = ToSeconds(account.idle);
  json["communication_s"] = ToSeconds(account.communication);
  json["profiler_exposed_s"] = ToSeconds(account.profiler_exposed);
  json["overlap_fraction"] = Finite(account.overlap_fraction(), "overlap_fraction");
}

Json JobJson(const StepContext& context) {
  return {{"name", context.job},
          {"file", context.job_file},
          {"model", context.model},
          {"hardware", context.hardware},
          {"strategy", context.strategy},
          {"gpus", context.gpus},
          {"samples_per_step", Finite(context.samples_per_step, "samples_per_step")},
          {"tokens_per_step", Finite(context.tokens_per_step, "tokens_per_step")}};
}

void AddEfficiency(const StepReport& report, Json* object) {
  Json& json = *object;
  const StepContext& context = report.context;
  json["mfu"] = Json::object();
  for (const auto& [convention, flops] : context.model_flops) {
    json["mfu"][convention] = Finite(Mfu(report, convention), "mfu");
  }
  json["mfu_convention"] = context.mfu_convention;
  json["peak_flops_per_gpu"] = Finite(context.peak.value, "peak_flops_per_gpu");
  json["peak_dtype"] = ToString(context.peak_dtype);
  for (const std::string_view name :
       {"hfu", "tokens_per_s_per_gpu", "samples_per_s", "tflops_per_gpu", "bubble_fraction"}) {
    json[std::string(name)] = MetricValue(report, name);
  }
}

Json MemoryJson(const MemoryPeak& memory) {
  Json json = Json::object();
  for (const auto& [category, bytes] : memory.at_peak) json[category] = bytes.value;
  json["total"] = memory.total.value;
  return json;
}

// Where the peak is, and what of it an allocator would call allocated and reserved.
void AddPeakMemory(const MemoryPeak& memory, Json* object) {
  Json& json = *object;
  json["peak_memory_bytes"] = MemoryJson(memory);
  json["peak_memory_at"] = {{"task", memory.task},
                            {"phase", ToString(memory.phase)},
                            {"microstep", memory.microstep},
                            {"time_s", ToSeconds(memory.time)}};
  json["peak_allocated_bytes"] = memory.allocated.value;
  json["peak_reserved_bytes"] = memory.reserved.value;
}

// null where no closed form holds.
Json PipelineJson(const PipelineShape& pipeline) {
  const auto& fraction = pipeline.bubble_fraction;
  return {{"schedule", pipeline.schedule},
          {"stages", pipeline.stages},
          {"chunks", pipeline.chunks},
          {"microbatches", pipeline.microbatches},
          {"closed_form_bubble_fraction",
           fraction ? Json(Finite(*fraction, "closed_form_bubble_fraction")) : Json(nullptr)},
          {"closed_form", pipeline.formula}};
}

Json CollectiveJson(const CollectiveReport& collective) {
  return {
      {"name", collective.name},
      {"site", ToString(collective.site)},
      {"op", ToString(collective.op)},
      {"dtype", ToString(collective.dtype)},
      {"bytes", collective.bytes.value},
      {"group", collective.group},
      {"group_size", collective.group_size},
      {"algorithm", collective.algorithm},
      {"protocol", collective.protocol},
      {"microstep", collective.microstep},
      {"ready_s", ToSeconds(collective.ready)},
      {"start_s", ToSeconds(collective.start)},
      {"transfer_start_s", ToSeconds(collective.transfer_start)},
      {"end_s", ToSeconds(collective.end)},
      {"hidden_s", ToSeconds(collective.hidden)},
      {"exposed_s", ToSeconds(collective.exposed)},
      {"exposed_wait_s", ToSeconds(collective.exposed_wait)},
      {"slack_s", ToSeconds(collective.slack)},
      {"first_use", collective.first_use},
      {"saved_if_removed_s", collective.saved ? Json(ToSeconds(*collective.saved)) : Json(nullptr)},
      {"slowed_s", ToSeconds(collective.slowed)},
      {"cause", collective.cause},
      {"cause_kind", DescribeCause(collective.cause_kind).name}};
}

Json CollectivesJson(const std::vector<CollectiveReport>& collectives) {
  Json list = Json::array();
  for (const CollectiveReport& collective : collectives) list.push_back(CollectiveJson(collective));
  return list;
}

// Those of every rank, where there are several and the file stays readable.
void AddRankCollectives(const Result& result, Json* ranks) {
  const StepReport& report = result.report;
  const std::vector<RankActivity> activities = ObserveRanks(result.graph, result.timeline);
  if (activities.size() < 2 || activities.size() != ranks->size()) return;
  std::size_t transfers = 0;
  for (const RankActivity& rank : activities) transfers += rank.tasks.transfers.size();
  if (transfers > kMostListedCollectives) return;
  const CollectiveFacts facts(result.graph, result.timeline, report.choices, report.window);
  for (std::size_t i = 0; i < activities.size(); ++i) {
    (*ranks)[i]["collectives"] = CollectivesJson(
        i == report.reported_rank ? report.collectives : ReportCollectives(facts, activities[i]));
  }
}

Json RanksJson(const Result& result) {
  const StepReport& report = result.report;
  Json ranks = Json::array();
  for (std::size_t i = 0; i < report.ranks.size(); ++i) {
    const RankInfo info = i < report.rank_infos.size() ? report.rank_infos[i] : RankInfo{};
    Json rank = {{"global_rank", info.global_rank}, {"stands_for", info.stands_for}};
    if (!info.name.empty()) rank["name"] = info.name;
    const RankAccount& account = report.ranks[i];
    AddAccount(account, &rank);
    rank["bubble_fraction"] =
        account.step == Duration::zero() ? 0 : ToSeconds(account.bubble) / ToSeconds(account.step);
    if (i < report.in_flight.size()) rank["in_flight_chunks"] = report.in_flight[i];
    if (i < report.memory.ranks.size()) AddPeakMemory(report.memory.ranks[i], &rank);
    ranks.push_back(std::move(rank));
  }
  AddRankCollectives(result, &ranks);
  return ranks;
}

Json MicrostepsJson(const StepReport& report) {
  Json microsteps = Json::array();
  for (const MicrostepReport& microstep : report.microsteps) {
    Json json = {{"microstep", microstep.microstep}, {"is_reducing", microstep.is_reducing}};
    AddAccount(microstep.account, &json);
    microsteps.push_back(std::move(json));
  }
  return microsteps;
}

Json AssumptionsJson(const StepContext& context) {
  Json assumptions = Json::array();
  for (const StepContext::Assumption& assumption : context.assumptions) {
    assumptions.push_back(
        {{"field", assumption.field}, {"value", assumption.value}, {"origin", assumption.origin}});
  }
  return assumptions;
}

Json ResolvedJson(const StepContext& context) {
  if (context.resolved_json.empty()) return Json::object();
  Json resolved = Json::parse(context.resolved_json, nullptr, /*allow_exceptions=*/false);
  SIM_CHECK(resolved.is_object(), "resolved_json must be a JSON object");
  return resolved;
}

}  // namespace

void WriteResultJson(const Result& result, const Sink& sink) {
  const StepReport& report = result.report;
  Json json;
  json["schema"] = "stepsim.result/1";
  json["job"] = JobJson(report.context);
  AddAccount(report.account(), &json);
  AddEfficiency(report, &json);
  if (report.context.pipeline) json["pipeline"] = PipelineJson(*report.context.pipeline);
  AddPeakMemory(report.memory, &json);
  json["peak_memory_rank"] = report.memory.highest_rank;
  json["gpu_memory_bytes"] = report.context.gpu_memory.value;
  json["reported_rank"] = report.reported_rank;
  json["ranks"] = RanksJson(result);
  json["microsteps"] = MicrostepsJson(report);
  json["collectives"] = CollectivesJson(report.collectives);
  json["confidence"] = report.context.confidence;
  json["warnings"] = report.context.warnings;
  json["notes"] = report.context.notes;
  json["assumptions"] = AssumptionsJson(report.context);
  json["resolved"] = ResolvedJson(report.context);
  // Names come from users: bytes that are no UTF-8 are replaced rather than thrown at.
  sink(json.dump(2, ' ', false, Json::error_handler_t::replace));
  sink("\n");
}

}  // namespace stepsim
