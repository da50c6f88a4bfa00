#include "tools/sweep/sweep_export.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tools/sweep/json_text.h"

namespace stepsim {
namespace {

// Quoted where a comma, a quote or a line end is in it.
std::string CsvText(std::string_view text) {
  if (text.find_first_of(",\"\n\r") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

void WritePointsCsv(const SweepResults& results, const Curve&, const TextSink& sink) {
  const ResultHeader& header = results.header();
  std::string line = "index";
  for (const ResultHeader::Axis& axis : header.axes) line += "," + CsvText(axis.path);
  for (const std::string& metric : header.metrics) line += "," + metric;
  sink(line + ",warnings,filtered,error_kind,error\n");
  results.VisitRows([&](const ResultRow& row) {
    line = fmt::format("{}", row.index);
    for (const std::string& value : row.axes) line += "," + CsvText(value);
    for (std::size_t i = 0; i < header.metrics.size(); ++i) {
      line += ",";
      if (row.HasStep() && row.metrics[i]) line += JsonNumber(*row.metrics[i]);
    }
    line += "," + (row.HasStep() ? fmt::format("{}", row.warnings) : "");
    sink(fmt::format("{},{},{},{}\n", line, CsvText(row.filtered), row.error_kind,
                     CsvText(row.error_text)));
  });
}

void WritePointsJsonl(const SweepResults& results, const Curve&, const TextSink& sink) {
  sink(WriteHeader(results.header()));
  results.Visit([&](const std::string& line, const Place&) { sink(line + "\n"); });
}

// The header with all points in it.
void WritePointsJson(const SweepResults& results, const Curve&, const TextSink& sink) {
  std::string header = WriteHeader(results.header());
  header.resize(header.rfind('}'));
  sink(header + ",\"rows\":[");
  bool is_first = true;
  results.Visit([&](const std::string& line, const Place&) {
    sink((is_first ? "\n" : ",\n") + line);
    is_first = false;
  });
  sink("\n]}\n");
}

void WriteCurveMarkdown(const SweepResults& results, const Curve& curve, const TextSink& sink) {
  sink(fmt::format("# {}\n\n{} points", results.header().sweep, results.header().points));
  if (curve.errors > 0) sink(fmt::format(", {} of them errors", curve.errors));
  if (curve.filtered > 0) sink(fmt::format(", {} left out by filters", curve.filtered));
  sink(fmt::format(".\n\n| {} | best {} | at {} | within 1 % |\n| --- | ---: | ---: | --- |\n",
                   curve.series.size() > 1 ? "curve" : "", curve.y, curve.x));
  for (const CurveSeries& series : curve.series) {
    const CurvePoint& best = series.points[series.best];
    sink(fmt::format("| {} | {} | {} | {} to {} |\n", series.name, FormatY(curve, best.y),
                     FormatX(curve, best), FormatX(curve, series.points[series.plateau_begin]),
                     FormatX(curve, series.points[series.plateau_end])));
  }
  sink(fmt::format("\n| {} |", curve.x));
  for (const CurveSeries& series : curve.series) {
    sink(fmt::format(" {} |", series.name.empty() ? curve.y : series.name));
  }
  sink("\n| ---: |");
  for (std::size_t i = 0; i < curve.series.size(); ++i) sink(" ---: |");
  std::map<double, std::pair<std::string, std::vector<std::string>>> table;
  for (std::size_t i = 0; i < curve.series.size(); ++i) {
    for (const CurvePoint& point : curve.series[i].points) {
      auto& [label, cells] = table[point.x];
      label = FormatX(curve, point);
      cells.resize(curve.series.size());
      cells[i] = FormatY(curve, point.y);
    }
  }
  for (const auto& [x, row] : table) {
    sink(fmt::format("\n| {} |", row.first));
    for (const std::string& cell : row.second) sink(fmt::format(" {} |", cell));
  }
  sink("\n");
}

void WriteCurveSvg(const SweepResults&, const Curve& curve, const TextSink& sink) {
  sink(CurveSvg(curve));
}

constexpr std::array kFormats = {
    SweepFormat{".csv", "one row per point", WritePointsCsv},
    SweepFormat{".jsonl", "all shards in one result file", WritePointsJsonl},
    SweepFormat{".json", "the same as one JSON object", WritePointsJson},
    SweepFormat{".md", "the curve as a table, with its best points", WriteCurveMarkdown},
    SweepFormat{".svg", "the curve as a picture", WriteCurveSvg},
};

}  // namespace

std::span<const SweepFormat> SweepFormats() { return kFormats; }

const SweepFormat* FindSweepFormat(std::string_view file_name) {
  for (const SweepFormat& format : kFormats) {
    if (file_name.size() > format.suffix.size() && file_name.ends_with(format.suffix)) {
      return &format;
    }
  }
  return nullptr;
}

}  // namespace stepsim
