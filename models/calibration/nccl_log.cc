#include "models/calibration/nccl_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "models/calibration/collective_names.h"
#include "models/calibration/log_lines.h"
#include "models/cost/collective_cost.h"
#include "sim/base/diagnostics.h"

namespace stepsim {
namespace {

using Words = std::vector<std::string_view>;

constexpr std::size_t kMostProblems = 20;

// Numbers of NCCL before it wrote names (2.23).
constexpr std::array<std::string_view, 7> kAlgorithms = {
    "tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat"};
constexpr std::array<std::string_view, 3> kProtocols = {"ll", "ll128", "simple"};

// "1" -> "ring", "RING" -> "ring", "COLLNET_DIRECT" -> "collnet_direct".
template <std::size_t kCount>
std::string NameOf(std::string_view word, const std::array<std::string_view, kCount>& names) {
  if (const auto index = CountIn(word)) {
    return *index < static_cast<std::int64_t>(kCount)
               ? std::string(names[static_cast<std::size_t>(*index)])
               : "";
  }
  std::string lower;
  for (const char c : word.substr(0, 40)) {
    lower += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  for (const std::string_view name : names) {
    std::string plain(name);
    plain.erase(std::remove(plain.begin(), plain.end(), '_'), plain.end());
    if (lower == name || lower == plain) return std::string(name);
  }
  return "";
}

struct Choice {
  std::string algorithm, protocol;
};

// One measurement of a row: out of place or in place. Without a time: "N/A".
struct Column {
  double us = 0, algbw = 0, busbw = 0;
  bool is_wrong = false;
};

struct Row {
  Place place;
  std::int64_t bytes = 0;
  std::string redop;
  std::int64_t root = -1;
  std::vector<Column> columns;
};

bool IsNotAvailable(std::string_view word) { return word == "N/A" || word == "n/a"; }

// time, algbw, busbw, error.
std::optional<Column> ParseColumn(const Words& words, std::size_t at) {
  Column column;
  const std::array<double*, 3> values = {&column.us, &column.algbw, &column.busbw};
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (IsNotAvailable(words[at + i])) return Column{};
    const auto number = NumberIn(words[at + i]);
    if (!number || *number < 0) return std::nullopt;
    *values[i] = *number;
  }
  const std::string_view error = words[at + 3];
  const auto number = NumberIn(error);
  if (!number && !IsNotAvailable(error)) return std::nullopt;
  // "#wrong" counts elements, "error" is the largest difference.
  const bool is_count = CountIn(error).has_value();
  constexpr double kMostError = 1e-2;
  column.is_wrong = number && (is_count ? *number > 0 : *number > kMostError);
  return column;
}

// size count type [redop] [root], then four numbers once or twice.
std::optional<Row> ParseRow(const Words& words) {
  constexpr std::size_t kColumn = 4;
  if (words.size() < 3 + kColumn) return std::nullopt;
  const auto bytes = CountIn(words[0]), count = CountIn(words[1]);
  if (!bytes || !count || NumberIn(words[2])) return std::nullopt;
  Row row;
  row.bytes = *bytes;
  std::size_t at = 3;
  if (!NumberIn(words[at]) && !IsNotAvailable(words[at])) row.redop = words[at++];
  const std::size_t left = words.size() - at;
  if (left % kColumn == 1) {
    const auto root = NumberIn(words[at++]);
    if (!root) return std::nullopt;
    row.root = static_cast<std::int64_t>(*root);
  } else if (left % kColumn != 0) {
    return std::nullopt;
  }
  if (words.size() - at > 2 * kColumn) return std::nullopt;
  for (; at < words.size(); at += kColumn) {
    const auto column = ParseColumn(words, at);
    if (!column) return std::nullopt;
    row.columns.push_back(*column);
  }
  return row;
}

// The beginning of a row that another line cut in two.
bool BeginsARow(const Words& words) {
  return words.size() >= 3 && CountIn(words[0]) && CountIn(words[1]) && !NumberIn(words[2]) &&
         words[2].find_first_of(":[]()#") == std::string_view::npos;
}
bool IsContinuation(const Words& words) {
  return !words.empty() && std::all_of(words.begin(), words.end(), [](std::string_view word) {
    return NumberIn(word) || IsNotAvailable(word);
  });
}

class LogReader {
 public:
  LogReader(std::string_view text, const std::string& file, const NcclLogDefaults& defaults)
      : text_(text), file_(file), defaults_(defaults) {}

  Measurements Read() {
    if (text_.size() > LogLimits::kMostBytes) {
      throw ConfigError(Place{file_, 0, 0},
                        fmt::format("found more than {} bytes", LogLimits::kMostBytes));
    }
    while (!text_.empty()) {
      ++line_;
      ReadLine(NextLine(text_));
    }
    FinishTable();
    if (tables_ == 0 && problems_.empty()) {
      problems_.push_back({Place{file_, 0, 0},
                           "found no table of nccl-tests, allowed: its output with the lines "
                           "'size count type redop time algbw busbw ...'"});
    }
    if (!problems_.empty()) throw ConfigError(std::move(problems_));
    if (wrong_ > 0) Note(fmt::format("{} measurements with wrong results left out", wrong_));
    all_.about.files = {file_};
    for (const std::string& device : devices_) {
      all_.about.device += (all_.about.device.empty() ? "" : ", ") + device;
    }
    return std::move(all_);
  }

 private:
  void Note(const std::string& text) { all_.notes.push_back(fmt::format("{}: {}", file_, text)); }

  void ReadLine(const std::string& raw) {
    std::string_view line = raw;
    // A line of NCCL may begin in the middle of a row: "1024 256 float sum -1host:12:34 [0] NCCL".
    const std::size_t nccl = line.find("NCCL INFO");
    if (nccl != std::string_view::npos) {
      ReadNccl(line.substr(nccl));
      line = line.substr(0, std::min(line.rfind(" -1", nccl) == std::string_view::npos
                                         ? 0
                                         : line.rfind(" -1", nccl) + 3,
                                     nccl));
    }
    FindVersion(raw);
    line = WithoutPrefix(line);
    if (line.empty()) return;
    FindProgram(line);
    if (line[0] == '#') {
      line.remove_prefix(1);
      ReadComment(line);
      return;
    }
    const Words words = WordsIn(line);
    // Some pastes lose the '#'.
    if (words[0] == "Rank" || words[0] == "nThread" || words[0] == "Using") {
      ReadComment(line);
      return;
    }
    ReadWords(words);
  }

  void ReadWords(const Words& words) {
    if (const auto row = ParseRow(words)) {
      Add(*row);
      pending_.clear();
      return;
    }
    if (BeginsARow(words)) {
      pending_.assign(words.begin(), words.end());
      return;
    }
    if (pending_.empty() || !IsContinuation(words)) return;
    pending_.insert(pending_.end(), words.begin(), words.end());
    if (pending_.size() > 16) return pending_.clear();
    if (const auto row = ParseRow(Words(pending_.begin(), pending_.end()))) {
      // A row without its second half looks complete too: wait for what follows.
      if (row->columns.size() < 2) return;
      Add(*row);
      pending_.clear();
    }
  }

  // "NCCL INFO AllReduce: 1024 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..1}".
  void ReadNccl(std::string_view line) {
    constexpr std::string_view kArrow = " Bytes -> Algo ";
    const std::size_t arrow = line.find(kArrow);
    if (arrow != std::string_view::npos) {
      const Words before = WordsIn(line.substr(0, arrow));
      const auto bytes = before.empty() ? std::nullopt : CountIn(before.back());
      const std::string algorithm = NameOf(WordAfter(line, kArrow), kAlgorithms);
      const std::string protocol = NameOf(WordAfter(line, " proto "), kProtocols);
      if (bytes && !algorithm.empty() && !protocol.empty() && choices_.size() < 10'000) {
        choices_[*bytes] = {algorithm, protocol};
      }
    }
    if (line.find("coll channels") != std::string_view::npos && channels_.empty()) {
      const Words words = WordsIn(line);
      for (std::size_t i = 1; i + 1 < words.size(); ++i) {
        if (words[i] != "coll" || !CountIn(words[i - 1])) continue;
        channels_ = std::string(words[i - 1]);
        Note(fmt::format("NCCL used {} channels", channels_));
        break;
      }
    }
  }

  // "NCCL version 2.28.9+cuda13.0", "nccl-library=22809".
  void FindVersion(std::string_view line) {
    std::string version;
    if (const std::string_view word = WordAfter(line, "NCCL version "); !word.empty()) {
      version = std::string(word.substr(0, word.find('+')));
    } else if (const auto code = CountIn(WordAfter(line, "nccl-library="))) {
      version = fmt::format("{}.{}.{}", *code / 10'000, *code / 100 % 100, *code % 100);
    }
    if (version.empty() || version.size() > 20 || version[0] < '0' || version[0] > '9') return;
    const std::string library = "nccl " + version;
    auto& libraries = all_.about.libraries;
    if (std::find(libraries.begin(), libraries.end(), library) == libraries.end() &&
        libraries.size() < 8) {
      libraries.push_back(library);
    }
  }

  // "all_reduce_perf" in a command line, or where new versions say which test starts.
  void FindProgram(std::string_view line) {
    constexpr std::string_view kEnd = "_perf";
    const std::size_t found = line.find(kEnd);
    if (found == std::string_view::npos) return;
    std::size_t begin = found;
    while (begin > 0 &&
           ((line[begin - 1] >= 'a' && line[begin - 1] <= 'z') || line[begin - 1] == '_')) {
      --begin;
    }
    const auto op = CollectiveNamed(line.substr(begin, found - begin));
    if (!op) return;
    const bool is_end = line.find("concluded") != std::string_view::npos;
    if (!is_end) {  // a new command
      FinishTable();
      has_devices_ended_ = true;
    }
    op_ = op;
    is_op_used_ = false;
    if (is_end) return FinishTable();
    if (all_.about.command.empty() && line[0] != '#') all_.about.command = line.substr(0, 400);
  }

  void ReadComment(std::string_view line) {
    const Words words = WordsIn(line);
    if (words.empty()) return;
    if (words[0] == "nThread") {
      FinishTable();
      has_devices_ended_ = true;
      if (is_op_used_) op_.reset();
      const auto threads = NumberAfter(line, "nThread "), gpus = NumberAfter(line, "nGpus ");
      own_gpus_ =
          static_cast<std::int64_t>(std::min(threads.value_or(1) * gpus.value_or(1), 4096.0));
    }
    if (words[0] == "Rank" && words.size() > 1) AddDevice(line, words);
    if (words[0] == "size" && words.size() > 4) {
      FinishTable();  // one collective may follow the other without a new list of devices
    }
  }

  // "Rank  0 Group  0 Pid  1887 on worker-1 device  0 [0x8d] NVIDIA H100 80GB HBM3".
  void AddDevice(std::string_view line, const Words& words) {
    const auto rank = CountIn(words[1]);
    const auto on = std::find(words.begin(), words.end(), "on");
    if (!rank || on == words.end() || std::next(on) == words.end()) return;
    if (has_devices_ended_) {
      ranks_.clear();
      hosts_.clear();
      has_devices_ended_ = false;
      is_doubled_ = false;
    }
    if (!ranks_.insert(*rank).second) is_doubled_ = true;
    hosts_.insert(std::string(*std::next(on)));
    const std::size_t bracket = line.find(']');
    if (bracket == std::string_view::npos || devices_.size() >= 8) return;
    std::string_view name = line.substr(bracket + 1);
    while (!name.empty() && name.front() == ' ') name.remove_prefix(1);
    if (!name.empty()) devices_.insert(std::string(name.substr(0, 80)));
  }

  void Add(const Row& row) {
    rows_.push_back(row);
    rows_.back().place = {file_, line_, 1};
  }

  std::int64_t Ranks() const {
    // A list of an earlier program says nothing where this one says how many GPUs it has.
    if (has_devices_ended_ && own_gpus_ > 1) return own_gpus_;
    if (ranks_.size() > 1) return static_cast<std::int64_t>(ranks_.size());
    if (defaults_.ranks > 0) return defaults_.ranks;
    return static_cast<std::int64_t>(ranks_.size());
  }

  void FinishTable() {
    pending_.clear();
    if (rows_.empty()) {
      choices_.clear();
      return;
    }
    ++tables_;
    is_op_used_ = true;
    std::vector<Row> rows = std::move(rows_);
    rows_.clear();
    const std::map<std::int64_t, Choice> choices = std::move(choices_);
    choices_.clear();
    if (problems_.size() >= kMostProblems) return;
    const std::int64_t ranks = Ranks();
    if (ranks == 1 && (is_doubled_ || defaults_.ranks == 0)) {
      Note(fmt::format(
          "line {}: a table of one GPU left out{}", rows.front().place.line,
          is_doubled_ ? ": nccl-tests was built without MPI=1, each process ran alone" : ""));
      return;
    }
    if (ranks < 1) {
      problems_.push_back({rows.front().place,
                           "found a table without its 'Rank ... on HOST' lines, allowed: with "
                           "them, or --ranks N"});
      return;
    }
    const std::int64_t nodes = !hosts_.empty() ? static_cast<std::int64_t>(hosts_.size())
                                               : std::max<std::int64_t>(defaults_.nodes, 1);
    if (nodes > ranks) {
      problems_.push_back(
          {rows.front().place,
           fmt::format("found {} ranks on {} nodes, allowed: at least one a node", ranks, nodes)});
      return;
    }
    const std::optional<CollectiveOp> op = OpOf(rows, ranks);
    if (!op) {
      problems_.push_back({rows.front().place,
                           "found a table without the name of its program, allowed: with a line "
                           "that has it ('all_reduce_perf'), or --op NAME"});
      return;
    }
    for (const Row& row : rows) AddCalls(row, *op, ranks, nodes, choices);
  }

  // By name; else by the bandwidths: busbw / algbw is 2 (n-1)/n for all_reduce alone.
  std::optional<CollectiveOp> OpOf(const std::vector<Row>& rows, std::int64_t ranks) const {
    if (op_) return op_;
    if (defaults_.op) return defaults_.op;
    for (const Row& row : rows) {
      if (row.columns.empty() || row.columns[0].algbw < 1) continue;
      const double factor = row.columns[0].busbw / row.columns[0].algbw;
      const auto is = [&](CollectiveOp op) {
        return std::abs(factor / BusFactor(op, ranks) - 1) < 0.02;
      };
      const bool sums = row.redop == "sum";
      if (sums && row.root < 0 && is(CollectiveOp::kAllReduce)) return CollectiveOp::kAllReduce;
      if (sums && row.root < 0 && is(CollectiveOp::kReduceScatter)) {
        return CollectiveOp::kReduceScatter;
      }
      if (sums && row.root >= 0) return CollectiveOp::kReduce;
      break;
    }
    return std::nullopt;
  }

  void AddCalls(const Row& row, CollectiveOp op, std::int64_t ranks, std::int64_t nodes,
                const std::map<std::int64_t, Choice>& choices) {
    constexpr double kMostUs = 1e10;
    for (std::size_t i = 0; i < row.columns.size(); ++i) {
      const Column& column = row.columns[i];
      if (column.us <= 0 || column.us > kMostUs || row.bytes <= 0) continue;
      if (column.is_wrong) {
        ++wrong_;
        continue;
      }
      MeasuredCall call;
      call.op = op;
      call.bytes = row.bytes;
      call.ranks = ranks;
      call.nodes = nodes;
      call.in_place = i == 1;
      call.time.seconds = column.us * 1e-6;
      // NCCL counts what one rank gives to a gather.
      auto choice = choices.find(row.bytes);
      if (choice == choices.end()) choice = choices.find(row.bytes / ranks);
      if (choice != choices.end()) {
        call.algorithm = choice->second.algorithm;
        call.protocol = choice->second.protocol;
      }
      all_.collectives.push_back(std::move(call));
    }
  }

  std::string_view text_;
  const std::string& file_;
  const NcclLogDefaults& defaults_;
  Measurements all_;
  int line_ = 0;
  int tables_ = 0;
  int wrong_ = 0;
  std::optional<CollectiveOp> op_;
  bool is_op_used_ = false;    // by a table: the next program may be another
  std::int64_t own_gpus_ = 0;  // of one process
  std::set<std::int64_t> ranks_;
  std::set<std::string> hosts_, devices_;
  bool has_devices_ended_ = false;  // the next Rank line begins a new list
  bool is_doubled_ = false;
  std::string channels_;
  std::map<std::int64_t, Choice> choices_;  // by bytes
  std::vector<Row> rows_;
  std::vector<std::string> pending_;  // words of a row that was cut in two
  std::vector<Diagnostic> problems_;
};

}  // namespace

Measurements ReadNcclLog(std::string_view text, const std::string& file_name,
                         const NcclLogDefaults& defaults) {
  return LogReader(text, file_name, defaults).Read();
}

}  // namespace stepsim
