#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/units.h"
#include "sim/metrics/metric_table.h"
#include "sim/report/summary_facts.h"
#include "sim/report/wrap_text.h"
#include "sim/report/writer.h"

namespace stepsim {
namespace {

constexpr std::size_t kNarrowest = 72;
constexpr std::size_t kLabelWidth = 13;  // "confidence   "
constexpr std::size_t kCellWidth = 27;   // "  compute     538 ms  97.1%"
constexpr std::size_t kListedCollectives = 3;
constexpr std::size_t kListedCategories = 4;
constexpr std::size_t kListedWarnings = 2;
constexpr std::size_t kLinesOfRemark = 2;
constexpr std::size_t kLinesOfWarning = 3;
constexpr std::size_t kLinesOfNote = 12;  // notes are asked for, and list things
constexpr std::size_t kMostLines = 21;    // at full width

double MetricValue(const StepReport& report, std::string_view name) {
  const std::span<const Metric> metrics = Metrics();
  const auto metric = std::find_if(metrics.begin(), metrics.end(),
                                   [name](const Metric& m) { return m.name == name; });
  return metric == metrics.end() ? 0 : metric->value(report);
}

class Summary {
 public:
  Summary(const StepReport& report, bool use_colour, std::size_t width)
      : report_(report),
        account_(report.account()),
        use_colour_(use_colour),
        width_(std::clamp(width, kNarrowest, kSummaryWidth)) {}

  std::string Write() {
    AddTitle();
    AddHeadline();
    AddParts();
    AddReducingMicrostep();
    AddExposed();
    AddMemory();
    AddCollectives();
    AddWarnings();
    AddStages();
    for (const std::string& note : report_.context.notes) AddText("note", note, kLinesOfNote);
    AddText("confidence", report_.context.confidence, kLinesOfRemark);
    return std::move(text_);
  }

 private:
  struct HeadlinePart {
    std::string loud;
    std::string rest;
  };

  std::string Bold(std::string_view text) const { return Paint("\033[1m", text); }
  std::string Yellow(std::string_view text) const { return Paint("\033[1;33m", text); }
  std::string Paint(std::string_view code, std::string_view text) const {
    return use_colour_ ? fmt::format("{}{}\033[0m", code, text) : std::string(text);
  }
  void AddLine(std::string_view line) { text_.append(line).append("\n"); }
  // What takes so many lines at full width takes more of narrower ones.
  std::size_t Lines(std::size_t at_full_width, std::size_t indent = 0) const {
    const std::size_t room = width_ - indent;
    return (at_full_width * (kSummaryWidth - indent) + room - 1) / room;
  }

  // "label        text", broken between words.
  void AddText(std::string_view label, const std::string& text, std::size_t most_lines,
               bool is_loud = false) {
    std::string head = Bold(fmt::format("{:<{}}", label, kLabelWidth));
    for (const std::string& line :
         WrapText(text, width_ - kLabelWidth, Lines(most_lines, kLabelWidth))) {
      AddLine(head + (is_loud ? Yellow(line) : line));
      head.assign(kLabelWidth, ' ');
    }
  }

  void AddTitle() {
    const std::string remark = RankRemark(report_);
    const std::string suffix = remark.empty() ? "" : fmt::format("  ({})", remark);
    const std::string title = ShortenText(report_.context.job, width_);
    if (title.size() + suffix.size() <= width_) return AddLine(Bold(title) + suffix);
    AddLine(Bold(title));
    if (!suffix.empty()) AddLine(ShortenText(suffix, width_));
  }

  // The numbers that everybody asks for first; what does not fit stands in a second line.
  void AddHeadline() {
    constexpr std::string_view kGap = "   ";
    std::string line;
    std::size_t length = 0;  // without colours
    for (const HeadlinePart& part : HeadlineParts()) {
      const std::size_t size = kGap.size() + part.loud.size() + part.rest.size();
      if (length + size > width_) {
        AddLine(line);
        line.clear();
        length = 0;
      }
      if (!line.empty()) line += kGap;
      line += (part.loud.empty() ? "" : Bold(part.loud)) + part.rest;
      length += size;
    }
    AddLine(line);
  }

  std::vector<HeadlinePart> HeadlineParts() const {
    const StepContext& context = report_.context;
    std::vector<HeadlinePart> parts = {{fmt::format("step {}", FormatTime(account_.step)), ""}};
    const double mfu = Mfu(report_, context.mfu_convention);
    if (mfu > 0) {
      parts.push_back(
          {"MFU " + FormatShare(mfu),
           fmt::format(" ({}, peak {} dense {})", context.mfu_convention,
                       FormatFlopRate(context.peak.value), ToString(context.peak_dtype))});
    }
    if (context.tokens_per_step > 0) {
      parts.push_back(
          {"", FormatRate(MetricValue(report_, "tokens_per_s_per_gpu")) + " tokens/s/GPU"});
    } else if (context.samples_per_step > 0) {
      parts.push_back({"", FormatRate(MetricValue(report_, "samples_per_s")) + " samples/s"});
    }
    const double tflops = MetricValue(report_, "tflops_per_gpu");
    if (tflops > 0) parts.push_back({"", fmt::format("{:.3g} TFLOP/s/GPU", tflops)});
    return parts;
  }

  void AddParts() {
    std::string line;
    std::size_t cells = 0;
    for (const StepPart& part : StepParts(account_)) {
      const bool is_zero = part.time == Duration::zero();
      std::string cell = fmt::format("  {:<10} {:>7} {:>6}", part.name, FormatTime(part.time),
                                     is_zero ? "" : FormatShare(part.time, account_.step));
      line += part.name == "exposed" && !is_zero ? Yellow(cell) : cell;
      if (++cells % (width_ / kCellWidth) == 0) AddPartsLine(&line);
    }
    if (!line.empty()) AddPartsLine(&line);
  }

  void AddPartsLine(std::string* line) {
    line->erase(line->find_last_not_of(' ') + 1);
    AddLine(*line);
    line->clear();
  }

  void AddReducingMicrostep() {
    const MicrostepReport* reducing = ReducingMicrostep(report_);
    if (reducing == nullptr) return;
    const RankAccount& account = reducing->account;
    const auto reducing_too =
        std::count_if(report_.microsteps.begin(), report_.microsteps.end(),
                      [](const MicrostepReport& m) { return m.is_reducing; }) -
        1;
    AddText("micro-step",
            fmt::format("{} of {} reduces{}: {}, compute {}, exposed {} ({} of it)",
                        reducing->microstep + 1, report_.microsteps.size(),
                        reducing_too == 0 ? "" : fmt::format(", as do {} before it", reducing_too),
                        FormatTime(account.step), FormatTime(account.compute),
                        FormatTime(account.exposed_total()),
                        FormatShare(account.exposed_total(), account.step)),
            1);
  }

  void AddExposed() {
    constexpr std::size_t kLinesOfSites = 3;  // room for every site
    const Duration communication = account_.communication;
    if (communication == Duration::zero()) {
      return AddText("exposed", "nothing: this step has no communication", 1);
    }
    std::string text;
    for (const StepPart& site : ExposedSites(account_)) {
      text += fmt::format("{}{} {} ({})", text.empty() ? "" : ", ", site.name,
                          FormatTime(site.time), FormatShare(site.time, account_.step));
    }
    AddText(text.empty() ? "exposed" : "exposed at", text.empty() ? "nothing" : text,
            kLinesOfSites);
    AddText("hidden",
            fmt::format("{} of {} communication", FormatShare(account_.overlap_fraction()),
                        FormatTime(communication)),
            1);
  }

  void AddMemory() {
    const Bytes peak = report_.memory.total;
    const Bytes capacity = report_.context.gpu_memory;
    if (peak.value <= 0) return;
    const bool is_too_large = capacity.value > 0 && peak > capacity;
    std::string text = FormatMemory(peak);
    if (capacity.value > 0) text += fmt::format(" of {}", FormatMemory(capacity));
    if (is_too_large) {
      text += fmt::format(": DOES NOT FIT, {} too much", FormatMemory(peak - capacity));
    }
    if (const std::string at = PeakPlace(report_); !at.empty()) text += " at " + at;
    std::vector<std::pair<std::string, Bytes>> largest = LargestMemory(report_.memory);
    largest.resize(std::min(largest.size(), kListedCategories));
    for (std::size_t i = 0; i < largest.size(); ++i) {
      text += fmt::format("{} {} {}", i == 0 ? ";" : ",", largest[i].first,
                          FormatMemory(largest[i].second));
    }
    AddText("memory", text, kLinesOfRemark, is_too_large);
  }

  // The numbers first: names and causes are long, and break into the next line.
  void AddCollectives() {
    const auto largest = LargestExposed(report_, kListedCollectives);
    if (largest.empty()) return;
    const std::string heading = "  exposed       size  if removed  collective: cause";
    const std::string indent(heading.find("collective"), ' ');
    AddLine(Bold(heading));
    for (const CollectiveReport* c : largest) {
      std::string head = fmt::format("{:>9}  {:>9}  {:>10}  ", FormatTime(c->exposed_transfer()),
                                     FormatBytes(c->bytes),
                                     c->saved ? FormatReduction(*c->saved, account_.step) : "");
      std::string text = CollectiveTitle(report_, *c);
      if (!c->cause.empty()) text += ": " + c->cause;
      for (const std::string& line :
           WrapText(text, width_ - indent.size(), Lines(kLinesOfRemark, indent.size()))) {
        AddLine(head + line);
        head = indent;
      }
    }
  }

  // "warning 1/7": the rest stands in the result file. Warnings share the lines that are left.
  // That memory does not fit is said where memory is.
  void AddWarnings() {
    std::vector<std::string> warnings = report_.context.warnings;
    std::erase(warnings, MemoryWarning(report_));
    const auto used = static_cast<std::size_t>(std::count(text_.begin(), text_.end(), '\n')) +
                      Lines(kLinesOfRemark);
    const std::size_t room = std::max(Lines(kMostLines), used + 1) - used;
    const std::size_t listed = std::min({warnings.size(), kListedWarnings, room});
    for (std::size_t i = 0; i < listed; ++i) {
      const std::string number =
          listed < warnings.size() ? fmt::format(" {}/{}", i + 1, warnings.size()) : "";
      std::size_t lines = kLinesOfWarning;
      while (lines > 1 && Lines(lines) > room / listed) --lines;
      AddText("warning" + number, warnings[i], lines, /*is_loud=*/true);
    }
  }

  void AddStages() {
    const StageTable table = StagesOf(report_);
    if (table.rows.empty()) return;
    std::vector<std::size_t> widths;
    for (std::size_t c = 0; c < table.columns.size(); ++c) {
      widths.push_back(table.columns[c].size());
      for (const auto& row : table.rows) widths[c] = std::max(widths[c], row[c].size());
    }
    const auto line_of = [&](const std::vector<std::string>& cells) {
      std::string line = fmt::format("  {:<{}}", cells[0], widths[0]);
      for (std::size_t c = 1; c < cells.size(); ++c) {
        line += fmt::format("  {:>{}}", cells[c], widths[c]);
      }
      return line;
    };
    AddLine(Bold(line_of(table.columns)));
    for (const auto& row : table.rows) AddLine(line_of(row));
    if (table.rows.size() < report_.ranks.size()) {
      AddLine(fmt::format("  {} of {} ranks: first, last and the extremes", table.rows.size(),
                          report_.ranks.size()));
    }
    if (const std::string form = ClosedFormBubble(report_); !form.empty()) AddLine("  " + form);
  }

  const StepReport& report_;
  const RankAccount& account_;
  const bool use_colour_;
  const std::size_t width_;
  std::string text_;
};

}  // namespace

std::string TerminalSummary(const StepReport& report, bool use_colour, std::size_t width) {
  return Summary(report, use_colour, width).Write();
}

}  // namespace stepsim
