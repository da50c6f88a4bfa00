#include "sim/report/summary_facts.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/units.h"

namespace stepsim {

std::vector<StepPart> StepParts(const RankAccount& account) {
  return {{"compute", account.compute},
          {"contention", account.contention},
          {"exposed", account.exposed_total()},
          {"peer wait", account.peer_wait},
          {"bubble", account.bubble},
          {"host", account.host},
          {"idle", account.idle}};
}

std::vector<StepPart> ExposedSites(const RankAccount& account) {
  std::vector<StepPart> sites;
  for (std::size_t site = 0; site < kSiteCount; ++site) {
    if (account.exposed[site] == Duration::zero()) continue;
    sites.push_back({ToString(static_cast<Site>(site)), account.exposed[site]});
  }
  return sites;
}

std::vector<const CollectiveReport*> LargestExposed(const StepReport& report, std::size_t limit) {
  std::vector<const CollectiveReport*> exposed;
  for (const CollectiveReport& collective : report.collectives) {
    if (collective.exposed_transfer() > Duration::zero()) exposed.push_back(&collective);
  }
  std::stable_sort(exposed.begin(), exposed.end(),
                   [](const CollectiveReport* a, const CollectiveReport* b) {
                     return a->exposed_transfer() > b->exposed_transfer();
                   });
  exposed.resize(std::min(exposed.size(), limit));
  return exposed;
}

std::string CollectiveTitle(const StepReport& report, const CollectiveReport& collective) {
  const auto reducing = std::count_if(report.microsteps.begin(), report.microsteps.end(),
                                      [](const MicrostepReport& m) { return m.is_reducing; });
  if (reducing < 2) return collective.name;
  return fmt::format("{}, micro-step {}", collective.name, collective.microstep + 1);
}

const MicrostepReport* ReducingMicrostep(const StepReport& report) {
  if (report.microsteps.size() < 2) return nullptr;
  const auto last = std::find_if(report.microsteps.rbegin(), report.microsteps.rend(),
                                 [](const MicrostepReport& m) { return m.is_reducing; });
  return last == report.microsteps.rend() ? nullptr : &*last;
}

namespace {

// One simulated rank of a pipeline.
struct StageRow {
  std::string name;  // "pp 3"
  const RankAccount* account = nullptr;
  std::int32_t in_flight = 0;  // 0: not known
  Bytes memory;                // its peak; 0: not known
};

void KeepExtremes(std::vector<StageRow>* rows) {
  std::vector<char> is_kept(rows->size(), 0);
  is_kept.front() = is_kept.back() = 1;
  const auto keep = [&](auto value_of) {
    const auto [least, most] = std::minmax_element(
        rows->begin(), rows->end(),
        [&](const StageRow& a, const StageRow& b) { return value_of(a) < value_of(b); });
    is_kept[static_cast<std::size_t>(least - rows->begin())] = 1;
    is_kept[static_cast<std::size_t>(most - rows->begin())] = 1;
  };
  keep([](const StageRow& r) { return r.account->compute; });
  keep([](const StageRow& r) { return r.account->exposed_total(); });
  keep([](const StageRow& r) { return r.account->bubble; });
  keep([](const StageRow& r) { return r.account->peer_wait; });
  keep([](const StageRow& r) { return r.memory; });
  std::vector<StageRow> kept;
  for (std::size_t i = 0; i < rows->size(); ++i) {
    if (is_kept[i] != 0) kept.push_back((*rows)[i]);
  }
  *rows = std::move(kept);
}

std::vector<StageRow> StageRows(const StepReport& report) {
  const std::vector<RankAccount>& ranks = report.ranks;
  const bool has_names = report.rank_infos.size() == ranks.size() && !ranks.empty() &&
                         !report.rank_infos.front().name.empty();
  const bool all_alike = std::all_of(ranks.begin(), ranks.end(),
                                     [&](const RankAccount& r) { return r == ranks.front(); });
  if (!has_names || all_alike) return {};
  std::vector<StageRow> rows;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const RankInfo& info = report.rank_infos[i];
    const bool is_alone =
        std::count_if(report.rank_infos.begin(), report.rank_infos.end(),
                      [&](const RankInfo& r) { return r.name == info.name; }) == 1;
    rows.push_back({is_alone ? info.name : fmt::format("{}, rank {}", info.name, info.global_rank),
                    &ranks[i], i < report.in_flight.size() ? report.in_flight[i] : 0,
                    i < report.memory.ranks.size() ? report.memory.ranks[i].total : Bytes{}});
  }
  if (rows.size() > kMostStageRows) KeepExtremes(&rows);
  return rows;
}

}  // namespace

StageTable StagesOf(const StepReport& report) {
  StageTable table;
  const std::vector<StageRow> rows = StageRows(report);
  table.rows.resize(rows.size());
  const auto add = [&](std::string_view column, auto has, auto cell) {
    if (!std::any_of(rows.begin(), rows.end(), has)) return;
    table.columns.emplace_back(column);
    for (std::size_t i = 0; i < rows.size(); ++i) table.rows[i].push_back(cell(rows[i]));
  };
  const auto add_part = [&](std::string_view column, bool is_optional, auto part) {
    add(
        column,
        [&](const StageRow& r) { return !is_optional || part(*r.account) > Duration::zero(); },
        [&](const StageRow& r) {
          const Duration time = part(*r.account);
          return fmt::format("{} {:>5}", FormatTime(time), FormatShare(time, r.account->step));
        });
  };
  add(
      "stage", [](const StageRow&) { return true; }, [](const StageRow& r) { return r.name; });
  add_part("compute", false, [](const RankAccount& a) { return a.compute; });
  add_part("exposed", false, [](const RankAccount& a) { return a.exposed_total(); });
  add_part("bubble", false, [](const RankAccount& a) { return a.bubble; });
  add_part("peer wait", true, [](const RankAccount& a) { return a.peer_wait; });
  add(
      "in flight", [](const StageRow& r) { return r.in_flight > 0; },
      [](const StageRow& r) { return fmt::format("{}", r.in_flight); });
  add(
      "memory", [](const StageRow& r) { return r.memory.value > 0; },
      [](const StageRow& r) { return FormatMemory(r.memory); });
  return table;
}

std::string ClosedFormBubble(const StepReport& report) {
  const std::optional<PipelineShape>& pipeline = report.context.pipeline;
  if (!pipeline || !pipeline->bubble_fraction) return "";
  return fmt::format("closed form (equal stages): bubble {} = {}",
                     FormatShare(*pipeline->bubble_fraction), pipeline->formula);
}

std::vector<std::pair<std::string, Bytes>> LargestMemory(const MemoryReport& memory) {
  std::vector<std::pair<std::string, Bytes>> largest;
  for (const auto& category : memory.at_peak) {
    if (category.second.value == 0) continue;
    largest.push_back(category);
    std::replace(largest.back().first.begin(), largest.back().first.end(), '_', ' ');
  }
  std::stable_sort(largest.begin(), largest.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return largest;
}

std::string PeakPlace(const StepReport& report) {
  const std::string& task = report.memory.task;
  if (task.empty() || report.microsteps.size() < 2) return task;
  return fmt::format("{}, micro-step {}", task, report.memory.microstep + 1);
}

std::string RankRemark(const StepReport& report) {
  const RankInfo info = report.reported_rank < report.rank_infos.size()
                            ? report.rank_infos[report.reported_rank]
                            : RankInfo{};
  const std::vector<RankAccount>& ranks = report.ranks;
  const bool all_alike = std::all_of(ranks.begin(), ranks.end(),
                                     [&](const RankAccount& r) { return r == ranks.front(); });
  std::string remark;
  if (ranks.size() > 1) {
    remark =
        all_alike
            ? fmt::format("rank {} of {} simulated, all alike", info.global_rank, ranks.size())
            : fmt::format("rank {}, the slowest of {} simulated", info.global_rank, ranks.size());
  }
  if (info.stands_for > 1) {
    remark += remark.empty() ? fmt::format("rank {}", info.global_rank) : ",";
    remark += fmt::format(" stands for {} identical ranks", info.stands_for);
  }
  return remark;
}

std::string FormatShare(double share) { return fmt::format("{:.1f}%", share * 100); }

std::string FormatShare(Duration part, Duration whole) {
  return FormatShare(whole == Duration::zero() ? 0 : ToSeconds(part) / ToSeconds(whole));
}

std::string FormatReduction(Duration part, Duration whole) {
  const std::string share = FormatShare(part, whole);
  return share == FormatShare(0) ? share : "-" + share;
}

std::string FormatRate(double rate) {
  constexpr double kSmall = 99.95;  // from here on three digits are a whole number
  return rate < kSmall ? fmt::format("{:.3g}", rate) : FormatCount(rate);
}

}  // namespace stepsim
