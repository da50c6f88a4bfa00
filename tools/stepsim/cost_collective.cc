// stepsim cost all_reduce and its like: what nccl-tests would print on that cluster.
#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

#include "models/cost/collective_correction.h"
#include "models/cost/collective_cost.h"
#include "sim/base/units.h"
#include "tools/stepsim/cost_command.h"
#include "tools/stepsim/size_range.h"

namespace stepsim {
namespace {

constexpr double kMicro = 1e6;
constexpr double kGiga = 1e9;

struct Line {
  CollectiveCost cost;
  std::int64_t bytes = 0;
  std::int64_t count = 0;
  bool is_choice = true;
};

struct Table {
  const CostOp& op;
  ClusterSpec cluster;
  DType dtype = DType::kFp32;
  bool shows_all = false;
  std::vector<Line> lines;
};

Placement PlacementOf(const ClusterSpec& cluster) {
  return {cluster.ranks(), cluster.nodes, cluster.gpus_per_node};
}

// Every rank holds a part of the buffer on one side of the call.
bool IsSharded(CollectiveOp op) {
  return op == CollectiveOp::kAllGather || op == CollectiveOp::kReduceScatter ||
         op == CollectiveOp::kAllToAll;
}

struct Counted {
  std::int64_t bytes = 0;  // of the larger buffer
  std::int64_t count = 0;  // elements, as nccl-tests' second column: of a part where sharded
};

// Rounded down as nccl-tests does: to whole elements, and to 16 bytes per part where the buffer is
// shared out among the ranks.
Counted CountElements(std::int64_t bytes, const Table& table) {
  constexpr std::int64_t kAlignment = 16;
  const std::int64_t size = ElementSize(table.dtype).value;
  const std::int64_t ranks = table.cluster.ranks();
  if (!IsSharded(table.op.collective)) return {bytes / size * size, bytes / size};
  const std::int64_t part = bytes / ranks / kAlignment * kAlignment;
  return {part * ranks, part / size};
}

bool IsSame(const CollectiveCost& a, const CollectiveCost& b) {
  return a.algorithm == b.algorithm && a.protocol == b.protocol;
}

void PriceSizes(const std::vector<std::int64_t>& sizes, Table& table) {
  const CollectivePricer price(table.cluster.hardware, table.cluster.collectives);
  const Placement placement = PlacementOf(table.cluster);
  std::int64_t last = 0;
  for (const std::int64_t size : sizes) {
    const Counted counted = CountElements(size, table);
    if (counted.count == 0 || (counted.bytes == last && size != last)) continue;
    last = counted.bytes;
    const CollectiveRequest request{table.op.collective, Bytes{counted.bytes}, table.dtype,
                                    placement};
    const CollectiveCost choice = price(request);
    if (!table.shows_all) {
      table.lines.push_back({choice, counted.bytes, counted.count, true});
      continue;
    }
    for (const CollectiveCost& cost : price.Candidates(request)) {
      table.lines.push_back({cost, counted.bytes, counted.count, IsSame(cost, choice)});
    }
  }
}

double AlgorithmBandwidth(const Line& line) {
  return line.cost.seconds > 0 ? static_cast<double>(line.bytes) / line.cost.seconds : 0;
}

double BusBandwidth(const Line& line, const Table& table) {
  return AlgorithmBandwidth(line) * BusFactor(table.op.collective, table.cluster.ranks());
}

// ---- For people ----

std::string ModelText(const Table& table) {
  const CollectiveModelSpec& spec = table.cluster.collectives;
  if (spec.model == CollectiveModel::kAlphaBeta) {
    return "alpha_beta: latency per step plus bytes over bandwidth; not NCCL's choice";
  }
  const CollectiveCorrections& corrections = spec.correction_table;
  return fmt::format("NCCL {}, {}", spec.nccl_version,
                     corrections.rows.empty() ? "its own table, uncorrected"
                                              : fmt::format("corrections '{}'", corrections.name));
}

std::string CalibrationText(const Table& table) {
  const Placement group = PlacementOf(table.cluster);
  for (const CollectiveCurve& curve : table.cluster.hardware.collective_curves) {
    if (curve.collective != ToString(table.op.collective) || curve.ranks != group.ranks ||
        curve.nodes != group.nodes) {
      continue;
    }
    const std::string& name = table.cluster.calibration.name;
    return fmt::format("a curve of {} measurements of this group{}", curve.points,
                       name.empty() ? "" : fmt::format(", calibration '{}'", name));
  }
  const std::size_t points = PointsFor(table.cluster.hardware, table.op.collective, group).size();
  if (points > 0 && table.cluster.collectives.model == CollectiveModel::kAlphaBeta) {
    return "the alpha_beta model does not look at hardware.calibration";
  }
  if (points == 0) return "no measured points of this group in hardware.calibration";
  return fmt::format("through {} measured {} of this group", points,
                     points == 1 ? "point" : "points");
}

std::string ErrorText(const Table& table) { return ExpectedErrorText(table.lines, "sizes"); }

std::string HeaderText(const Table& table) {
  const HardwareSpec& hardware = table.cluster.hardware;
  const auto plural = [](std::int64_t n, std::string_view noun) {
    return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s");
  };
  std::string text = fmt::format("# stepsim cost {}: predicted, in the columns of nccl-tests' {}\n",
                                 table.op.name, table.op.nccl_tests);
  text += fmt::format("# hardware     {}{}{}\n", hardware.name,
                      hardware.description.empty() ? "" : ": ", hardware.description);
  text +=
      fmt::format("# ranks        {} = {} x {}; {} {} per GPU", table.cluster.ranks(),
                  plural(table.cluster.nodes, "node"), plural(table.cluster.gpus_per_node, "GPU"),
                  hardware.intra_node.type, FormatBandwidth(hardware.intra_node.bandwidth.value));
  if (table.cluster.nodes > 1) {
    text += fmt::format("; {} x {} {} per node", hardware.network.nics_per_node,
                        hardware.network.link.type,
                        FormatBandwidth(hardware.network.link.bandwidth.value));
  }
  text += fmt::format("\n# model        {}\n# calibration  {}\n# error        {}\n",
                      ModelText(table), CalibrationText(table), ErrorText(table));
  if (table.shows_all) text += "# > marks what NCCL chooses: the smallest of its own times\n";
  return text + "#\n";
}

std::vector<std::string> Titles(const Table& table) {
  std::vector<std::string> titles = {"size",      "count",    "type",     "time", "algbw", "busbw",
                                     "algorithm", "protocol", "channels", "SMs",  "error"};
  if (table.shows_all) titles.emplace_back("NCCL's time");
  return titles;
}

std::vector<std::string> Units(const Table& table) {
  std::vector<std::string> units = {"(B)", "(elements)", "", "(us)", "(GB/s)", "(GB/s)"};
  units.resize(Titles(table).size());
  if (table.shows_all) units.back() = "(us)";
  return units;
}

std::vector<std::string> LineText(const Line& line, const Table& table) {
  const CollectiveCost& cost = line.cost;
  std::vector<std::string> cells = {fmt::format("{}", line.bytes),
                                    fmt::format("{}", line.count),
                                    std::string(ToString(table.dtype)),
                                    FormatShort(cost.seconds * kMicro),
                                    fmt::format("{:.2f}", AlgorithmBandwidth(line) / kGiga),
                                    fmt::format("{:.2f}", BusBandwidth(line, table) / kGiga),
                                    std::string(cost.algorithm),
                                    std::string(cost.protocol),
                                    cost.channels == 0 ? "-" : fmt::format("{}", cost.channels),
                                    cost.channels == 0 ? "-" : fmt::format("{:g}", cost.sms),
                                    FormatResidual(cost.residual, cost.is_extrapolated)};
  if (table.shows_all) {
    cells.push_back(FormatShort(cost.nccl_seconds * kMicro));
    if (line.is_choice) cells.front() = "> " + cells.front();
  }
  return cells;
}

std::string TableText(const Table& table) {
  std::vector<std::vector<std::string>> rows = {Titles(table), Units(table)};
  const std::size_t header_rows = rows.size();
  for (std::size_t i = 0; i < table.lines.size(); ++i) {
    const bool is_new_size = i > 0 && table.lines[i].bytes != table.lines[i - 1].bytes;
    if (table.shows_all && is_new_size) rows.emplace_back();
    rows.push_back(LineText(table.lines[i], table));
  }
  return AlignedText(rows, header_rows);
}

// nccl-tests' last line; only meaningful over what NCCL chooses.
std::string AverageText(const Table& table) {
  double sum = 0, count = 0;
  for (const Line& line : table.lines) {
    if (!line.is_choice) continue;
    sum += BusBandwidth(line, table);
    count += 1;
  }
  return fmt::format("# Avg bus bandwidth : {:.4g} GB/s\n", count > 0 ? sum / count / kGiga : 0);
}

// ---- For programs ----

ResultTable Exported(const Table& table) {
  ResultTable result{{"collective", "hardware", "nodes", "ranks", "size_bytes", "count", "dtype",
                      "time_us", "algbw_gbps", "busbw_gbps", "algorithm", "protocol", "channels",
                      "sms", "hbm_bytes", "nccl_time_us", "residual", "is_extrapolated",
                      "is_choice"}};
  for (const Line& line : table.lines) {
    const CollectiveCost& cost = line.cost;
    result.rows.push_back({std::string(table.op.name), table.cluster.hardware.name,
                           table.cluster.nodes, table.cluster.ranks(), line.bytes, line.count,
                           std::string(ToString(table.dtype)), cost.seconds * kMicro,
                           AlgorithmBandwidth(line) / kGiga, BusBandwidth(line, table) / kGiga,
                           std::string(cost.algorithm), std::string(cost.protocol), cost.channels,
                           cost.sms, cost.hbm_bytes, cost.nccl_seconds * kMicro, cost.residual,
                           cost.is_extrapolated, line.is_choice});
  }
  return result;
}

void CheckSizes(const Table& table, const CostQuestion& question) {
  if (!table.lines.empty()) return;
  throw ConfigError(
      Place{"--bytes " + question.Text("--bytes", ""), 0, 0},
      fmt::format("found no size that gives each of {} ranks 16 bytes, allowed: at "
                  "least {}",
                  table.cluster.ranks(), FormatBytes(Bytes{16} * table.cluster.ranks())));
}

void CheckModel(const Table& table) {
  const bool is_alpha_beta = table.cluster.collectives.model == CollectiveModel::kAlphaBeta;
  const CollectiveOp op = table.op.collective;
  if (!is_alpha_beta || (op != CollectiveOp::kAllToAll && op != CollectiveOp::kSendRecv)) return;
  throw ConfigError(Place{},
                    fmt::format("cost: found {} with the alpha_beta model, which has none, "
                                "allowed: --model nccl",
                                table.op.name));
}

}  // namespace

CostAnswer PriceCollectives(const CostQuestion& question, const ConfigSource& configs) {
  Diagnostics diagnostics;
  const std::vector<std::int64_t> sizes = BytesOf(question, diagnostics);
  const DType dtype = DTypeOf(question, DType::kFp32, diagnostics);
  Table table{
      *question.op, ClusterOf(question, configs, diagnostics), dtype, question.Has("--all"), {}};
  CheckModel(table);
  PriceSizes(sizes, table);
  CheckSizes(table, question);
  CostAnswer answer;
  answer.text = HeaderText(table) + TableText(table) + AverageText(table);
  answer.table = Exported(table);
  answer.facts = {{"model", ModelText(table)},
                  {"calibration", CalibrationText(table)},
                  {"expected_error", ErrorText(table)}};
  return answer;
}

}  // namespace stepsim
