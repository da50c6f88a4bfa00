#include "models/pipeline/schedule_csv.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "models/pipeline/check_schedule.h"
#include "sim/base/nearest.h"
#include "sim/base/units.h"

namespace stepsim {
namespace {

constexpr std::size_t kMostBytes = std::size_t{64} << 20;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::string_view kOverlap = "OVERLAP_F_B";
constexpr std::string_view kOperations =
    "F, B, I, W, UNSHARD, RESHARD, REDUCE_GRAD, SEND_F, RECV_F, "
    "SEND_B, RECV_B";

struct Operation {
  std::string_view name;
  ActionKind kind;
  bool has_microbatch = true;
};
constexpr std::array kTable = {
    Operation{"F", ActionKind::kForward},
    Operation{"B", ActionKind::kBackward},
    Operation{"I", ActionKind::kInputGradient},
    Operation{"W", ActionKind::kWeightGradient},
    Operation{"UNSHARD", ActionKind::kUnshard, false},
    Operation{"RESHARD", ActionKind::kReshard, false},
    Operation{"REDUCE_GRAD", ActionKind::kReduceGrad, false},
    Operation{"SEND_F", ActionKind::kSendForward},
    Operation{"RECV_F", ActionKind::kRecvForward},
    Operation{"SEND_B", ActionKind::kSendBackward},
    Operation{"RECV_B", ActionKind::kRecvBackward},
};

std::string Quoted(std::string_view text) {
  constexpr std::size_t kLongest = 40;
  std::string shown;
  for (const char c : text.substr(0, kLongest)) {
    shown += static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? '?' : c;
  }
  return "'" + shown + (text.size() > kLongest ? "..." : "") + "'";
}

std::string DidYouMean(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Operation& row : kTable) names.push_back(row.name);
  const std::string nearest = Nearest(name, names);
  return nearest.empty() ? "" : "; did you mean '" + nearest + "'?";
}

// One cell, or one action of a pair.
class CellReader {
 public:
  // `name` is the file's.
  CellReader(std::string_view text, const std::string& name, ScheduleFile::Cell cell)
      : text_(text), name_(name), cell_(cell) {}

  Action Read() {
    Action action;
    action.stage = ReadNumber("stage", kMostRanks * kMostChunks);
    std::size_t end = at_;
    while (end < text_.size() && (IsLetter(text_[end]) || text_[end] == '_')) ++end;
    const std::string_view name = text_.substr(at_, end - at_);
    const auto is_it = [name](const Operation& row) { return row.name == name; };
    const auto* const row = std::find_if(kTable.begin(), kTable.end(), is_it);
    if (row == kTable.end()) {
      Fail("the operation " + Quoted(name), std::string(kOperations) + DidYouMean(name));
    }
    action.kind = row->kind;
    at_ = end;
    if (row->has_microbatch) action.microbatch = ReadNumber("micro-batch", kMostMicrobatches);
    if (at_ != text_.size()) {
      Fail(Quoted(text_.substr(at_)) + " behind " + ToString(action), "a comma or the end of line");
    }
    return action;
  }

 private:
  static bool IsDigit(char c) { return c >= '0' && c <= '9'; }
  static bool IsLetter(char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); }

  // Below `limit`.
  std::int32_t ReadNumber(const std::string& what, std::int32_t limit) {
    const std::size_t begin = at_;
    std::int32_t number = 0;
    while (at_ < text_.size() && IsDigit(text_[at_]) && number < limit) {
      number = 10 * number + (text_[at_++] - '0');
    }
    if (at_ > begin && number < limit) return number;
    at_ = begin;
    Fail(Quoted(text_.substr(begin)) + " where the " + what + " should stand",
         "a number below " + std::to_string(limit) + ", as in 0F3");
  }

  [[noreturn]] void Fail(const std::string& found, const std::string& allowed) const {
    const Place place{name_, cell_.line, cell_.column + static_cast<int>(at_)};
    throw ConfigError(place, "found " + found + " in " + Quoted(text_) + ", allowed: " + allowed);
  }

  std::string_view text_;
  const std::string& name_;
  ScheduleFile::Cell cell_;
  std::size_t at_ = 0;
};

class TableReader {
 public:
  TableReader(std::string_view text, const std::string& file_name) : text_(text) {
    file_.schedule.name = file_name;
    if (text_.size() > kMostBytes) {
      throw ConfigError(Place{file_name, 0, 0},
                        "found " + FormatBytes(static_cast<double>(text_.size())) +
                            ", allowed: at most " + FormatBytes(static_cast<double>(kMostBytes)));
    }
    if (text_.substr(0, kByteOrderMark.size()) == kByteOrderMark) {
      text_.remove_prefix(kByteOrderMark.size());
    }
  }

  ScheduleFile Read() {
    for (int line = 1; !text_.empty(); ++line) {
      const std::size_t end = std::min(text_.find('\n'), text_.size());
      std::string_view row = text_.substr(0, end);
      text_.remove_prefix(std::min(end + 1, text_.size()));
      if (!row.empty() && row.back() == '\r') row.remove_suffix(1);
      ReadRow(row, line);
    }
    return std::move(file_);
  }

 private:
  using Cell = ScheduleFile::Cell;

  PipelineSchedule& schedule() { return file_.schedule; }

  void ReadRow(std::string_view row, int line) {
    if (row.empty()) return;  // of the end of the file, or a blank line
    if (Rank() == kMostRanks) {
      throw ConfigError({schedule().name, line, 1},
                        "found more than " + std::to_string(kMostRanks) + " lines, one per rank");
    }
    schedule().ranks.emplace_back();
    file_.cells.emplace_back();
    for (std::size_t begin = 0; begin <= row.size();) {
      const std::size_t end = std::min(row.find(',', begin), row.size());
      ReadCell(row.substr(begin, end - begin), {line, static_cast<int>(begin) + 1});
      begin = end + 1;
    }
  }

  std::int32_t Rank() const { return static_cast<std::int32_t>(file_.cells.size()); }

  void ReadCell(std::string_view text, Cell cell) {
    constexpr std::string_view kBlanks = " \t";
    const std::size_t begin = std::min(text.find_first_not_of(kBlanks), text.size());
    text.remove_prefix(begin);
    cell.column += static_cast<int>(begin);
    text = text.substr(0, text.find_last_not_of(kBlanks) + 1);
    if (text.empty()) return;
    if (text.front() == '(') return ReadPair(text, cell);
    Keep(Read(text, cell), cell);
  }

  // "(0F7;7B3)OVERLAP_F_B"
  void ReadPair(std::string_view text, Cell cell) {
    const auto check = [&](bool is_right, const char* allowed) {
      if (is_right) return;
      throw ConfigError({schedule().name, cell.line, cell.column},
                        "found " + Quoted(text) + ", allowed: " + allowed);
    };
    const std::size_t middle = text.find(';'), end = text.find(')');
    check(middle < end && end != std::string_view::npos && text.substr(end + 1) == kOverlap,
          "(0F1;1B0)OVERLAP_F_B");
    const Cell first{cell.line, cell.column + 1};
    const Cell second{cell.line, cell.column + static_cast<int>(middle) + 1};
    const Action forward = Read(text.substr(1, middle - 1), first);
    Action backward = Read(text.substr(middle + 1, end - middle - 1), second);
    check(forward.kind == ActionKind::kForward && backward.kind == ActionKind::kBackward,
          "an F and a B together");
    backward.overlaps_previous = true;
    Keep(forward, first);
    Keep(backward, second);
  }

  Action Read(std::string_view text, Cell cell) {
    return CellReader(text, schedule().name, cell).Read();
  }

  void Keep(const Action& action, Cell cell) {
    schedule().ranks.back().push_back(action);
    file_.cells.back().push_back(cell);
  }

  std::string_view text_;
  ScheduleFile file_;
};

// ---- The shape, from the cells ----

// The largest stage and micro-batch of all actions, and where they stand.
struct Extent {
  std::int32_t stage = -1, microbatch = -1;
  Place stage_place, microbatch_place;
  std::int64_t forwards = 0;
};

Extent ExtentOf(const ScheduleFile& file) {
  Extent extent;
  for (std::size_t rank = 0; rank < file.cells.size(); ++rank) {
    for (std::size_t i = 0; i < file.cells[rank].size(); ++i) {
      const Action& a = file.schedule.ranks[rank][i];
      extent.forwards += a.kind == ActionKind::kForward ? 1 : 0;
      if (a.stage > extent.stage) {
        extent.stage = a.stage;
        extent.stage_place = file.PlaceOf(rank, i);
      }
      if (a.microbatch > extent.microbatch) {
        extent.microbatch = a.microbatch;
        extent.microbatch_place = file.PlaceOf(rank, i);
      }
    }
  }
  return extent;
}

// A table that names a large number but has few cells would make everything behind it large.
void CheckExtent(const Extent& extent, const std::string& file_name) {
  if (extent.microbatch < 0) {
    throw ConfigError({file_name, 1, 1},
                      "found no forward or backward, allowed: a line per rank "
                      "such as 0F0,0F1,0B0,0B1");
  }
  const std::int64_t cells = (extent.stage + std::int64_t{1}) * (extent.microbatch + 1);
  if (extent.forwards >= cells) return;
  const std::int64_t per_stage = extent.forwards / (extent.stage + 1);
  const bool has_few_stages = per_stage == 0;
  throw ConfigError(
      has_few_stages ? extent.stage_place : extent.microbatch_place,
      "found " + std::to_string(extent.forwards) + " forwards, allowed: " + std::to_string(cells) +
          " for " + std::to_string(extent.stage + 1) + " stages and " +
          std::to_string(extent.microbatch + 1) + " micro-batches (numbers count from 0)");
}

std::int64_t Misplaced(const PipelineSchedule& schedule) {
  std::int64_t count = 0;
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    for (const Action& a : schedule.ranks[rank]) {
      if (!IsCompute(a.kind)) continue;
      count += schedule.RankOf(a.stage, a.microbatch) == static_cast<std::int32_t>(rank) ? 0 : 1;
    }
  }
  return count;
}

// The placement that the fewest cells contradict; the first of equals.
void ChoosePlacement(PipelineSchedule& schedule, std::int32_t stages) {
  const std::int32_t p = schedule.shape.ranks;
  std::vector<StagePlacement> candidates;
  if (stages % p == 0) candidates.push_back(StagePlacement::kLoop);
  if (stages == 2 * p) candidates.push_back(StagePlacement::kV);
  if (stages == p) candidates.push_back(StagePlacement::kBidirectional);
  std::optional<std::int64_t> fewest;
  StagePlacement best = StagePlacement::kLoop;
  for (const StagePlacement placement : candidates) {
    schedule.placement = placement;
    const std::int64_t misplaced = Misplaced(schedule);
    if (fewest && misplaced >= *fewest) continue;
    fewest = misplaced;
    best = placement;
  }
  schedule.placement = best;
}

}  // namespace

Place ScheduleFile::PlaceOf(std::size_t rank, std::size_t action) const {
  const Cell& cell = cells[rank][action];
  return {schedule.name, cell.line, cell.column};
}

ScheduleFile ReadScheduleCsv(std::string_view text, const std::string& file_name) {
  ScheduleFile file = TableReader(text, file_name).Read();
  const Extent extent = ExtentOf(file);
  CheckExtent(extent, file_name);
  PipelineSchedule& schedule = file.schedule;
  const auto p = static_cast<std::int32_t>(schedule.ranks.size());
  const std::int32_t stages = extent.stage + 1;
  if (stages % p != 0) {
    throw ConfigError(extent.stage_place,
                      "found " + std::to_string(stages) + " stages on " + std::to_string(p) +
                          " ranks (lines), allowed: a multiple of " + std::to_string(p) +
                          "; nearest: " + std::to_string(std::max(p, stages / p * p)));
  }
  schedule.shape = {p, stages / p, extent.microbatch + 1};
  ChoosePlacement(schedule, stages);
  for (const std::vector<Action>& actions : schedule.ranks) {
    for (const Action& a : actions) {
      schedule.splits_backward |= a.kind == ActionKind::kInputGradient;
    }
  }
  return file;
}

std::vector<Diagnostic> ProblemsOf(const ScheduleFile& file) {
  std::vector<Diagnostic> problems;
  for (const ScheduleProblem& problem : InvalidActions(file.schedule)) {
    const auto& cells = file.cells[problem.rank];
    Place place{file.schedule.name, cells.empty() ? 1 : cells.front().line, 1};
    if (problem.action != ScheduleProblem::kNone) {
      place = file.PlaceOf(problem.rank, problem.action);
    }
    problems.push_back({std::move(place), problem.message});
  }
  return problems;
}

std::string WriteScheduleCsv(const PipelineSchedule& schedule) {
  std::string text;
  for (const std::vector<Action>& actions : schedule.ranks) {
    for (std::size_t i = 0; i < actions.size(); ++i) {
      const bool has_partner = i + 1 < actions.size() && actions[i + 1].overlaps_previous;
      if (i > 0) text += actions[i].overlaps_previous ? ';' : ',';
      if (has_partner && !actions[i].overlaps_previous) text += '(';
      text += ToString(actions[i]);
      if (actions[i].overlaps_previous) text += ")" + std::string(kOverlap);
    }
    text += '\n';
  }
  return text;
}

}  // namespace stepsim
