#include "tools/stepsim/write_corrections.h"

#include <fmt/format.h>

#include "sim/base/time.h"

namespace stepsim {
namespace {

// The folder is the business of whoever ran it.
std::string FileName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string RowYaml(const CollectiveCorrection& row) {
  const auto pattern = [](const std::string& text) {
    return text == "*" ? std::string("\"*\"") : text;
  };
  return fmt::format(
      "  - {{transport: {}, generation: {}, algorithm: {}, protocol: {}, latency_factor: {:.3f}, "
      "time_factor: {:.3f}, ramp: {:.3f} us, residual: {:.3f}}}\n",
      pattern(row.transport), pattern(row.generation), pattern(row.algorithm),
      pattern(row.protocol), row.latency_factor, row.time_factor, ToMicroseconds(row.ramp),
      row.residual);
}

}  // namespace

std::string CorrectionsYaml(const CollectiveCorrections& table, const std::string& data) {
  std::string yaml = fmt::format(
      "# How measured collectives differ from NCCL's own prediction: the first row that matches\n"
      "# holds. Equation and method: models/README.md, \"Corrections and calibration\".\n"
      "name: {}\n"
      "description: fitted to {}; residual is the median |error| of a row's points\n"
      "rows:\n",
      table.name, FileName(data));
  for (const CollectiveCorrection& row : table.rows) yaml += RowYaml(row);
  yaml += fmt::format(
      "sources:\n"
      "  rows: \"fitted: stepsim validate collectives {} --fit {}.yaml\"\n",
      FileName(data), table.name);
  return yaml;
}

}  // namespace stepsim
