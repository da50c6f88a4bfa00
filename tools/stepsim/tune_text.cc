#include "tools/stepsim/tune_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "models/study/target.h"
#include "sim/base/units.h"
#include "tools/stepsim/result_table.h"

namespace stepsim {
namespace {

using Rows = std::vector<std::vector<std::string>>;

std::vector<std::string> Numbers(const TunePoint& point, const TunePoint& base) {
  return {FormatTime(point.step), DeltaText(point.seconds, base.seconds),
          FormatValue(TargetKind::kExposed, point.exposed),
          FormatMemory(point.memory) + (point.fits ? "" : " !")};
}

bool ChangesNothing(const KnobCurve& curve) {
  if (!curve.plateau) return false;
  std::size_t possible = 0;
  for (const TriedKnobValue& value : curve.values) possible += value.point ? 1 : 0;
  return curve.plateau->values.size() == possible;
}

double BestOf(const KnobCurve& curve, const Tuning& tuned) {
  if (!curve.plateau) return HUGE_VAL;
  return tuned.points[*curve.values[curve.plateau->best].point].seconds;
}

std::string Mark(const KnobCurve& curve, std::size_t i) {
  std::vector<std::string> marks;
  if (curve.values[i].is_base) marks.emplace_back("now");
  if (curve.plateau && curve.plateau->best == i) {
    marks.emplace_back("best");
  } else if (curve.plateau &&
             std::count(curve.plateau->values.begin(), curve.plateau->values.end(), i) > 0) {
    marks.emplace_back("as good");
  }
  return fmt::format("{}", fmt::join(marks, ", "));
}

std::string CurveText(const KnobCurve& curve, const Tuning& tuned) {
  Rows rows;
  std::size_t refused = 0;
  std::string problem;
  for (std::size_t i = 0; i < curve.values.size(); ++i) {
    const TriedKnobValue& value = curve.values[i];
    if (!value.point) {
      if (refused++ == 0) problem = fmt::format("{}: {}", value.label, value.problem);
      continue;
    }
    std::vector<std::string> row = {"    " + value.label};
    for (std::string& cell : Numbers(tuned.points[*value.point], tuned.points.front())) {
      row.push_back(std::move(cell));
    }
    row.push_back(Mark(curve, i));
    rows.push_back(std::move(row));
  }
  std::string text =
      fmt::format("  {}: {}\n{}", curve.knob->name, curve.knob->doc, NamedRowsText(rows, 0));
  if (refused > 0) text += fmt::format("    {} not possible; {}\n", refused, problem);
  return text;
}

}  // namespace

std::string KnobsText(const Tuning& tuned, const std::vector<const Knob*>& asked) {
  const bool shows_all = !asked.empty();
  std::vector<const KnobCurve*> curves;
  std::vector<std::string_view> flat, impossible, late;
  for (const KnobCurve& curve : tuned.curves) {
    const bool is_late = std::any_of(curve.values.begin(), curve.values.end(), [](const auto& v) {
      return !v.point && v.problem == kOutOfTime;
    });
    const bool has_one = std::count_if(curve.values.begin(), curve.values.end(),
                                       [](const auto& v) { return v.point.has_value(); }) < 2;
    if (shows_all) {
      curves.push_back(&curve);
    } else if (has_one) {
      (is_late ? late : impossible).push_back(curve.knob->name);
    } else if (ChangesNothing(curve)) {
      flat.push_back(curve.knob->name);
    } else {
      curves.push_back(&curve);
    }
  }
  std::stable_sort(curves.begin(), curves.end(), [&](const KnobCurve* a, const KnobCurve* b) {
    return BestOf(*a, tuned) < BestOf(*b, tuned);
  });
  std::string text =
      "each knob alone: step, change, exposed, memory per GPU (! does not fit); \"as good\" is "
      "within 1% of the best that fits\n";
  for (const KnobCurve* curve : curves) text += CurveText(*curve, tuned);
  if (!flat.empty()) {
    text += fmt::format("  within 1% whatever the value: {}\n", fmt::join(flat, ", "));
  }
  if (!impossible.empty()) {
    text += fmt::format("  no other value is possible: {}\n", fmt::join(impossible, ", "));
  }
  std::vector<std::string_view> idle;
  for (const Knob* knob : asked) {
    const auto is_its = [&](const KnobCurve& curve) { return curve.knob == knob; };
    if (std::none_of(tuned.curves.begin(), tuned.curves.end(), is_its)) idle.push_back(knob->name);
  }
  if (!idle.empty()) text += fmt::format("  not of this job: {}\n", fmt::join(idle, ", "));
  if (!late.empty()) {
    text += fmt::format("  left out for time: {}\n", fmt::join(late, ", "));
  }
  return text;
}

std::string WinnerText(const Tuning& tuned) {
  const TunePoint& base = tuned.points.front();
  const TunePoint& winner = tuned.points[tuned.winner];
  if (tuned.winner == 0) {
    return fmt::format("together: nothing that was tried is faster{}; {} as it is\n",
                       base.fits ? "" : " and fits", FormatTime(base.step));
  }
  std::string text = fmt::format(
      "together: step {} -> {} ({}), exposed {} -> {}, memory {} -> {}{}\n  {}\n",
      FormatTime(base.step), FormatTime(winner.step), DeltaText(winner.seconds, base.seconds),
      FormatValue(TargetKind::kExposed, base.exposed),
      FormatValue(TargetKind::kExposed, winner.exposed), FormatMemory(base.memory),
      FormatMemory(winner.memory), winner.fits ? "" : " (does not fit)", winner.label);
  for (const std::string& change : winner.changes) text += fmt::format("    --set {}\n", change);
  return text;
}

namespace {

constexpr std::size_t kMostRows = 12;
constexpr int kWidth = 56, kHeight = 12;

// Points that are worth a look: slower ones than twice the base are left out of the picture.
std::string Picture(const Tuning& tuned) {
  double least = HUGE_VAL, most = 0, fastest = HUGE_VAL, slowest = 0;
  const double bound = 2 * tuned.points.front().seconds;
  for (const TunePoint& point : tuned.points) {
    if (point.seconds > bound) continue;
    least = std::min(least, ToDouble(point.memory));
    most = std::max(most, ToDouble(point.memory));
    fastest = std::min(fastest, point.seconds);
    slowest = std::max(slowest, point.seconds);
  }
  if (most <= least || slowest <= fastest) return "";
  std::vector<std::string> grid(kHeight, std::string(kWidth, ' '));
  const auto put = [&](const TunePoint& point, char c) {
    if (point.seconds > bound) return;
    const double x = (ToDouble(point.memory) - least) / (most - least) * (kWidth - 1);
    const double y = (slowest - point.seconds) / (slowest - fastest) * (kHeight - 1);
    grid[static_cast<std::size_t>(std::lround(y))][static_cast<std::size_t>(std::lround(x))] = c;
  };
  for (const TunePoint& point : tuned.points) put(point, '.');
  for (const std::size_t i : tuned.pareto) put(tuned.points[i], 'o');
  put(tuned.points.front(), 'N');
  put(tuned.points[tuned.winner], tuned.winner == 0 ? 'N' : 'B');
  std::string text = fmt::format("  {:>9} |{}\n", FormatTime(slowest), grid.front());
  for (int row = 1; row < kHeight; ++row) {
    text += fmt::format("  {:>9} |{}\n", row == kHeight - 1 ? FormatTime(fastest) : "",
                        grid[static_cast<std::size_t>(row)]);
  }
  const auto memory = [](double bytes) {
    return FormatMemory(Bytes{static_cast<std::int64_t>(bytes)});
  };
  text += fmt::format("  {:>9}  {:<28}{:>28}\n", "", memory(least), memory(most));
  return text + "             N now, B best, o none is both faster and leaner, . the others\n";
}

}  // namespace

std::string ParetoText(const Tuning& tuned) {
  Rows rows = {{"  # settings", "step", "delta", "exposed", "memory"}};
  // The ends, and what lies between as evenly as may be.
  const std::size_t count = tuned.pareto.size();
  const std::size_t shown = std::min(count, kMostRows);
  for (std::size_t k = 0; k < shown; ++k) {
    const std::size_t i = shown < 2 ? 0 : k * (count - 1) / (shown - 1);
    const TunePoint& point = tuned.points[tuned.pareto[i]];
    std::vector<std::string> row = {"  " + point.label};
    for (std::string& cell : Numbers(point, tuned.points.front())) row.push_back(std::move(cell));
    rows.push_back(std::move(row));
  }
  std::string text = "step time against memory: none of the others is both faster and leaner\n";
  text += NamedRowsText(std::move(rows), 0);
  if (count > shown) {
    text += fmt::format("    {} more between them (--export has all)\n", count - shown);
  }
  return text + Picture(tuned);
}

std::string SensitivityText(const std::vector<Sensitivity>& base,
                            const std::vector<Sensitivity>& winner) {
  const auto cell = [](const Sensitivity& s) {
    const std::string delta = DeltaText(ToSeconds(s.then), ToSeconds(s.now));
    return s.elasticity ? fmt::format("{} ({:+.2f})", delta, *s.elasticity + 0.0)
                        : fmt::format("{}        ", delta);
  };
  std::map<std::string_view, const Sensitivity*> others;
  for (const Sensitivity& s : winner) others[s.name] = &s;
  Rows rows = {{"  10% more of", "as it is", "best"}};
  for (const Sensitivity& s : base) {
    const auto other = others.find(s.name);
    rows.push_back(
        {"  " + std::string(s.name), cell(s), other == others.end() ? "-" : cell(*other->second)});
  }
  return "what the step hangs on: change of the step, and percent of it per percent of the "
         "thing\n" +
         NamedRowsText(std::move(rows), 0);
}

std::string FlagsText(const std::vector<FrameworkFlags>& flags) {
  std::string text;
  for (const FrameworkFlags& each : flags) {
    text += fmt::format("{}:\n", each.framework);
    for (std::size_t begin = 0; begin < each.text.size();) {
      const std::size_t end = std::min(each.text.find('\n', begin), each.text.size());
      text += fmt::format("    {}\n", each.text.substr(begin, end - begin));
      begin = end + 1;
    }
    if (!each.unable.empty()) {
      text += fmt::format("    (no such setting for {})\n", fmt::join(each.unable, ", "));
    }
  }
  return text;
}

std::string CountsText(const Tuning& tuned, double seconds) {
  std::string text = fmt::format("{} jobs simulated in {}", tuned.points.size() + tuned.failed,
                                 FormatTime(seconds));
  if (tuned.refused > 0) text += fmt::format("; {} not possible", tuned.refused);
  if (tuned.failed > 0) text += fmt::format("; {} cannot run", tuned.failed);
  if (tuned.skipped > 0) {
    text += fmt::format(
        "; {} left out and the search ended early (--time, --points): the best may be better yet",
        tuned.skipped);
  }
  return text + "\n";
}

}  // namespace stepsim
