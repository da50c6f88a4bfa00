#include "tools/stepsim/trace_view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "sim/base/units.h"
#include "sim/report/summary_facts.h"

namespace stepsim {
namespace {

std::string Words(std::string_view name) {
  std::string words(name);
  std::replace(words.begin(), words.end(), '_', ' ');
  return words;
}

// "gemm|matmul" -> "gemm, matmul": breaks into lines.
std::string Listed(std::string_view words) {
  std::string list;
  for (const char c : words) list += c == '|' ? ", " : std::string(1, c);
  return list;
}

std::string StepName(const MeasuredRun& run, const MeasuredReport& report) {
  if (report.which.number < 0) {
    return run.steps.size() == 1 ? "the whole trace"
                                 : fmt::format("the whole trace, {} steps", run.steps.size());
  }
  if (run.steps.size() == 1) return fmt::format("step {}", report.which.number);
  return fmt::format("step {} (of {}: {} to {})", report.which.number, run.steps.size(),
                     run.steps.front().number, run.steps.back().number);
}

std::string Title(const MeasuredRun& run, const MeasuredReport& report) {
  const MeasuredRank& rank = run.ranks[report.step.reported_rank];
  const std::string file = std::filesystem::path(rank.file).filename().string();
  std::string title = fmt::format("{}: {}, rank {}", file, StepName(run, report), rank.rank);
  if (run.world_size > 0) title += fmt::format(" of {}", run.world_size);
  if (run.ranks.size() > 1) title += fmt::format(", the slowest of {} traces", run.ranks.size());
  if (!rank.device.empty()) title += fmt::format(", {}", rank.device);
  if (rank.is_host_only) title += ", CPU only: operators stand for kernels";
  return title;
}

void SayParts(const MeasuredReport& report, TextDocument* document) {
  const RankAccount& account = report.step.account();
  document->headline.push_back("step " + FormatTime(account.step));
  for (const StepPart& part : StepParts(account)) {
    const bool is_always = part.name == "compute" || part.name == "exposed";
    if (!is_always && part.time == Duration::zero()) continue;
    document->headline.push_back(fmt::format("{} {} ({})", part.name, FormatTime(part.time),
                                             FormatShare(part.time, account.step)));
  }
}

void SayExposed(const MeasuredReport& report, TextDocument* document) {
  const RankAccount& account = report.step.account();
  std::vector<std::string> sites;
  for (const StepPart& site : ExposedSites(account)) {
    sites.push_back(fmt::format("{} {} ({})", site.name, FormatTime(site.time),
                                FormatShare(site.time, account.step)));
  }
  if (!sites.empty()) document->Say("exposed at", fmt::format("{}", fmt::join(sites, ", ")));
  const MeasuredDetail& detail = report.detail();
  if (detail.communication == Duration::zero()) {
    document->Say("exposed", "nothing: no communication in it");
    return;
  }
  document->Say(
      "profiler",
      fmt::format("communication {}, {} of it hidden by compute kernels; T_exposed {} against "
                  "compute kernels (as Holistic Trace Analysis counts), {} against compute and "
                  "copies",
                  FormatTime(detail.communication), FormatShare(detail.overlap_fraction()),
                  FormatTime(detail.exposed), FormatTime(detail.exposed_beside_copies)));
}

void SayLaunches(const MeasuredReport& report, TextDocument* document) {
  const MeasuredDetail& detail = report.detail();
  if (detail.launches == LaunchVerdict::kUnknown) return;
  const RankAccount& account = report.step.account();
  const std::string share = FormatShare(account.host, account.step);
  const std::string delay = fmt::format("; a kernel begins {} after its launch (median)",
                                        FormatTime(detail.launch_delay));
  switch (detail.launches) {
    case LaunchVerdict::kLaunchBound:
      document->Say("launches",
                    fmt::format("launch-bound: for {} of the step the device had nothing to do "
                                "because the host had not launched it{}",
                                share, delay),
                    /*is_loud=*/true);
      return;
    case LaunchVerdict::kPartly:
      document->Say("launches", fmt::format("the host is late for {} of the step{}", share, delay));
      return;
    default:
      document->Say("launches",
                    fmt::format("the host is ahead (late for {} of the step){}", share, delay));
  }
}

void SayRanks(const MeasuredRun& run, TextDocument* document) {
  if (run.ranks.size() < 2) return;
  document->Say("ranks",
                run.matched_collectives == 0
                    ? "no collective is in two traces: waiting for peers is not known"
                    : fmt::format("{} collectives matched; clocks aligned by their ends, which "
                                  "then differ by {} (median)",
                                  run.matched_collectives, FormatTime(run.clock_residual)));
}

std::vector<std::string> AccountCells(const RankAccount& account) {
  std::vector<std::string> cells = {FormatTime(account.step)};
  for (const Duration part : {account.compute, account.exposed_total(), account.peer_wait,
                              account.bubble, account.host, account.idle}) {
    cells.push_back(part == Duration::zero()
                        ? "-"
                        : fmt::format("{} {}", FormatTime(part), FormatShare(part, account.step)));
  }
  cells.push_back(
      account.communication == Duration::zero() ? "-" : FormatShare(account.overlap_fraction()));
  return cells;
}

TextTable AccountsTable(std::string title, std::string first) {
  return {std::move(title),
          {std::move(first), "time", "compute", "exposed", "peer wait", "bubble", "host", "idle",
           "hidden"},
          "lrrrrrrrr"};
}

TextTable StepsTable(const MeasuredRun& run, const RunReporter& reporter) {
  constexpr std::size_t kMostRows = 20;
  TextTable table = AccountsTable("steps", "step");
  for (const MeasuredStep& step : run.steps) {
    if (table.rows.size() == kMostRows) {
      table.remarks.push_back(
          fmt::format("{} more; --export x.csv lists all", run.steps.size() - kMostRows));
      break;
    }
    const std::vector<RankAccount> accounts = reporter.Accounts(step.window);
    std::vector<std::string> row = AccountCells(accounts[reporter.SlowestRank(step.window)]);
    row.insert(row.begin(), fmt::format("{}", step.number));
    table.rows.push_back(std::move(row));
  }
  return table;
}

TextTable RanksTable(const MeasuredRun& run, const MeasuredReport& report) {
  TextTable table = AccountsTable("ranks", "rank");
  for (std::size_t i = 0; i < run.ranks.size(); ++i) {
    std::vector<std::string> row = AccountCells(report.step.ranks[i]);
    row.insert(row.begin(), fmt::format("{}", run.ranks[i].rank));
    table.rows.push_back(std::move(row));
  }
  return table;
}

TextTable SitesTable(const MeasuredRun& run, const MeasuredReport& report) {
  const bool has_peers = run.matched_collectives > 0;
  TextTable table{"communication by site",
                  {"site", "operation", "calls", "size", "resident", "hidden", "exposed", "busbw"},
                  "llrrrrrr"};
  if (has_peers) {
    table.columns.insert(table.columns.begin() + 5, "waiting");
    table.align += 'r';
  }
  for (const MeasuredSite& site : report.detail().sites) {
    std::vector<std::string> row = {
        Words(ToString(site.site)),
        Words(ToString(site.op)),
        fmt::format("{}", site.calls),
        site.bytes.value == 0
            ? "not known"
            : fmt::format("{}{}", FormatBytes(site.bytes), site.has_bytes ? "" : " or more"),
        FormatTime(site.resident),
        FormatTime(site.hidden),
        FormatTime(site.exposed),
        site.busbw() > 0 ? FormatBandwidth(site.busbw()) : "-"};
    if (has_peers) row.insert(row.begin() + 5, FormatTime(site.waiting));
    table.rows.push_back(std::move(row));
  }
  table.remarks.emplace_back(
      "resident, hidden and exposed are sums over calls; busbw as nccl-tests defines it, over the "
      "transfer");
  return table;
}

TextTable ClassesTable(const MeasuredReport& report) {
  TextTable table{"kernels by class", {"class", "kernels", "time", "share"}, "lrrr"};
  const Duration step = report.step.account().step;
  for (const ClassTime& time : report.detail().classes) {
    table.rows.push_back({std::string(ToString(time.kernel_class)), fmt::format("{}", time.kernels),
                          FormatTime(time.busy), FormatShare(time.busy, step)});
  }
  return table;
}

TextTable CollectivesTable(const MeasuredReport& report, std::size_t top) {
  TextTable table{
      "most exposed collectives", {"exposed", "hidden", "size", "site", "what: cause"}, "rrrll"};
  for (const CollectiveReport* c : LargestExposed(report.step, top)) {
    // Without the arguments of the kernel.
    constexpr std::size_t kLongestName = 60;
    const bool is_kernel = c->name.rfind("nccl", 0) == 0;
    std::string text =
        c->name.substr(0, is_kernel ? std::min(kLongestName, c->name.find('(')) : kLongestName);
    if (!c->cause.empty()) text += ": " + c->cause;
    table.rows.push_back({FormatTime(c->exposed_transfer()), FormatTime(c->hidden),
                          c->bytes.value == 0 ? "-" : FormatBytes(c->bytes),
                          Words(ToString(c->site)), std::move(text)});
  }
  return table;
}

}  // namespace

TextDocument TraceDocument(const MeasuredRun& run, const RunReporter& reporter,
                           const MeasuredReport& report, std::size_t top) {
  TextDocument document;
  document.title = Title(run, report);
  SayParts(report, &document);
  SayExposed(report, &document);
  SayLaunches(report, &document);
  SayRanks(run, &document);
  if (run.steps.size() > 1) document.tables.push_back(StepsTable(run, reporter));
  if (run.ranks.size() > 1) document.tables.push_back(RanksTable(run, report));
  if (!report.detail().sites.empty()) {
    document.tables.push_back(SitesTable(run, report));
    document.tables.push_back(CollectivesTable(report, top));
  }
  document.tables.push_back(ClassesTable(report));
  for (const std::string& warning : run.warnings)
    document.last.push_back({"warning", warning, true});
  for (const std::string& note : run.notes) document.last.push_back({"note", note});
  return document;
}

TextDocument TraceRulesDocument() {
  TextDocument document;
  document.title = "rules by which a trace is read; of each table the first row that fits";
  TextTable kernels{"kernels by name", {"class", "framework", "words in the name"}, "lll"};
  for (const KernelRule& rule : KernelRules()) {
    kernels.rows.push_back({std::string(ToString(rule.kernel_class)), std::string(rule.framework),
                            Listed(rule.words)});
  }
  kernels.remarks.emplace_back("^ stands for the begin of the name; letter case is ignored");
  TextTable collectives{"collectives by name", {"operation", "words in the name"}, "ll"};
  for (const CollectiveNameRow& row : CollectiveNames()) {
    collectives.rows.push_back({std::string(ToString(row.op)), Listed(row.words)});
  }
  TextTable sites{"sites", {"site", "why", "when"}, "lll"};
  for (const SiteRule& rule : SiteRules()) {
    std::vector<std::string> when;
    const auto add = [&](std::string_view what, std::string_view words) {
      if (!words.empty()) when.push_back(fmt::format("{} {}", what, Listed(words)));
    };
    add("operation", rule.ops);
    add("phase", rule.phases);
    add("group", rule.group);
    add("annotation", rule.annotation);
    add("kernel", rule.kernel);
    if (rule.at_most_bytes > 0) when.push_back(fmt::format("up to {} B", rule.at_most_bytes));
    sites.rows.push_back({std::string(ToString(rule.site)),
                          fmt::format("{}{}", rule.why, rule.is_guess ? " (a guess)" : ""),
                          when.empty() ? "always" : fmt::format("{}", fmt::join(when, "; "))});
  }
  sites.remarks.emplace_back(
      "--site PATTERN=SITE comes first: a regular expression for the group, the collective, the "
      "annotation or the kernel");
  document.tables = {std::move(kernels), std::move(collectives), std::move(sites)};
  return document;
}

}  // namespace stepsim
