#include "tools/stepsim/explain_view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>

#include "sim/base/units.h"
#include "sim/report/summary_facts.h"

namespace stepsim {
namespace {

constexpr std::size_t kBarWidth = 90;

std::string Less(double gain) { return fmt::format("{:+.1f}%", -gain * 100 + 0.0); }

std::string Words(std::string_view name) {
  std::string words(name);
  std::replace(words.begin(), words.end(), '_', ' ');
  return words;
}

std::vector<std::string> Headline(const StepReport& report) {
  const RankAccount& account = report.account();
  std::vector<std::string> pieces = {"step " + FormatTime(account.step)};
  for (const StepPart& part : StepParts(account)) {
    const bool is_always = part.name == "compute" || part.name == "exposed";
    if (!is_always && part.time == Duration::zero()) continue;
    pieces.push_back(fmt::format("{} {} ({})", part.name, FormatTime(part.time),
                                 FormatShare(part.time, account.step)));
  }
  const StepContext& context = report.context;
  const double mfu = Mfu(report, context.mfu_convention);
  if (mfu > 0) {
    pieces.push_back(fmt::format("MFU {} ({}, peak {} dense {})", FormatShare(mfu),
                                 context.mfu_convention, FormatFlopRate(context.peak.value),
                                 ToString(context.peak_dtype)));
  }
  return pieces;
}

std::string How(const CollectiveReport& c, const std::string& link) {
  std::vector<std::string> parts = {Words(ToString(c.site))};
  if (c.bytes.value > 0) {
    parts.push_back(fmt::format("{} over {} ranks", FormatBytes(c.bytes), c.group_size));
  }
  if (!c.algorithm.empty()) {
    parts.push_back(c.protocol.empty() ? c.algorithm : c.algorithm + "/" + c.protocol);
  }
  if (!link.empty()) parts.push_back(link);
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string GroupText(const CollectiveGroup& group) {
  const CollectiveReport& c = *group.largest;
  std::string text = group.calls.size() == 1 ? "" : fmt::format("{} x ", group.calls.size());
  text += fmt::format("{}: {}", group.name, DescribeCause(c.cause_kind).meaning);
  if (!c.cause.empty()) {
    text += fmt::format(" ({}{})", group.calls.size() == 1 ? "" : "largest: ", c.cause);
  }
  return text + fmt::format(" [{}]", How(c, group.link));
}

// What the groups behind the listed ones come to.
std::string RestOf(const std::vector<CollectiveGroup>& groups, std::size_t listed) {
  std::size_t calls = 0;
  Duration exposed{}, hidden{};
  for (std::size_t i = listed; i < groups.size(); ++i) {
    calls += groups[i].calls.size();
    exposed += groups[i].exposed;
    hidden += groups[i].hidden;
  }
  return fmt::format("{} more in {} lines: exposed {}, hidden {}; --top 0 lists all", calls,
                     groups.size() - listed, FormatTime(exposed), FormatTime(hidden));
}

TextTable CollectivesTable(const Explanation& why, std::size_t most) {
  const Duration step = why.report.account().step;
  TextTable table{
      "collectives", {"exposed", "hidden", "slack", "if removed", "what: cause"}, "rrrrl"};
  const std::size_t listed = std::min(most == 0 ? why.groups.size() : most, why.groups.size());
  for (std::size_t i = 0; i < listed; ++i) {
    const CollectiveGroup& group = why.groups[i];
    table.rows.push_back(
        {FormatTime(group.exposed), FormatTime(group.hidden), FormatTime(group.least_slack),
         group.saved ? FormatReduction(*group.saved, step) : "", GroupText(group)});
  }
  if (why.groups.empty()) table.remarks.emplace_back("none: this step has no communication");
  if (listed < why.groups.size()) table.remarks.push_back(RestOf(why.groups, listed));
  return table;
}

// The letters of the bar: capitals compute.
char LetterOf(const PathRun& run) {
  constexpr std::string_view kSites = "rgtpceo ";  // in the order of Site
  static_assert(kSites.size() == kSiteCount + 1);
  if (run.kind == TaskKind::kTransfer) return kSites[static_cast<std::size_t>(run.site)];
  if (run.kind == TaskKind::kHost) return 'h';
  constexpr std::string_view kPhases = "FBOX";  // in the order of Phase
  return kPhases[static_cast<std::size_t>(run.phase)];
}

// One character for each part of the step: what takes most of it.
std::string Bar(const std::vector<PathRun>& path) {
  std::string bar;
  if (path.empty()) return bar;
  const SimTime begin = path.front().begin;
  const double length = ToSeconds(path.back().end - begin);
  std::size_t first = 0;
  for (std::size_t cell = 0; cell < kBarWidth; ++cell) {
    const double from = length * static_cast<double>(cell) / kBarWidth;
    const double to = length * static_cast<double>(cell + 1) / kBarWidth;
    std::map<char, double> parts;
    while (first + 1 < path.size() && ToSeconds(path[first].end - begin) <= from) ++first;
    for (std::size_t i = first; i < path.size() && ToSeconds(path[i].begin - begin) < to; ++i) {
      parts[LetterOf(path[i])] += std::min(to, ToSeconds(path[i].end - begin)) -
                                  std::max(from, ToSeconds(path[i].begin - begin));
    }
    const auto most =
        std::max_element(parts.begin(), parts.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    bar += most == parts.end() ? ' ' : most->first;
  }
  return bar;
}

TextTable PathTable(const Explanation& why) {
  const Duration step = why.report.account().step;
  TextTable table{"critical path", {"time", "share", "", "what set the pace"}, "rrll"};
  for (const PathShare& share : SharesOf(why.path)) {
    const auto run = std::find_if(why.path.begin(), why.path.end(),
                                  [&](const PathRun& r) { return NameOf(r) == share.name; });
    std::string tasks = share.pieces == 1 ? "1 task" : fmt::format("{} tasks", share.pieces);
    if (share.runs > 1) tasks += fmt::format(" in {} stretches", share.runs);
    table.rows.push_back({FormatTime(share.length), FormatShare(share.length, step),
                          std::string(1, LetterOf(*run)),
                          fmt::format("{} ({})", Words(share.name), tasks)});
  }
  table.picture = Bar(why.path);
  return table;
}

TextTable CeilingsTable(const Explanation& why) {
  const Duration step = why.report.account().step;
  TextTable table{"ceilings: the step without it, simulated", {"step", "", "without"}, "rrl"};
  for (const Ceiling& ceiling : why.ceilings) {
    table.rows.push_back(
        {FormatTime(ceiling.step), FormatReduction(step - ceiling.step, step),
         ceiling.what == "communication" ? "any communication" : StallInWords(ceiling.what)});
  }
  if (why.ceilings.empty()) table.remarks.emplace_back("none: nothing but compute");
  return table;
}

std::string MemoryCell(const TriedAction& action, const StepReport& now) {
  const Bytes memory = action.report.memory.total, before = now.memory.total;
  if (memory.value == 0) return "";
  const double more = (ToDouble(memory) - ToDouble(before)) / (1 << 30);
  return fmt::format("{} ({:+.1f})", FormatMemory(memory), more);
}

std::string ActionText(const TriedAction& action) {
  const std::string settings = fmt::format("{}", fmt::join(action.changes, " "));
  const bool is_named = settings.substr(0, action.name.size()) != action.name;
  std::string text = is_named ? fmt::format("{}: {}", action.name, settings) : settings;
  std::vector<std::string> remarks;
  if (!action.fits) remarks.emplace_back("DOES NOT FIT");
  if (!action.price.empty()) remarks.emplace_back(action.price);
  if (action.is_per_token && action.price.find("per token") == std::string_view::npos) {
    remarks.emplace_back("per token");
  }
  if (!remarks.empty()) text += fmt::format(" ({})", fmt::join(remarks, "; "));
  return text;
}

void AddActionRemarks(const Explanation& why, TextTable* table) {
  const TriedActions& actions = why.actions;
  const TriedAction* best = actions.best();
  if (best == nullptr || best->gain < kLeastStall) {
    const double most = GainOf(why.ceilings, "communication", why.report.account().step);
    table->remarks.push_back(fmt::format(
        "nothing to gain here by settings: the best of them wins {}; without any communication the "
        "step would be {} shorter",
        best == nullptr ? "nothing" : fmt::format("{:.1f}%", best->gain * 100),
        fmt::format("{:.1f}%", most * 100)));
  }
  if (actions.useless > 0) {
    table->remarks.push_back(
        fmt::format("{} more gain nothing (under {:.1f}%)", actions.useless, kLeastGain * 100));
  }
  if (actions.pointless > 0) {
    table->remarks.push_back(
        fmt::format("{} more not tried: what they are against takes less than {:.1f}% of the step",
                    actions.pointless, kLeastGain * 100));
  }
  if (!actions.skipped.empty()) {
    table->remarks.push_back(
        fmt::format("not tried, for the size of the job: {}; see `stepsim "
                    "whatif`",
                    fmt::join(actions.skipped, ", ")));
  }
}

TextTable ActionsTable(const Explanation& why) {
  TextTable table{"next actions, each simulated", {"gain", "step", "memory", "--set"}, "rrrl"};
  for (const TriedAction& action : why.actions.gains) {
    table.rows.push_back({Less(action.gain), FormatTime(action.report.account().step),
                          MemoryCell(action, why.report), ActionText(action)});
  }
  AddActionRemarks(why, &table);
  return table;
}

std::string TaskName(const Explanation& why, TaskId task) {
  const TaskGraph& graph = why.step.graph;
  std::string name = graph.label(task).name;
  if (Index(graph.rank(task)) != why.report.reported_rank) {
    const RankInfo& rank = graph.rank_info(graph.rank(task));
    name += rank.name.empty() ? fmt::format(" on rank {}", rank.global_rank) : " on " + rank.name;
  }
  return name;
}

std::string KindOf(const Explanation& why, const ExplainedTask& task) {
  const TaskGraph& graph = why.step.graph;
  const Label& label = graph.label(task.task);
  std::string text;
  if (graph.kind(task.task) == TaskKind::kTransfer) {
    text = task.collective == nullptr ? Words(ToString(label.site)) : How(*task.collective, "");
  } else {
    text = graph.kind(task.task) == TaskKind::kHost ? "host" : "kernel";
  }
  const StreamId stream = graph.streams(task.task).front();
  text += fmt::format("; {} pass, stream {}", ToString(label.phase), graph.stream(stream).name);
  if (task.namesakes > 1) {
    text += fmt::format("; 1 of {} of this name, that of micro-step {}", task.namesakes,
                        graph.position(task.task).microstep + 1);
  }
  return text;
}

std::string At(SimTime time) { return FormatTime(time - kStepBegin); }

TextTable CausesTable(const Explanation& why, const ExplainedTask& task) {
  TextTable table{"what set its start, nearest first", {"ended at", "because", "task"}, "rll"};
  for (const ExplainedTask::Cause& cause : task.causes) {
    std::string reason = cause.is_stream_order ? "before it on its stream" : "needed by it";
    if (cause.is_of_peer) reason += " on the rank that came last";
    table.rows.push_back({At(cause.end), reason, TaskName(why, cause.task)});
  }
  if (task.causes.empty()) table.remarks.emplace_back("nothing: it starts with the simulation");
  return table;
}

TextTable WaitingTable(const Explanation& why, const ExplainedTask& task) {
  TextTable table{"what waits for it", {"starts at", "how", "task"}, "rll"};
  for (const ExplainedTask::Waiting& waiting : task.waiting) {
    table.rows.push_back(
        {At(waiting.start),
         fmt::format("{}{}", waiting.is_stream_order ? "behind it on its stream" : "needs it",
                     waiting.is_held_up ? ", held up by it" : ""),
         TaskName(why, waiting.task)});
  }
  if (task.waiting.empty()) table.remarks.emplace_back("nothing");
  return table;
}

}  // namespace

TextDocument ExplanationDocument(const Explanation& why, std::size_t most_groups) {
  TextDocument document;
  const std::string remark = RankRemark(why.report);
  document.title = why.report.context.job;
  document.headline = Headline(why.report);
  if (!remark.empty()) document.Say("ranks", remark);
  document.Say("stall", why.diagnosis.text, why.diagnosis.stall != "nothing");
  const RankAccount& account = why.report.account();
  if (account.communication > Duration::zero()) {
    document.Say("hidden",
                 fmt::format("{} of {} communication", FormatShare(account.overlap_fraction()),
                             FormatTime(account.communication)));
  }
  for (const std::string& warning : why.report.context.warnings) {
    document.Say("warning", warning, true);
  }
  document.tables = {CollectivesTable(why, most_groups), PathTable(why), CeilingsTable(why),
                     ActionsTable(why)};
  document.last.push_back({"confidence", why.report.context.confidence});
  return document;
}

TextDocument TaskDocument(const Explanation& why, const ExplainedTask& task) {
  TextDocument document;
  document.title = TaskName(why, task.task) + " in " + why.report.context.job;
  document.headline = {
      "ready " + At(task.ready), "start " + At(task.start), "end " + At(task.end),
      "takes " + FormatTime(task.end - task.start) + ", alone " + FormatTime(task.alone)};
  if (task.transfer_start != task.start) {
    document.headline.insert(document.headline.begin() + 2, "transfer " + At(task.transfer_start));
  }
  document.Say("what", KindOf(why, task));
  if (const CollectiveReport* c = task.collective; c != nullptr) {
    document.Say("hidden", fmt::format("{}, exposed {}, slack {}", FormatTime(c->hidden),
                                       FormatTime(c->exposed), FormatTime(c->slack)));
    if (!c->first_use.empty()) document.Say("first use", c->first_use);
    const ExposureCauseRow& cause = DescribeCause(c->cause_kind);
    document.Say("cause",
                 std::string(cause.meaning) + (c->cause.empty() ? "" : " (" + c->cause + ")"),
                 c->cause_kind != ExposureCause::kHidden);
    if (!cause.remedy.empty()) document.Say("usually", std::string(cause.remedy));
  }
  if (task.saved) {
    const Duration step = why.report.account().step;
    document.Say("ceiling",
                 fmt::format("the step would be {} without it ({})", FormatTime(step - *task.saved),
                             FormatReduction(*task.saved, step)));
  }
  document.tables = {CausesTable(why, task), WaitingTable(why, task)};
  return document;
}

}  // namespace stepsim
