#include "models/calibration/benchmark_csv.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "models/calibration/collective_names.h"
#include "models/calibration/csv_table.h"
#include "models/calibration/log_lines.h"
#include "sim/base/diagnostics.h"

namespace stepsim {
namespace {

constexpr double kMostSeconds = 86'400;
constexpr std::int64_t kMost = std::int64_t{1} << 50;

// What a column holds: small letters and digits of its name.
enum class Holds { kOp, kBytes, kRanks, kNodes, kRepeats, kKind, kM, kN, kK, kType, kRate };
struct ColumnName {
  std::string_view name;
  Holds holds;
};
constexpr std::array kColumns = {
    ColumnName{"op", Holds::kOp},
    ColumnName{"collective", Holds::kOp},
    ColumnName{"bytes", Holds::kBytes},
    ColumnName{"size", Holds::kBytes},
    ColumnName{"sizebytes", Holds::kBytes},
    ColumnName{"messagesize", Holds::kBytes},
    ColumnName{"ranks", Holds::kRanks},
    ColumnName{"world", Holds::kRanks},
    ColumnName{"worldsize", Holds::kRanks},
    ColumnName{"nprocs", Holds::kRanks},
    ColumnName{"nodes", Holds::kNodes},
    ColumnName{"reps", Holds::kRepeats},
    ColumnName{"repeats", Holds::kRepeats},
    ColumnName{"iterations", Holds::kRepeats},
    ColumnName{"kind", Holds::kKind},
    ColumnName{"m", Holds::kM},
    ColumnName{"n", Holds::kN},
    ColumnName{"k", Holds::kK},
    ColumnName{"dtype", Holds::kType},
    ColumnName{"dtypein", Holds::kType},
    ColumnName{"type", Holds::kType},
    ColumnName{"precision", Holds::kType},
    ColumnName{"tflops", Holds::kRate},
    ColumnName{"tflopss", Holds::kRate},
};

// "median_us" is a median in microseconds. The first statistic of the table that is there counts.
constexpr std::array<std::string_view, 9> kTimes = {"median",  "time",     "avg",     "mean", "t",
                                                    "latency", "duration", "seconds", "min"};
struct TimeUnit {
  std::string_view suffix;
  double seconds;
};
constexpr std::array kTimeUnits = {TimeUnit{"us", 1e-6}, TimeUnit{"ms", 1e-3}, TimeUnit{"ns", 1e-9},
                                   TimeUnit{"s", 1}, TimeUnit{"", 1}};

// How names of benchmarks count bytes and time.
struct Counting {
  std::string_view suffix;  // of the name
  bool is_per_rank;         // bytes of one rank's part of a gather or scatter
  double calls;             // transfers within one time
};
constexpr std::array kCountings = {Counting{"_total", false, 1}, Counting{"_each", true, 1},
                                   Counting{"_round_trip", false, 2},
                                   Counting{"_both_ways", false, 2}};

std::string Plain(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (c >= 'A' && c <= 'Z') plain += static_cast<char>(c - 'A' + 'a');
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) plain += c;
  }
  return plain;
}

std::string FindColumn(const CsvTable& table, Holds holds) {
  for (const ColumnName& row : kColumns) {
    if (row.holds != holds) continue;
    for (const std::string& column : table.columns()) {
      if (Plain(column) == row.name) return column;
    }
  }
  return "";
}

struct TimeColumn {
  std::string name;
  double seconds = 1;  // of its unit
};
TimeColumn FindTime(const CsvTable& table, std::initializer_list<std::string_view> statistics) {
  for (const std::string_view statistic : statistics) {
    for (const TimeUnit& unit : kTimeUnits) {
      if (unit.suffix.empty() && statistic != "seconds") continue;  // no unit is no time
      for (const std::string& column : table.columns()) {
        if (Plain(column) == std::string(statistic) + std::string(unit.suffix)) {
          return {column, unit.seconds};
        }
      }
    }
  }
  return {};
}
TimeColumn FindTime(const CsvTable& table) {
  for (const std::string_view statistic : kTimes) {
    TimeColumn found = FindTime(table, {statistic});
    if (!found.name.empty()) return found;
  }
  return {};
}

// Tables behind each other: a line that begins like the first header begins another one. Each keeps
// its place in the file by the empty lines before it.
std::vector<std::string> SplitTables(std::string_view text) {
  std::vector<std::string> tables;
  std::string first;
  int line_number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(text.size(), end + 1));
    const bool is_content =
        line.find_first_not_of(" \t\r") != std::string_view::npos && line[0] != '#';
    const std::string begin(line.substr(0, std::min(line.find(','), line.size())));
    const bool has_comma = line.find(',') != std::string_view::npos;
    const bool is_header = is_content && has_comma && (first.empty() || begin == first);
    if (is_header && tables.size() < 64) {
      first = begin;
      tables.emplace_back(static_cast<std::size_t>(line_number), '\n');
    }
    if (!tables.empty()) {
      tables.back().append(line);
      tables.back() += '\n';
    }
    ++line_number;
  }
  return tables;
}

class TableReader {
 public:
  TableReader(const CsvTable& table, const CsvSelection& selection)
      : table_(table), selection_(selection), reader_(table, {}) {}

  std::vector<std::size_t> Rows() {
    std::vector<std::size_t> rows;
    for (std::size_t row = 0; row < table_.rows(); ++row) {
      const bool is_wanted = std::all_of(
          selection_.where.begin(), selection_.where.end(),
          [&](const CsvSelection::Where& w) { return reader_.Text(row, w.column) == w.value; });
      if (is_wanted) rows.push_back(row);
    }
    return rows;
  }

  // More than one system in one table would be fitted as one.
  void CheckOneSystem(const std::vector<std::size_t>& rows) {
    for (const std::string_view column : {"link", "label", "system", "system_id", "gpu"}) {
      std::set<std::string_view> values;
      for (const std::size_t row : rows) values.insert(reader_.Text(row, column));
      if (values.size() < 2) continue;
      const std::string_view example = *std::next(values.begin());
      reader_.Report(rows.front(), column,
                     fmt::format("found {} systems, allowed: one; for example --where {}={}",
                                 values.size(), column, example.substr(0, 60)));
    }
  }

  std::int64_t Count(std::size_t row, const std::string& column) {
    const auto count = reader_.PositiveInteger(row, column);
    if (!count) return 1;
    if (*count > kMost)
      reader_.Report(row, column, fmt::format("found {}, allowed: at most {}", *count, kMost));
    return std::min(*count, kMost);
  }

  double Seconds(std::size_t row, const TimeColumn& column) {
    const auto number = reader_.Positive(row, column.name);
    const double seconds = number.value_or(1) * column.seconds;
    if (seconds < kMostSeconds) return seconds;
    reader_.Report(row, column.name, "found more than a day");
    return 1;
  }

  CsvReader& reader() { return reader_; }

 private:
  const CsvTable& table_;
  const CsvSelection& selection_;
  CsvReader reader_;
};

void CheckSelection(const CsvTable& table, const CsvSelection& selection) {
  for (const CsvSelection::Where& where : selection.where) {
    const auto& columns = table.columns();
    if (std::find(columns.begin(), columns.end(), where.column) != columns.end()) continue;
    throw ConfigError(Place{table.file(), 1, 1},
                      fmt::format("--where {}={}: found no such column, allowed: {}", where.column,
                                  where.value, fmt::join(columns, ", ")));
  }
}

class CollectiveTable {
 public:
  CollectiveTable(const CsvTable& table, const CsvSelection& selection)
      : table_(table), selection_(selection), rows_(table, selection) {}

  bool IsOne() const {
    return !FindColumn(table_, Holds::kOp).empty() && !FindColumn(table_, Holds::kBytes).empty() &&
           !FindColumn(table_, Holds::kRanks).empty() && !FindTime(table_).name.empty();
  }

  void Read(Measurements& all) {
    CheckSelection(table_, selection_);
    const std::vector<std::size_t> rows = rows_.Rows();
    rows_.CheckOneSystem(rows);
    for (const std::size_t row : rows) ReadRow(row, all);
    rows_.reader().ThrowIfAny();
    for (const auto& [name, count] : unknown_) {
      all.notes.push_back(fmt::format("{}: {} rows left out, {}", table_.file(), count,
                                      UnknownCollective("op", name)));
    }
  }

 private:
  void ReadRow(std::size_t row, Measurements& all) {
    CsvReader& reader = rows_.reader();
    const std::string op_column = FindColumn(table_, Holds::kOp);
    std::string name(reader.Text(row, op_column));
    Counting counting{"", false, 1};
    for (const Counting& way : kCountings) {
      const bool ends = name.size() > way.suffix.size() && name.ends_with(way.suffix);
      if (!ends) continue;
      counting = way;
      name.resize(name.size() - way.suffix.size());
    }
    MeasuredCall call;
    if (name == "pingpong" || name == "send") {
      call.op = CollectiveOp::kSendRecv;
    } else if (const auto op = CollectiveNamed(name)) {
      call.op = *op;
    } else {
      if (unknown_.size() < 20 || unknown_.count(name) > 0) ++unknown_[name];
      return;
    }
    call.ranks = rows_.Count(row, FindColumn(table_, Holds::kRanks));
    call.bytes = rows_.Count(row, FindColumn(table_, Holds::kBytes));
    if (counting.is_per_rank && call.bytes < kMost / std::max<std::int64_t>(call.ranks, 1)) {
      call.bytes *= call.ranks;
    }
    const std::string nodes = FindColumn(table_, Holds::kNodes);
    call.nodes = nodes.empty() ? selection_.nodes : rows_.Count(row, nodes);
    call.backend = selection_.backend;
    call.time = TimeOf(row, counting.calls);
    if (call.ranks > 1) all.collectives.push_back(std::move(call));
  }

  Timing TimeOf(std::size_t row, double calls) {
    Timing time;
    time.seconds = rows_.Seconds(row, FindTime(table_)) / calls;
    const std::string repeats = FindColumn(table_, Holds::kRepeats);
    if (!repeats.empty()) time.repeats = rows_.Count(row, repeats);
    const TimeColumn p10 = FindTime(table_, {"p10"}), p90 = FindTime(table_, {"p90"});
    if (!p10.name.empty()) time.p10 = rows_.Seconds(row, p10) / calls;
    if (!p90.name.empty()) time.p90 = rows_.Seconds(row, p90) / calls;
    return time;
  }

  const CsvTable& table_;
  const CsvSelection& selection_;
  TableReader rows_;
  std::map<std::string, int> unknown_;
};

}  // namespace

Measurements ReadCollectiveCsv(std::string_view text, const std::string& file_name,
                               const CsvSelection& selection) {
  Measurements all;
  int read = 0;
  for (const std::string& part : SplitTables(text)) {
    const CsvTable table = ParseCsv(part, file_name);
    CollectiveTable reader(table, selection);
    if (!reader.IsOne()) {
      all.notes.push_back(
          fmt::format("{}: a table with {} left out", file_name, fmt::join(table.columns(), ", ")));
      continue;
    }
    reader.Read(all);
    ++read;
  }
  if (read == 0) {
    throw ConfigError(Place{file_name, 0, 0},
                      "found no table with op, bytes, ranks (or world) and a time such as "
                      "median_us");
  }
  all.about.files = {file_name};
  return all;
}

Measurements ReadGemmCsv(std::string_view text, const std::string& file_name,
                         const CsvSelection& selection) {
  const CsvTable table = ParseCsv(text, file_name);
  CheckSelection(table, selection);
  const std::string rate = FindColumn(table, Holds::kRate);
  const TimeColumn time = FindTime(table);
  std::vector<std::string> missing;
  const std::array<std::pair<Holds, const char*>, 4> needed = {
      std::pair{Holds::kM, "m"}, {Holds::kN, "n"}, {Holds::kK, "k"}, {Holds::kType, "dtype"}};
  for (const auto& [holds, name] : needed) {
    if (FindColumn(table, holds).empty()) missing.emplace_back(name);
  }
  if (rate.empty() && time.name.empty()) missing.emplace_back("time_us (or _ms, _s) or tflops");
  if (!missing.empty()) {
    throw ConfigError(Place{file_name, 1, 1},
                      fmt::format("found {}, missing: {}", fmt::join(table.columns(), ", "),
                                  fmt::join(missing, ", ")));
  }
  Measurements all;
  TableReader rows(table, selection);
  const std::vector<std::size_t> wanted = rows.Rows();
  rows.CheckOneSystem(wanted);
  for (const std::size_t row : wanted) {
    MeasuredGemm gemm;
    gemm.m = rows.Count(row, FindColumn(table, Holds::kM));
    gemm.n = rows.Count(row, FindColumn(table, Holds::kN));
    gemm.k = rows.Count(row, FindColumn(table, Holds::kK));
    const std::string type_column = FindColumn(table, Holds::kType);
    const std::string_view type = rows.reader().Text(row, type_column);
    const std::optional<DType> dtype = type.substr(0, 3) == "fp8" ? DType::kFp8 : ParseDType(type);
    if (!dtype) {
      rows.reader().Report(row, type_column,
                           fmt::format("found '{}', allowed: {}", type.substr(0, 40),
                                       fmt::join(DTypeNames(), ", ")));
    }
    gemm.dtype = dtype.value_or(DType::kBf16);
    const double flops = 2.0 * static_cast<double>(gemm.m) * static_cast<double>(gemm.n) *
                         static_cast<double>(gemm.k);
    gemm.time.seconds = time.name.empty()
                            ? flops / (rows.reader().Positive(row, rate).value_or(1) * 1e12)
                            : rows.Seconds(row, time);
    if (gemm.time.seconds > 0 && gemm.time.seconds < kMostSeconds) all.gemms.push_back(gemm);
  }
  rows.reader().ThrowIfAny();
  all.about.files = {file_name};
  return all;
}

}  // namespace stepsim
