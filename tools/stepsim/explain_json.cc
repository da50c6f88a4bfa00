#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/stepsim/explain_view.h"

namespace stepsim {
namespace {

using Json = nlohmann::ordered_json;

Json GroupJson(const CollectiveGroup& group) {
  const CollectiveReport& c = *group.largest;
  Json names = Json::array();
  for (const CollectiveReport* call : group.calls) names.push_back(call->name);
  return {{"name", group.name},
          {"calls", group.calls.size()},
          {"site", ToString(c.site)},
          {"op", ToString(c.op)},
          {"bytes", c.bytes.value},
          {"group", c.group},
          {"group_size", c.group_size},
          {"algorithm", c.algorithm},
          {"protocol", c.protocol},
          {"link", group.link},
          {"exposed_s", ToSeconds(group.exposed)},
          {"hidden_s", ToSeconds(group.hidden)},
          {"slowed_s", ToSeconds(group.slowed)},
          {"least_slack_s", ToSeconds(group.least_slack)},
          {"saved_if_removed_s", group.saved ? Json(ToSeconds(*group.saved)) : Json(nullptr)},
          {"cause_kind", DescribeCause(c.cause_kind).name},
          {"cause", c.cause},
          {"remedy", DescribeCause(c.cause_kind).remedy},
          {"names", std::move(names)}};
}

Json PathJson(const Explanation& why) {
  Json shares = Json::array(), runs = Json::array();
  for (const PathShare& share : SharesOf(why.path)) {
    shares.push_back({{"name", share.name},
                      {"time_s", ToSeconds(share.length)},
                      {"stretches", share.runs},
                      {"tasks", share.pieces}});
  }
  const TaskGraph& graph = why.step.graph;
  for (const PathRun& run : why.path) {
    runs.push_back({{"name", NameOf(run)},
                    {"begin_s", ToSeconds(run.begin - why.report.window.begin)},
                    {"end_s", ToSeconds(run.end - why.report.window.begin)},
                    {"tasks", run.pieces},
                    {"first", graph.label(run.first).name},
                    {"last", graph.label(run.last).name}});
  }
  return {{"shares", std::move(shares)}, {"stretches", std::move(runs)}};
}

Json CeilingsJson(const Explanation& why) {
  const double step = why.report.step_time_s();
  Json ceilings = Json::array();
  for (const Ceiling& ceiling : why.ceilings) {
    ceilings.push_back({{"without", ceiling.what},
                        {"step_time_s", ToSeconds(ceiling.step)},
                        {"gain", 1 - ToSeconds(ceiling.step) / step}});
  }
  return ceilings;
}

Json ActionsJson(const TriedActions& actions) {
  Json gains = Json::array();
  for (const TriedAction& action : actions.gains) {
    gains.push_back({{"name", action.name},
                     {"set", action.changes},
                     {"gain", action.gain},
                     {"step_time_s", action.report.step_time_s()},
                     {"memory_bytes", action.report.memory.total.value},
                     {"fits", action.fits},
                     {"is_per_token", action.is_per_token},
                     {"price", action.price}});
  }
  return {{"gains", std::move(gains)},
          {"without_gain", actions.useless},
          {"without_room", actions.pointless},
          {"skipped", actions.skipped}};
}

Json TaskJson(const Explanation& why, const ExplainedTask& task) {
  const TaskGraph& graph = why.step.graph;
  Json causes = Json::array(), waiting = Json::array();
  for (const ExplainedTask::Cause& cause : task.causes) {
    causes.push_back({{"name", graph.label(cause.task).name},
                      {"is_stream_order", cause.is_stream_order},
                      {"is_of_peer", cause.is_of_peer},
                      {"end_s", ToSeconds(cause.end)}});
  }
  for (const ExplainedTask::Waiting& next : task.waiting) {
    waiting.push_back({{"name", graph.label(next.task).name},
                       {"is_stream_order", next.is_stream_order},
                       {"is_held_up", next.is_held_up},
                       {"start_s", ToSeconds(next.start)}});
  }
  Json json = {{"name", graph.label(task.task).name},
               {"namesakes", task.namesakes},
               {"ready_s", ToSeconds(task.ready)},
               {"start_s", ToSeconds(task.start)},
               {"transfer_start_s", ToSeconds(task.transfer_start)},
               {"end_s", ToSeconds(task.end)},
               {"alone_s", ToSeconds(task.alone)},
               {"saved_if_removed_s", task.saved ? Json(ToSeconds(*task.saved)) : Json(nullptr)},
               {"causes", std::move(causes)},
               {"waiting", std::move(waiting)}};
  if (const CollectiveReport* c = task.collective; c != nullptr) {
    json["hidden_s"] = ToSeconds(c->hidden);
    json["exposed_s"] = ToSeconds(c->exposed);
    json["slack_s"] = ToSeconds(c->slack);
    json["first_use"] = c->first_use;
    json["cause_kind"] = DescribeCause(c->cause_kind).name;
    json["cause"] = c->cause;
  }
  return json;
}

Json AccountJson(const RankAccount& account) {
  Json exposed = {{"total", ToSeconds(account.exposed_total())}};
  for (std::size_t s = 0; s < kSiteCount; ++s) {
    exposed[std::string(ToString(static_cast<Site>(s)))] = ToSeconds(account.exposed[s]);
  }
  return {{"step_time_s", ToSeconds(account.step)},
          {"compute_s", ToSeconds(account.compute)},
          {"contention_s", ToSeconds(account.contention)},
          {"exposed_s", std::move(exposed)},
          {"peer_wait_s", ToSeconds(account.peer_wait)},
          {"bubble_s", ToSeconds(account.bubble)},
          {"host_s", ToSeconds(account.host)},
          {"idle_s", ToSeconds(account.idle)}};
}

}  // namespace

std::string ExplanationJson(const Explanation& why, const std::optional<ExplainedTask>& task) {
  const StepReport& report = why.report;
  Json groups = Json::array();
  for (const CollectiveGroup& group : why.groups) groups.push_back(GroupJson(group));
  Json json = {{"schema", "stepsim.explain/1"}, {"job", report.context.job}};
  json.update(AccountJson(report.account()));
  json["mfu"] = Mfu(report, report.context.mfu_convention);
  json["mfu_convention"] = report.context.mfu_convention;
  json["stall"] = why.diagnosis.stall;
  json["diagnosis"] = why.diagnosis.text;
  json["collectives"] = std::move(groups);
  json["critical_path"] = PathJson(why);
  json["ceilings"] = CeilingsJson(why);
  json["actions"] = ActionsJson(why.actions);
  if (task) json["task"] = TaskJson(why, *task);
  json["warnings"] = report.context.warnings;
  json["confidence"] = report.context.confidence;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace stepsim
