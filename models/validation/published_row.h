// What does one published training step say? The cells of a row by column name, whatever the order
// of the columns, and which columns of the table nobody reads.
//
//   const PublishedTable table(ParseCsv(text, "measured.csv"));
//   table.Row(0).Text("gpu")            // "A100-80GB", "" where the table lacks the column
//   table.unknown_columns()             // {"weather"}
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/calibration/csv_table.h"

namespace stepsim {

struct PublishedColumn {
  std::string_view name;
  std::string_view doc;
};
// Every column that is read, in the order of documentation.
std::span<const PublishedColumn> PublishedColumns();

class PublishedTable;

class PublishedRow {
 public:
  PublishedRow(const PublishedTable& table, std::size_t row) : table_(&table), row_(row) {}
  // Without blanks at both ends. REQUIRES: `column` is one of PublishedColumns().
  std::string_view Text(std::string_view column) const;
  bool IsFilled(std::string_view column) const { return !Text(column).empty(); }
  // nullopt where the cell is empty or no such number; `Text` tells which.
  std::optional<std::int64_t> Integer(std::string_view column) const;  // >= 1
  std::optional<double> Number(std::string_view column) const;         // > 0

  std::string_view id() const { return Text("row_id"); }
  std::string_view source() const { return Text("source"); }
  std::size_t index() const { return row_; }

 private:
  const PublishedTable* table_;
  std::size_t row_;
};

class PublishedTable {
 public:
  // Throws ConfigError where the table has none of the columns that say what was run and how long
  // it took: row_id, n_gpus.
  explicit PublishedTable(CsvTable table);
  std::size_t rows() const { return table_.rows(); }
  PublishedRow Row(std::size_t row) const { return {*this, row}; }
  const std::vector<std::string>& unknown_columns() const { return unknown_; }
  const CsvTable& table() const { return table_; }

 private:
  friend class PublishedRow;
  std::optional<std::size_t> Find(std::string_view column) const;

  CsvTable table_;
  std::map<std::string, std::size_t, std::less<>> columns_;
  std::vector<std::string> unknown_;
};

}  // namespace stepsim
