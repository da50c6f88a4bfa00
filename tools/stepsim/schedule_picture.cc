#include "tools/stepsim/schedule_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "sim/report/wrap_text.h"

namespace stepsim {
namespace {

constexpr std::size_t kMostDrawnRanks = 64;
constexpr std::size_t kMostListedActions = 4000;

// One operation of a rank: one action, or two that overlap.
struct Drawn {
  double start = 0, end = 0;
  std::string letters;  // "F", or "Fb" of a pair
  std::string label;    // "F3", "F7+b3"
};

class Picture {
 public:
  Picture(const PipelineSchedule& schedule, const ScheduleReplay& replay, std::size_t width)
      : schedule_(schedule), replay_(replay), width_(std::max<std::size_t>(width, 40)) {
    const std::size_t ranks = schedule.ranks.size();
    for (std::size_t rank = 0; rank < std::min(ranks, kMostDrawnRanks); ++rank) {
      rows_.push_back(OperationsOf(rank));
    }
    digits_ = std::to_string(rows_.size() - 1).size();
  }

  std::string Draw() const {
    std::string text;
    const double unit = Unit();
    const std::size_t columns = LabelColumns(unit), scaled = ScaledColumns(unit);
    for (std::size_t rank = 0; rank < rows_.size(); ++rank) {
      std::string line =
          columns > 0 ? LabelledRow(rows_[rank], unit, columns) : ScaledRow(rows_[rank], scaled);
      line.erase(line.find_last_not_of(' ') + 1);
      text += fmt::format("rank {:<{}}  {}\n", rank, digits_, line);
    }
    if (rows_.size() < schedule_.ranks.size()) {
      text += fmt::format("... and {} more ranks\n", schedule_.ranks.size() - rows_.size());
    }
    return text + Legend(columns > 0);
  }

 private:
  bool TellsChunksByCase() const { return schedule_.shape.chunks == 2; }

  char Letter(const Action& action) const {
    constexpr std::string_view kLetters = "FBIW";
    const char letter = kLetters[static_cast<std::size_t>(action.kind)];
    const bool is_second = TellsChunksByCase() && action.stage >= schedule_.shape.ranks;
    return is_second ? static_cast<char>(std::tolower(letter)) : letter;
  }

  std::string Label(const Action& action) const {
    if (schedule_.shape.chunks > 2) return ToString(action);
    return Letter(action) + std::to_string(action.microbatch);
  }

  std::vector<Drawn> OperationsOf(std::size_t rank) const {
    const RankReplay& times = replay_.ranks[rank];
    std::vector<Drawn> row;
    for (std::size_t i = 0; i < schedule_.ranks[rank].size(); ++i) {
      const Action& action = schedule_.ranks[rank][i];
      if (action.overlaps_previous) {
        row.back().letters += Letter(action);
        row.back().label += "+" + Label(action);
      } else {
        row.push_back(
            {times.start[i], times.end[i], std::string(1, Letter(action)), Label(action)});
      }
    }
    return row;
  }

  std::size_t Room() const { return width_ - std::min(width_, 7 + digits_); }

  // The unit of which every time is a multiple: the shortest operation, or half of it; 0: none.
  double Unit() const {
    double shortest = std::numeric_limits<double>::infinity();
    for (const auto& row : rows_) {
      for (const Drawn& op : row) shortest = std::min(shortest, op.end - op.start);
    }
    for (const double unit : {shortest, shortest / 2}) {
      const auto fits = [unit](double time) {
        return std::abs(time / unit - std::round(time / unit)) < 1e-6;
      };
      const bool all_fit = std::all_of(rows_.begin(), rows_.end(), [&](const auto& row) {
        return std::all_of(row.begin(), row.end(),
                           [&](const Drawn& op) { return fits(op.start) && fits(op.end); });
      });
      if (all_fit) return unit;
    }
    return 0;
  }

  // Columns per unit at which every label fits its operation and every row its line; 0: none.
  std::size_t LabelColumns(double unit) const {
    if (unit <= 0) return 0;
    for (std::size_t columns = 4; columns > 0; --columns) {
      const auto wide = static_cast<double>(columns);
      if (replay_.makespan / unit * wide > static_cast<double>(Room())) continue;
      for (const auto& row : rows_) {
        for (const Drawn& op : row) {
          const double room = std::round((op.end - op.start) / unit) * wide;
          if (static_cast<double>(op.label.size()) > room) return 0;
        }
      }
      return columns;
    }
    return 0;
  }

  std::string LabelledRow(const std::vector<Drawn>& row, double unit, std::size_t columns) const {
    const auto column = [&](double time) {
      return static_cast<std::size_t>(std::llround(time / unit)) * columns;
    };
    std::string line(column(replay_.makespan), '.');
    for (const Drawn& op : row) {
      const std::size_t begin = column(op.start), end = column(op.end);
      std::fill(line.begin() + Offset(begin), line.begin() + Offset(end), '-');
      std::copy(op.label.begin(), op.label.end(), line.begin() + Offset(begin));
      if (op.label.size() < end - begin) line[end - 1] = ' ';
    }
    return line;
  }

  // Whole columns per unit where that is possible.
  std::size_t ScaledColumns(double unit) const {
    const double units = unit > 0 ? std::round(replay_.makespan / unit) : 0;
    const auto room = static_cast<double>(Room());
    if (units < 1 || units > room) return Room();
    return static_cast<std::size_t>(units * std::floor(room / units));
  }

  std::string ScaledRow(const std::vector<Drawn>& row, std::size_t columns) const {
    std::string line(columns, '.');
    const double step = replay_.makespan / static_cast<double>(columns);
    auto op = row.begin();
    for (std::size_t i = 0; i < columns; ++i) {
      const double middle = (static_cast<double>(i) + 0.5) * step;
      while (op != row.end() && op->end <= middle) ++op;
      if (op == row.end()) break;
      if (op->start > middle) continue;
      line[i] = op->letters.size() > 1 ? '+' : op->letters.front();
    }
    return line;
  }

  static std::ptrdiff_t Offset(std::size_t n) { return static_cast<std::ptrdiff_t>(n); }

  std::string Legend(bool is_labelled) const {
    std::set<char> used;
    for (const auto& row : rows_) {
      for (const Drawn& op : row) {
        for (const char c : op.letters) used.insert(static_cast<char>(std::toupper(c)));
        if (op.letters.size() > 1) used.insert('+');
      }
    }
    std::string text = "F forward";
    if (used.count('B') > 0) text += ", B backward";
    if (used.count('I') > 0) text += ", I input gradient, W weight gradient";
    if (used.count('+') > 0) text += ", + a forward and a backward overlapped";
    if (TellsChunksByCase()) text += "; small letters: the second chunk";
    if (schedule_.shape.chunks > 2 && is_labelled) text += "; in front of it the stage";
    text += is_labelled ? "; behind it the micro-batch\n" : "\n";
    return text;
  }

  const PipelineSchedule& schedule_;
  const ScheduleReplay& replay_;
  std::size_t width_;
  std::size_t digits_ = 1;
  std::vector<std::vector<Drawn>> rows_;
};

}  // namespace

std::string DrawReplay(const PipelineSchedule& schedule, const ScheduleReplay& replay,
                       std::size_t width) {
  return Picture(schedule, replay, width).Draw();
}

std::string ActionTable(const PipelineSchedule& schedule, std::size_t width) {
  std::size_t actions = 0;
  for (const std::vector<Action>& rank : schedule.ranks) actions += rank.size();
  const bool is_cut = actions > kMostListedActions;
  const std::size_t most_lines = is_cut ? 1 : std::numeric_limits<std::size_t>::max();
  const std::size_t shown = std::min(schedule.ranks.size(), kMostDrawnRanks);
  const std::size_t digits = std::to_string(shown - 1).size();
  std::string text;
  for (std::size_t rank = 0; rank < shown; ++rank) {
    std::string words;
    for (const Action& a : schedule.ranks[rank]) {
      if (!words.empty()) words += a.overlaps_previous ? '+' : ' ';
      words += ToString(a);
    }
    std::string head = fmt::format("rank {:<{}}  ", rank, digits);
    const std::size_t room = std::max<std::size_t>(width, head.size() + 20) - head.size();
    for (const std::string& line : WrapText(words, room, most_lines)) {
      text += head + line + '\n';
      head.assign(head.size(), ' ');
    }
  }
  if (is_cut) text += fmt::format("{} actions; --export x.csv writes all\n", actions);
  return text;
}

}  // namespace stepsim
