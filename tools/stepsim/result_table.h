// How does a table leave a command? As text for people, as CSV or JSON for programs.
//
//   ResultTable table{{"size_bytes", "time_us"}};
//   table.rows.push_back({std::int64_t{1024}, 21.3});
//   TableCsv(table)  -> "size_bytes,time_us\n1024,21.3\n"
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace stepsim {

using Cell = std::variant<std::string, std::int64_t, double, bool>;

struct ResultTable {
  std::vector<std::string> columns;       // keys, with their unit: "time_us"
  std::vector<std::vector<Cell>> rows{};  // as long as `columns` each
};

// Numbers are the shortest texts that read back as the same; texts are quoted where they must be.
std::string TableCsv(const ResultTable& table);

// {"schema": schema, <facts>, "rows": [{"size_bytes": 1024, ...}, ...]}
std::string TableJson(const ResultTable& table, std::string_view schema,
                      const std::vector<std::pair<std::string, Cell>>& facts);

// Columns as wide as their widest cell, right-aligned; the first `header_rows` rows start with '#'.
std::string AlignedText(const std::vector<std::vector<std::string>>& rows, std::size_t header_rows);

// The same, with names in the first column: they begin in one column, the others end in one.
std::string NamedRowsText(std::vector<std::vector<std::string>> rows, std::size_t header_rows);

// "+3.4%" of `now`; "-" when that is 0.
std::string DeltaText(double then, double now);

// ---- Where it goes ----

// "-" and "-.csv": standard output, in the given format; "-" alone is JSON.
bool IsStandardOutput(std::string_view path);

enum class TableFormat { kCsv, kJson };
struct TableTarget {
  std::string path;  // "-": standard output
  TableFormat format = TableFormat::kJson;
};
// Throws ConfigError for a file name that ends in neither .csv nor .json.
std::vector<TableTarget> ParseTableTargets(const std::vector<std::string>& paths);

// Standard output is for one reader: what people read makes way for an exported table.
bool UsesStandardOutput(const std::vector<TableTarget>& targets);

// Writes the table to every target; what goes to standard output goes to `out`. `notes`, if any, is
// told which files were written.
void WriteTable(const ResultTable& table, std::string_view schema,
                const std::vector<std::pair<std::string, Cell>>& facts,
                const std::vector<TableTarget>& targets, std::ostream& out,
                std::ostream* notes = nullptr);

}  // namespace stepsim
