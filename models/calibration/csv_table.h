// What stands in a table of measurements? Comma-separated values (RFC 4180) with a header line,
// kept with the place of every cell, so that whoever reads a value can say where it is wrong.
//
//   const CsvTable table = ParseCsv("size_bytes,time_us\n1024,12.5\n", "curve.csv");
//   CsvReader reader(table, {"size_bytes", "time_us"});   // throws when a column is missing
//   for (std::size_t row = 0; row < table.rows(); ++row) {
//     const auto time = reader.Positive(row, "time_us");  // nullopt, and a problem noted
//   }
//   reader.ThrowIfAny();
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/diagnostics.h"

namespace stepsim {

struct CsvLimits {
  std::size_t max_bytes = std::size_t{256} << 20;
  std::size_t max_columns = 256;
};

class CsvTable {
 public:
  std::size_t rows() const { return rows_.size(); }
  const std::vector<std::string>& columns() const { return columns_; }
  // REQUIRES: row < rows(), column < columns().size().
  const std::string& cell(std::size_t row, std::size_t column) const {
    return rows_[row].cells[column];
  }
  Place PlaceOf(std::size_t row, std::size_t column) const;
  const std::string& file() const { return file_; }

 private:
  friend class CsvParser;
  struct Row {
    int line = 0;
    std::vector<std::string> cells;
    std::vector<int> starts;  // column of the first character of each cell, from 1
  };
  std::string file_;
  std::vector<std::string> columns_;
  std::vector<Row> rows_;
};

// Empty lines are skipped, and so are lines that begin with '#' outside quotes. Every row has as
// many cells as the header. Throws ConfigError (every wrong row, up to a handful).
CsvTable ParseCsv(std::string_view text, const std::string& file_name, CsvLimits limits = {});

// Values of a table by column name; notes problems instead of throwing one by one.
class CsvReader {
 public:
  // Throws ConfigError when a column is missing: the message names the nearest one there is.
  CsvReader(const CsvTable& table, std::initializer_list<std::string_view> required);

  bool Has(std::string_view column) const { return Find(column).has_value(); }
  // The cell, "" where the table lacks the column.
  std::string_view Text(std::size_t row, std::string_view column) const;
  // nullopt, and a problem noted, where the cell is no plain finite number in the range.
  std::optional<double> Positive(std::size_t row, std::string_view column);
  std::optional<std::int64_t> PositiveInteger(std::size_t row, std::string_view column);

  void Report(std::size_t row, std::string_view column, const std::string& message);
  // Throws the noted problems, the first few of them and how many there are.
  void ThrowIfAny() const;

 private:
  std::optional<std::size_t> Find(std::string_view column) const;

  const CsvTable& table_;
  std::vector<Diagnostic> problems_;
};

}  // namespace stepsim
