#include "tools/stepsim/result_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <ostream>

#include "sim/base/diagnostics.h"
#include "sim/report/writer.h"

namespace stepsim {
namespace {

using Json = nlohmann::ordered_json;

std::string Quoted(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

struct CsvCell {
  std::string operator()(const std::string& text) const { return Quoted(text); }
  std::string operator()(std::int64_t number) const { return fmt::format("{}", number); }
  std::string operator()(double number) const { return fmt::format("{}", number); }
  std::string operator()(bool claim) const { return claim ? "true" : "false"; }
};

Json JsonCell(const Cell& cell) {
  return std::visit([](const auto& value) { return Json(value); }, cell);
}

struct FormatRow {
  std::string_view suffix;
  TableFormat format;
};
constexpr std::array kFormats = {
    FormatRow{".csv", TableFormat::kCsv},
    FormatRow{".json", TableFormat::kJson},
};

}  // namespace

std::string TableCsv(const ResultTable& table) {
  std::string text = fmt::format("{}\n", fmt::join(table.columns, ","));
  for (const std::vector<Cell>& row : table.rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      text += (i == 0 ? "" : ",") + std::visit(CsvCell{}, row[i]);
    }
    text += '\n';
  }
  return text;
}

std::string TableJson(const ResultTable& table, std::string_view schema,
                      const std::vector<std::pair<std::string, Cell>>& facts) {
  Json root;
  root["schema"] = schema;
  for (const auto& [key, value] : facts) root[key] = JsonCell(value);
  root["rows"] = Json::array();
  for (const std::vector<Cell>& row : table.rows) {
    Json object;
    for (std::size_t i = 0; i < row.size(); ++i) object[table.columns[i]] = JsonCell(row[i]);
    root["rows"].push_back(std::move(object));
  }
  return root.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string AlignedText(const std::vector<std::vector<std::string>>& rows,
                        std::size_t header_rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::string line(1, r < header_rows ? '#' : ' ');
    for (std::size_t i = 0; i < rows[r].size(); ++i) {
      line += fmt::format("{}{:>{}}", i == 0 ? " " : "  ", rows[r][i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

std::string NamedRowsText(std::vector<std::vector<std::string>> rows, std::size_t header_rows) {
  std::size_t width = 0;
  for (const auto& row : rows) width = std::max(width, row.front().size());
  for (auto& row : rows) row.front().resize(width, ' ');
  return AlignedText(rows, header_rows);
}

std::string DeltaText(double then, double now) {
  return now > 0 ? fmt::format("{:+.1f}%", (then / now - 1) * 100) : "-";
}

bool IsStandardOutput(std::string_view path) {
  return path == "-" ||
         (path.size() > 2 && path.substr(0, 2) == "-." && path.find('/') == std::string_view::npos);
}

std::vector<TableTarget> ParseTableTargets(const std::vector<std::string>& paths) {
  std::vector<TableTarget> targets;
  Diagnostics diagnostics;
  for (const std::string& path : paths) {
    const std::string_view name = path == "-" ? "-.json" : std::string_view(path);
    const auto row = std::find_if(kFormats.begin(), kFormats.end(), [&](const FormatRow& format) {
      return name.ends_with(format.suffix);
    });
    if (row == kFormats.end()) {
      diagnostics.Add({"--export " + path, 0, 0},
                      "found another ending, allowed: .csv, .json, and - for standard output");
      continue;
    }
    targets.push_back({IsStandardOutput(path) ? "-" : path, row->format});
  }
  diagnostics.ThrowIfAny();
  return targets;
}

bool UsesStandardOutput(const std::vector<TableTarget>& targets) {
  return std::any_of(targets.begin(), targets.end(),
                     [](const TableTarget& t) { return t.path == "-"; });
}

void WriteTable(const ResultTable& table, std::string_view schema,
                const std::vector<std::pair<std::string, Cell>>& facts,
                const std::vector<TableTarget>& targets, std::ostream& out, std::ostream* notes) {
  for (const TableTarget& target : targets) {
    const std::string content =
        target.format == TableFormat::kCsv ? TableCsv(table) : TableJson(table, schema, facts);
    if (target.path == "-") {
      out << content;
      continue;
    }
    WriteFileAtomically(target.path, content);
    if (notes != nullptr) *notes << fmt::format("wrote {}\n", target.path);
  }
}

}  // namespace stepsim
