// What does one collective or one kernel cost? The question as the command line states it; each
// family of operations answers in a file of its own.
//
//   stepsim cost all_reduce --hardware dgx-h100 --nodes 2
//   stepsim cost gemm --m 8192 --n 8192 --k 8192 --dtype bf16 --hardware dgx-h100
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/spec/config_source.h"
#include "models/spec/load_cluster.h"
#include "sim/base/diagnostics.h"
#include "sim/base/dtype.h"
#include "sim/graph/work.h"
#include "tools/stepsim/result_table.h"

namespace stepsim {

enum class CostFamily : unsigned { kCollective = 1, kGemm = 2, kAttention = 4, kMemory = 8 };

struct CostOp {
  std::string_view name;  // "all_reduce"
  CostFamily family = CostFamily::kCollective;
  std::string_view doc;
  CollectiveOp collective = CollectiveOp::kAllReduce;  // collectives only
  std::string_view nccl_tests;                         // "all_reduce_perf"; "": not theirs
};

std::span<const CostOp> CostOps();
// Also as nccl-tests spells it: "allreduce", "all_reduce_perf", "AllReduce". Throws ConfigError.
const CostOp& FindCostOp(const std::string& name);

struct CostQuestion {
  const CostOp* op = nullptr;
  std::map<std::string, std::string, std::less<>> options;  // "--bytes" -> "1KiB:8GiB:x2"
  std::vector<std::string> sets;                            // "hardware.gpu.sms=100"
  std::vector<std::string> exports;
  bool is_quiet = false;

  bool Has(std::string_view option) const { return options.find(option) != options.end(); }
  // The option's text, or `otherwise`.
  std::string Text(std::string_view option, std::string_view otherwise) const;
};

struct CostAnswer {
  std::string text;  // for people
  ResultTable table;
  std::vector<std::pair<std::string, Cell>> facts;  // what holds for every row
};

CostAnswer PriceCollectives(const CostQuestion& question, const ConfigSource& configs);
CostAnswer PriceGemms(const CostQuestion& question, const ConfigSource& configs);
CostAnswer PriceAttention(const CostQuestion& question, const ConfigSource& configs);
CostAnswer PriceMemoryKernels(const CostQuestion& question, const ConfigSource& configs);

// ---- For the families ----

// The cluster that the options and --set describe; `diagnostics` are reported with its problems.
ClusterSpec ClusterOf(const CostQuestion& question, const ConfigSource& configs,
                      Diagnostics diagnostics);
// The sizes of --bytes; 1 KiB to 8 GiB by default.
std::vector<std::int64_t> BytesOf(const CostQuestion& question, Diagnostics& diagnostics);
DType DTypeOf(const CostQuestion& question, DType otherwise, Diagnostics& diagnostics);

// Five digits or so, as nccl-tests prints a time: "21.34", "1234.5", "81234".
std::string FormatShort(double number);
// "7%", "0.4%"; "-": unknown. A star marks what lies outside the measured range.
std::string FormatResidual(double residual, bool is_extrapolated);
// "4% to 14% expected (median of the fit); * outside the measured sizes".
std::string ExpectedErrorText(const std::vector<double>& residuals, bool is_extrapolated,
                              std::string_view range);
// The same of the `cost` of every line.
template <class Line>
std::string ExpectedErrorText(const std::vector<Line>& lines, std::string_view range) {
  std::vector<double> residuals;
  bool is_extrapolated = false;
  for (const Line& line : lines) {
    residuals.push_back(line.cost.residual);
    is_extrapolated = is_extrapolated || line.cost.is_extrapolated;
  }
  return ExpectedErrorText(residuals, is_extrapolated, range);
}

}  // namespace stepsim
