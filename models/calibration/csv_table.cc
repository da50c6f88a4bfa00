#include "models/calibration/csv_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "sim/base/nearest.h"
#include "sim/base/units.h"

namespace stepsim {
namespace {

constexpr std::size_t kMostProblems = 20;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

std::string Quoted(std::string_view text) {
  constexpr std::size_t kLongest = 40;
  std::string shown;
  for (const char c : text.substr(0, kLongest)) {
    shown += static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? '?' : c;
  }
  return "'" + shown + (text.size() > kLongest ? "..." : "") + "'";
}

[[noreturn]] void ThrowFirst(std::vector<Diagnostic> problems) {
  const std::size_t count = problems.size();
  if (count > kMostProblems) {
    problems.resize(kMostProblems);
    problems.push_back({problems.back().place,
                        fmt::format("and {} more problems in this table", count - kMostProblems)});
  }
  throw ConfigError(std::move(problems));
}

}  // namespace

class CsvParser {
 public:
  CsvParser(std::string_view text, const std::string& file_name, CsvLimits limits)
      : text_(text), limits_(limits) {
    table_.file_ = file_name;
  }

  CsvTable Parse() {
    if (text_.size() > limits_.max_bytes) {
      throw ConfigError(Place{table_.file_, 0, 0},
                        fmt::format("found {}, allowed: at most {}",
                                    FormatBytes(static_cast<double>(text_.size())),
                                    FormatBytes(static_cast<double>(limits_.max_bytes))));
    }
    if (text_.substr(0, kByteOrderMark.size()) == kByteOrderMark) at_ = kByteOrderMark.size();
    while (at_ < text_.size()) ReadRecord();
    if (table_.columns_.empty()) {
      throw ConfigError(Place{table_.file_, 1, 1},
                        "found an empty table, allowed: a header line and rows");
    }
    if (!problems_.empty()) ThrowFirst(std::move(problems_));
    return std::move(table_);
  }

 private:
  void ReadRecord() {
    if (text_[at_] == '#') return SkipLine();
    CsvTable::Row row;
    row.line = line_;
    bool is_last = false;
    while (!is_last) is_last = ReadCell(row);
    if (row.cells.size() == 1 && row.cells.front().empty()) return;  // an empty line
    Keep(std::move(row));
  }

  void SkipLine() {
    at_ = std::min(text_.find('\n', at_), text_.size() - 1) + 1;
    NextLine();
  }

  void NextLine() {
    ++line_;
    line_begin_ = at_;
  }

  // Appends one cell; true when it was the last of its record.
  bool ReadCell(CsvTable::Row& row) {
    if (row.cells.size() == limits_.max_columns) {
      throw ConfigError(Here(), fmt::format("found more than {} cells in a row, allowed: {}",
                                            limits_.max_columns, limits_.max_columns));
    }
    row.starts.push_back(static_cast<int>(at_ - line_begin_) + 1);
    std::string cell;
    if (at_ < text_.size() && text_[at_] == '"') {
      cell = ReadQuoted();
    } else {
      const std::size_t end = std::min(text_.find_first_of(",\r\n", at_), text_.size());
      cell = text_.substr(at_, end - at_);
      at_ = end;
    }
    CheckText(cell);
    row.cells.push_back(std::move(cell));
    return EndCell();
  }

  std::string ReadQuoted() {
    const Place begin = Here();
    std::string cell;
    for (++at_; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '"') {
        const bool is_doubled = at_ + 1 < text_.size() && text_[at_ + 1] == '"';
        if (!is_doubled) return ++at_, cell;
        ++at_;
      }
      cell += c;
      if (c == '\n') {
        ++line_;
        line_begin_ = at_ + 1;
      }
    }
    throw ConfigError(begin, "found a quote that is never closed");
  }

  void CheckText(const std::string& cell) const {
    if (cell.find('\0') != std::string::npos) {
      throw ConfigError(Here(), "found a zero byte, allowed: text (is this a binary file?)");
    }
  }

  // Behind a cell: a comma, the end of the line or the end of the text.
  bool EndCell() {
    if (at_ == text_.size()) return true;
    if (text_[at_] == ',') return ++at_, false;
    if (text_[at_] == '\r') ++at_;
    if (at_ == text_.size()) return true;
    if (text_[at_] != '\n') {
      throw ConfigError(Here(), fmt::format("found {} behind a cell, allowed: a comma or the end "
                                            "of the line",
                                            Quoted(text_.substr(at_, 1))));
    }
    ++at_;
    NextLine();
    return true;
  }

  void Keep(CsvTable::Row row) {
    if (table_.columns_.empty()) return KeepHeader(std::move(row));
    if (row.cells.size() == table_.columns_.size()) {
      table_.rows_.push_back(std::move(row));
      return;
    }
    problems_.push_back({{table_.file_, row.line, 1},
                         fmt::format("found {} cells, allowed: {} as in the header",
                                     row.cells.size(), table_.columns_.size())});
  }

  void KeepHeader(CsvTable::Row row) {
    std::set<std::string_view> seen;
    for (std::size_t i = 0; i < row.cells.size(); ++i) {
      const Place place{table_.file_, row.line, row.starts[i]};
      if (row.cells[i].empty()) problems_.push_back({place, "found a column without a name"});
      if (!seen.insert(row.cells[i]).second) {
        problems_.push_back(
            {place, fmt::format("found the column {} a second time", Quoted(row.cells[i]))});
      }
    }
    table_.columns_ = std::move(row.cells);
  }

  Place Here() const { return {table_.file_, line_, static_cast<int>(at_ - line_begin_) + 1}; }

  std::string_view text_;
  CsvLimits limits_;
  CsvTable table_;
  std::vector<Diagnostic> problems_;
  std::size_t at_ = 0;
  std::size_t line_begin_ = 0;
  int line_ = 1;
};

Place CsvTable::PlaceOf(std::size_t row, std::size_t column) const {
  return {file_, rows_[row].line, rows_[row].starts[column]};
}

CsvTable ParseCsv(std::string_view text, const std::string& file_name, CsvLimits limits) {
  return CsvParser(text, file_name, limits).Parse();
}

CsvReader::CsvReader(const CsvTable& table, std::initializer_list<std::string_view> required)
    : table_(table) {
  std::vector<Diagnostic> missing;
  for (const std::string_view column : required) {
    if (Has(column)) continue;
    const std::string nearest = Nearest(column, table.columns());
    missing.push_back({{table.file(), 1, 1},
                       fmt::format("the column '{}' is missing, found: {}{}", column,
                                   fmt::join(table.columns(), ", "),
                                   nearest.empty() ? "" : fmt::format("; is it '{}'?", nearest))});
  }
  if (!missing.empty()) ThrowFirst(std::move(missing));
}

std::optional<std::size_t> CsvReader::Find(std::string_view column) const {
  const auto& columns = table_.columns();
  const auto found = std::find(columns.begin(), columns.end(), column);
  if (found == columns.end()) return std::nullopt;
  return static_cast<std::size_t>(found - columns.begin());
}

std::string_view CsvReader::Text(std::size_t row, std::string_view column) const {
  const auto index = Find(column);
  return index ? std::string_view(table_.cell(row, *index)) : std::string_view();
}

std::optional<double> CsvReader::Positive(std::size_t row, std::string_view column) {
  const std::string_view text = Text(row, column);
  const std::optional<double> number = ParseNumber(text);
  if (number && std::isfinite(*number) && *number > 0) return number;
  Report(row, column, fmt::format("found {}, allowed: a number above 0", Quoted(text)));
  return std::nullopt;
}

std::optional<std::int64_t> CsvReader::PositiveInteger(std::size_t row, std::string_view column) {
  const std::string_view text = Text(row, column);
  const std::optional<std::int64_t> number = ParseInteger(text);
  if (number && *number > 0) return number;
  Report(row, column, fmt::format("found {}, allowed: a whole number above 0", Quoted(text)));
  return std::nullopt;
}

void CsvReader::Report(std::size_t row, std::string_view column, const std::string& message) {
  const auto index = Find(column);
  problems_.push_back(
      {table_.PlaceOf(row, index.value_or(0)), fmt::format("{}: {}", column, message)});
}

void CsvReader::ThrowIfAny() const {
  if (!problems_.empty()) ThrowFirst(problems_);
}

}  // namespace stepsim
