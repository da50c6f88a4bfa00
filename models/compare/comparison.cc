#include "models/compare/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/base/units.h"

namespace stepsim {
namespace {

// A part of the account, and what it means when a real step has more or less of it.
struct PartRow {
  std::string_view name;
  Duration (*value)(const RankAccount&);
  std::string_view more;  // measured more than predicted
  std::string_view less;
  std::string_view next;  // what to do about it
};
constexpr std::array kParts = {
    // What others beside them add to kernels is in a profile's kernels: no profile tells it apart.
    PartRow{"compute", [](const RankAccount& a) { return a.compute + a.contention; },
            "kernels are slower, or more, than priced", "kernels are faster, or fewer, than priced",
            "`stepsim infer JOB --step-time MEASURED --free compute` gives the speed that the step "
            "implies, `stepsim calibrate` measures it"},
    PartRow{"exposed", [](const RankAccount& a) { return a.exposed_total(); },
            "communication is less hidden", "communication is better hidden",
            "`stepsim infer JOB --step-time MEASURED --free network` gives the bandwidth that the "
            "step implies"},
    PartRow{"peer wait", [](const RankAccount& a) { return a.peer_wait; },
            "ranks wait for a slower one", "ranks are more even",
            "give the traces of all ranks, and look for the slow one with `stepsim trace`"},
    PartRow{"bubble", [](const RankAccount& a) { return a.bubble; }, "the pipeline idles more",
            "the pipeline idles less",
            "compare the order of micro-batches with `stepsim schedule`"},
    PartRow{"host", [](const RankAccount& a) { return a.host; },
            "the launching thread is slower than simulated",
            "the launching thread is faster than simulated",
            "set host.launch to what `stepsim calibrate` measures"},
    PartRow{"idle", [](const RankAccount& a) { return a.idle; },
            "the GPU idles without a reason that the profile shows (data loading, synchronisation)",
            "the simulated step idles more", "look at the gaps in the trace"},
};

double Seconds(Duration d) { return ToSeconds(d); }

void AddAccount(const RankAccount& p, const RankAccount& m, std::vector<ComparedRow>* rows) {
  rows->push_back({"account", "step", "s", Seconds(p.step), Seconds(m.step)});
  for (const PartRow& part : kParts) {
    rows->push_back(
        {"account", std::string(part.name), "s", Seconds(part.value(p)), Seconds(part.value(m))});
  }
  rows->push_back(
      {"overlap", "communication", "s", Seconds(p.communication), Seconds(m.communication)});
  rows->push_back({"overlap", "exposed to a profiler", "s", Seconds(p.profiler_exposed),
                   Seconds(m.profiler_exposed)});
  rows->push_back(
      {"overlap", "overlap fraction", "fraction", p.overlap_fraction(), m.overlap_fraction()});
}

SiteSide SiteOf(const StepSide& side, Site site) {
  const auto it = side.sites.find(site);
  return it == side.sites.end() ? SiteSide{} : it->second;
}

void AddSites(const StepSide& predicted, const StepSide& measured, std::vector<ComparedRow>* rows) {
  for (std::size_t i = 0; i < kSiteCount; ++i) {
    const auto site = static_cast<Site>(i);
    const SiteSide p = SiteOf(predicted, site), m = SiteOf(measured, site);
    if (p.calls == 0 && m.calls == 0) continue;
    const auto add = [&](const char* what, const char* unit, double a, double b) {
      rows->push_back({"site", fmt::format("{} {}", ToString(site), what), unit, a, b});
    };
    add("calls", "count", static_cast<double>(p.calls), static_cast<double>(m.calls));
    add("transfer", "s", Seconds(p.transfer), Seconds(m.transfer));
    if (measured.knows_waiting) add("waiting", "s", Seconds(p.waiting), Seconds(m.waiting));
    add("hidden", "s", Seconds(p.hidden), Seconds(m.hidden));
    add("exposed", "s", Seconds(p.exposed), Seconds(m.exposed));
  }
}

void AddClasses(const StepSide& predicted, const StepSide& measured,
                std::vector<ComparedRow>* rows) {
  if (!predicted.classes || !measured.classes) return;
  for (std::size_t i = 0; i < predicted.classes->size(); ++i) {
    rows->push_back({"kernels", std::string(ToString(static_cast<ComputeClass>(i))), "s",
                     Seconds((*predicted.classes)[i]), Seconds((*measured.classes)[i])});
  }
}

// ---- Words ----

// Differences under a hundredth of the step are not worth a word.
constexpr double kWorthAWord = 0.01;

std::string Percent(double fraction) { return fmt::format("{:.1f}%", std::abs(fraction) * 100); }

std::string StepSentence(const Comparison& c) {
  const double error = c.step_error();
  const std::string steps =
      fmt::format("{} predicted, {} measured", FormatTime(c.predicted.account.step),
                  FormatTime(c.measured.account.step));
  if (std::abs(error) < kWorthAWord) return fmt::format("The step is as predicted: {}.", steps);
  return fmt::format("The prediction is {} too {}: {}.", Percent(error),
                     error > 0 ? "long" : "short", steps);
}

// What makes the difference, the largest part first, which is returned; nullptr: there is none.
const PartRow* AddPartSentences(const Comparison& c, std::vector<std::string>* verdict) {
  struct Part {
    const PartRow* row;
    double share;  // measured - predicted, of the measured step
  };
  std::vector<Part> parts;
  const double step = Seconds(c.measured.account.step);
  for (const PartRow& row : kParts) {
    const double more =
        Seconds(row.value(c.measured.account)) - Seconds(row.value(c.predicted.account));
    if (std::abs(more) >= kWorthAWord * step) parts.push_back({&row, more / step});
  }
  std::stable_sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) {
    return std::abs(a.share) > std::abs(b.share);
  });
  for (const Part& part : parts) {
    verdict->push_back(fmt::format("{}: {} {} than predicted ({} of the step), {}.", part.row->name,
                                   FormatTime(std::abs(part.share) * step),
                                   part.share > 0 ? "more" : "less", Percent(part.share),
                                   part.share > 0 ? part.row->more : part.row->less));
  }
  return parts.empty() ? nullptr : parts.front().row;
}

void AddClassSentence(const Comparison& c, std::vector<std::string>* verdict) {
  if (!c.predicted.classes || !c.measured.classes) return;
  const double step = Seconds(c.measured.account.step);
  std::size_t worst = 0;
  double most = 0;
  for (std::size_t i = 0; i < c.predicted.classes->size(); ++i) {
    const double more = Seconds((*c.measured.classes)[i]) - Seconds((*c.predicted.classes)[i]);
    if (std::abs(more) <= std::abs(most)) continue;
    most = more;
    worst = i;
  }
  if (std::abs(most) < kWorthAWord * step) return;
  verdict->push_back(fmt::format("Of the kernels {} differs most: {} predicted, {} measured.",
                                 ToString(static_cast<ComputeClass>(worst)),
                                 FormatTime((*c.predicted.classes)[worst]),
                                 FormatTime((*c.measured.classes)[worst])));
}

// Sites whose transfers take another time, or are not there at all.
void AddSiteSentences(const Comparison& c, std::vector<std::string>* verdict) {
  const double step = Seconds(c.measured.account.step);
  for (std::size_t i = 0; i < kSiteCount; ++i) {
    const auto site = static_cast<Site>(i);
    const SiteSide p = SiteOf(c.predicted, site), m = SiteOf(c.measured, site);
    if ((p.calls == 0) != (m.calls == 0)) {
      verdict->push_back(
          fmt::format("{} is {}: the trace's sites are guessed, see `stepsim trace "
                      "--list-rules` and --site.",
                      ToString(site),
                      p.calls == 0 ? "measured but not predicted" : "predicted but not measured"));
      continue;
    }
    const double more = Seconds(m.transfer) - Seconds(p.transfer);
    if (std::abs(more) < kWorthAWord * step) continue;
    verdict->push_back(fmt::format(
        "Transfers of {} take {} instead of {}{}.", ToString(site), FormatTime(m.transfer),
        FormatTime(p.transfer),
        c.measured.knows_waiting ? "" : " (one rank's trace: waiting for peers is in it)"));
  }
}

}  // namespace

double Comparison::step_error() const {
  const double step = Seconds(measured.account.step);
  return step > 0 ? Seconds(predicted.account.step) / step - 1 : 0;
}

double Comparison::exposed_error() const {
  const double step = Seconds(measured.account.step);
  if (step <= 0) return 0;
  return (Seconds(predicted.account.profiler_exposed) -
          Seconds(measured.account.profiler_exposed)) /
         step;
}

Comparison Compare(StepSide predicted, StepSide measured) {
  Comparison c{std::move(predicted), std::move(measured), {}, {}};
  AddAccount(c.predicted.account, c.measured.account, &c.rows);
  AddSites(c.predicted, c.measured, &c.rows);
  AddClasses(c.predicted, c.measured, &c.rows);
  c.verdict.push_back(StepSentence(c));
  const PartRow* largest = AddPartSentences(c, &c.verdict);
  AddClassSentence(c, &c.verdict);
  AddSiteSentences(c, &c.verdict);
  if (largest != nullptr) c.verdict.push_back(fmt::format("Next: {}.", largest->next));
  return c;
}

}  // namespace stepsim
