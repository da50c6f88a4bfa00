#include "tools/stepsim/cost_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <optional>
#include <ostream>

#include "sim/config/read_config.h"
#include "sim/report/writer.h"
#include "tools/stepsim/command.h"
#include "tools/stepsim/size_range.h"

namespace stepsim {
namespace {

constexpr auto kCollective = CostFamily::kCollective;
constexpr std::array kOps = {
    CostOp{"all_reduce", kCollective, "sum over all ranks, on all ranks", CollectiveOp::kAllReduce,
           "all_reduce_perf"},
    CostOp{"all_gather", kCollective, "every rank's part, on all ranks", CollectiveOp::kAllGather,
           "all_gather_perf"},
    CostOp{"reduce_scatter", kCollective, "sum over all ranks, a part on each",
           CollectiveOp::kReduceScatter, "reduce_scatter_perf"},
    CostOp{"all_to_all", kCollective, "a part from each rank to each", CollectiveOp::kAllToAll,
           "alltoall_perf"},
    CostOp{"broadcast", kCollective, "one rank's buffer, on all", CollectiveOp::kBroadcast,
           "broadcast_perf"},
    CostOp{"reduce", kCollective, "sum over all ranks, on one", CollectiveOp::kReduce,
           "reduce_perf"},
    CostOp{"send_recv", kCollective, "every rank sends to the next", CollectiveOp::kSendRecv,
           "sendrecv_perf"},
    CostOp{"gemm", CostFamily::kGemm, "a matrix product: --m --n --k"},
    CostOp{"attention", CostFamily::kAttention, "fused attention: --seq --heads --head-dim"},
    CostOp{"memory", CostFamily::kMemory, "a kernel bound by memory: --bytes of traffic"},
};

constexpr unsigned Bit(CostFamily family) { return static_cast<unsigned>(family); }
constexpr unsigned kCollectives = Bit(kCollective);
constexpr unsigned kGemm = Bit(CostFamily::kGemm);
constexpr unsigned kAttention = Bit(CostFamily::kAttention);
constexpr unsigned kMemory = Bit(CostFamily::kMemory);
constexpr unsigned kAny = kCollectives | kGemm | kAttention | kMemory;

struct OptionRow {
  std::string_view name;
  std::string_view type;  // "": a flag
  unsigned families = 0;
  std::string_view path;  // of the field that it sets; "": read by the family
  std::string_view doc;
};
constexpr std::array kOptions = {
    OptionRow{"--hardware", "NAME", kAny, "hardware",
              "a name of `stepsim list hardware` or enough words of one, a file, or a mapping"},
    OptionRow{"--calibration", "FILE", kAny, "calibration",
              "measurements of a real system, as `stepsim calibrate` writes them: a name of "
              "`stepsim list calibrations` or a file"},
    OptionRow{"--dtype", "TYPE", kAny, "",
              "element type (default: fp32 for collectives, as nccl-tests; bf16 for kernels)"},
    OptionRow{"--bytes", "SIZES", kCollectives | kMemory, "",
              "LO:HI:xF, LO:HI:+STEP or a list, with units (default: 1KiB:8GiB:x2); as nccl-tests "
              "counts: the larger of send and receive buffer; for memory: reads plus writes"},
    OptionRow{"--nodes", "N", kCollectives, "nodes", "nodes of the group (default: 1)"},
    OptionRow{"--gpus-per-node", "G", kCollectives, "gpus_per_node",
              "ranks per node (default: the profile's GPUs)"},
    OptionRow{"--network", "NAME", kCollectives, "network",
              "a name of `stepsim list networks`, a file, or a mapping"},
    OptionRow{"--model", "MODEL", kCollectives, "collectives.model",
              "nccl (default) or alpha_beta"},
    OptionRow{"--nccl", "VERSION", kCollectives, "collectives.nccl_version",
              "whose cost table is used, such as 2.27"},
    OptionRow{"--algo", "ALGO", kCollectives, "collectives.algorithm",
              "as NCCL_ALGO: ring, ^tree, ..."},
    OptionRow{"--proto", "PROTO", kCollectives, "collectives.protocol",
              "as NCCL_PROTO: simple, ^ll128, ..."},
    OptionRow{"--min-ctas", "N", kCollectives, "collectives.min_ctas", "as NCCL_MIN_CTAS"},
    OptionRow{"--max-ctas", "N", kCollectives, "collectives.max_ctas", "as NCCL_MAX_CTAS"},
    OptionRow{"--nvls", "", kCollectives, "collectives.nvls=true",
              "reduce in the NVLink switch where there is one"},
    OptionRow{"--no-nvls", "", kCollectives, "collectives.nvls=false", "as NCCL_NVLS_ENABLE=0"},
    OptionRow{"--corrections", "NAME", kCollectives, "collectives.corrections",
              "measured corrections of NCCL's table; none: as NCCL predicts"},
    OptionRow{"--all", "", kCollectives, "",
              "every algorithm and protocol, not only the one that NCCL chooses"},
    OptionRow{"--sms", "SIZES", kGemm | kAttention | kMemory, "",
              "SMs that the kernel may use, as beside a collective (default: all)"},
    OptionRow{"--m", "SIZES", kGemm, "", "rows of the result: a number, a list or a range"},
    OptionRow{"--n", "SIZES", kGemm, "", "columns of the result"},
    OptionRow{"--k", "SIZES", kGemm, "", "length of the sums"},
    OptionRow{"--batch", "SIZES", kGemm | kAttention, "",
              "products, or samples of attention (default: 1)"},
    OptionRow{"--seq", "SIZES", kAttention, "", "tokens of a sample"},
    OptionRow{"--heads", "SIZES", kAttention, "", "query heads"},
    OptionRow{"--kv-heads", "SIZES", kAttention, "", "key and value heads (default: --heads)"},
    OptionRow{"--head-dim", "SIZES", kAttention, "", "width of a head (default: 128)"},
    OptionRow{"--causal", "", kAttention, "", "no token sees a later one"},
    OptionRow{"--backward", "", kAttention, "", "the backward kernel instead of the forward one"},
};

// "AllReduce", "all-reduce" and "all_reduce_perf" are "allreduce".
std::string PlainSpelling(std::string_view name) {
  constexpr std::string_view kSuffix = "_perf";
  if (name.size() > kSuffix.size() && name.substr(name.size() - kSuffix.size()) == kSuffix) {
    name.remove_suffix(kSuffix.size());
  }
  std::string plain;
  for (const char c : name) {
    if (c == '_' || c == '-') continue;
    plain += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return plain;
}

std::vector<std::string> OpNames() {
  std::vector<std::string> names;
  for (const CostOp& op : kOps) names.emplace_back(op.name);
  return names;
}

std::string OptionPlace(std::string_view name, const std::string& value) {
  constexpr std::size_t kLongest = 80;
  if (value.empty()) return std::string(name);
  return fmt::format("{} {}{}", name, value.substr(0, kLongest),
                     value.size() > kLongest ? "..." : "");
}

void CheckOptions(const CostQuestion& question) {
  Diagnostics diagnostics;
  for (const OptionRow& row : kOptions) {
    const auto given = question.options.find(row.name);
    if (given == question.options.end() || (row.families & Bit(question.op->family)) != 0) continue;
    diagnostics.Add({OptionPlace(row.name, given->second), 0, 0},
                    fmt::format("has no effect with {}", question.op->name));
  }
  if (question.Has("--nvls") && question.Has("--no-nvls")) {
    diagnostics.Add({"--nvls", 0, 0}, "found together with --no-nvls, allowed: one of the two");
  }
  if (!question.Has("--hardware")) {
    diagnostics.Add({},
                    "--hardware: missing, allowed: a name of `stepsim list hardware`, such as "
                    "dgx-h100");
  }
  diagnostics.ThrowIfAny();
}

CostAnswer Answer(const CostQuestion& question, const ConfigSource& configs) {
  switch (question.op->family) {
    case CostFamily::kGemm:
      return PriceGemms(question, configs);
    case CostFamily::kAttention:
      return PriceAttention(question, configs);
    case CostFamily::kMemory:
      return PriceMemoryKernels(question, configs);
    case CostFamily::kCollective:
      break;
  }
  return PriceCollectives(question, configs);
}

void RunCost(const std::string& op, CostQuestion& question, const Session& session) {
  question.op = &FindCostOp(op);
  CheckOptions(question);
  const std::vector<TableTarget> targets = ParseTableTargets(question.exports);
  const CostAnswer answer = Answer(question, *session.Configs());
  std::ostream& text = UsesStandardOutput(targets) ? session.streams.err : session.streams.out;
  if (!question.is_quiet) text << answer.text;
  WriteTable(answer.table, "stepsim.cost/1", answer.facts, targets, session.streams.out,
             question.is_quiet ? nullptr : &text);
}

std::string GroupOf(unsigned families) {
  if (families == kAny) return "Options";
  if ((families & kCollectives) != 0) return "Collectives";
  if (families == (kGemm | kAttention | kMemory)) return "Kernels";
  return (families & kGemm) != 0 ? "Matrix products" : "Attention";
}

void AddOptions(CLI::App& app, const std::shared_ptr<CostQuestion>& question) {
  for (const OptionRow& row : kOptions) {
    const std::string name(row.name);
    if (row.type.empty()) {
      app.add_flag_callback(
             name, [question, name] { question->options[name] = ""; }, std::string(row.doc))
          ->group(GroupOf(row.families));
      continue;
    }
    app.add_option_function<std::string>(
           name, [question, name](const std::string& text) { question->options[name] = text; },
           std::string(row.doc))
        ->type_name(std::string(row.type))
        ->group(GroupOf(row.families));
  }
}

}  // namespace

std::span<const CostOp> CostOps() { return kOps; }

const CostOp& FindCostOp(const std::string& name) {
  const std::string plain = PlainSpelling(name);
  for (const CostOp& op : kOps) {
    if (PlainSpelling(op.name) == plain) return op;
  }
  const std::vector<std::string> names = OpNames();
  throw ConfigError(Place{}, fmt::format("cost: found '{}', allowed: {}{}", name,
                                         fmt::join(names, ", "), DidYouMean(name, names)));
}

std::string CostQuestion::Text(std::string_view option, std::string_view otherwise) const {
  const auto given = options.find(option);
  return given == options.end() ? std::string(otherwise) : given->second;
}

ClusterSpec ClusterOf(const CostQuestion& question, const ConfigSource& configs,
                      Diagnostics diagnostics) {
  std::vector<Setting> settings;
  if (question.op->family == kCollective) {  // whatever jobs use: the columns are nccl-tests'
    const Place place{"--model nccl", 0, 0};
    settings.push_back({"collectives.model", MakeText("nccl", place), place});
  }
  for (const OptionRow& row : kOptions) {
    const auto given = question.options.find(row.name);
    if (row.path.empty() || given == question.options.end()) continue;
    const Place place{OptionPlace(row.name, given->second), 0, 0};
    const std::size_t equals = std::min(row.path.find('='), row.path.size());
    const std::string path = std::string(row.path.substr(0, equals));
    for (const std::string& set : question.sets) {
      if (set.substr(0, set.find('=')) != path) continue;
      diagnostics.Add(place,
                      fmt::format("found together with --set {}, allowed: one of the two", set));
    }
    const std::string_view value =
        equals == row.path.size() ? std::string_view(given->second) : row.path.substr(equals + 1);
    try {
      settings.push_back({path, ReadSetValue(value, place), place});
    } catch (const ConfigError& error) {
      for (const Diagnostic& d : error.diagnostics()) diagnostics.Add(d.place, d.message);
    }
  }
  std::vector<Setting> sets = ParseSettings(question.sets, diagnostics);
  std::move(sets.begin(), sets.end(), std::back_inserter(settings));
  return LoadCluster(settings, configs, std::move(diagnostics));
}

std::vector<std::int64_t> BytesOf(const CostQuestion& question, Diagnostics& diagnostics) {
  constexpr std::int64_t kMostBytes = 1'000'000'000'000'000;  // a petabyte
  return ParseRange(question.Text("--bytes", "1KiB:8GiB:x2"), {"--bytes", Unit::kBytes, kMostBytes},
                    diagnostics);
}

DType DTypeOf(const CostQuestion& question, DType otherwise, Diagnostics& diagnostics) {
  if (!question.Has("--dtype")) return otherwise;
  const std::string name = question.Text("--dtype", "");
  if (const std::optional<DType> dtype = ParseDType(name)) return *dtype;
  const std::vector<std::string> names(DTypeNames().begin(), DTypeNames().end());
  diagnostics.Add({OptionPlace("--dtype", name), 0, 0},
                  fmt::format("found '{}', allowed: {}{}", name, fmt::join(names, ", "),
                              DidYouMean(name, names)));
  return otherwise;
}

std::string FormatShort(double number) {
  if (number < 100) return fmt::format("{:.2f}", number);
  return number < 10'000 ? fmt::format("{:.1f}", number) : fmt::format("{:.0f}", number);
}

std::string FormatResidual(double residual, bool is_extrapolated) {
  const std::string star = is_extrapolated ? "*" : "";
  if (residual <= 0) return is_extrapolated ? "*" : "-";
  return fmt::format("{:.{}f}%{}", residual * 100, residual < 0.01 ? 1 : 0, star);
}

std::string ExpectedErrorText(const std::vector<double>& residuals, bool is_extrapolated,
                              std::string_view range) {
  double low = 0, high = 0;
  for (const double residual : residuals) {
    if (residual <= 0) continue;
    low = low == 0 ? residual : std::min(low, residual);
    high = std::max(high, residual);
  }
  std::string text = "unknown";
  const std::string least = FormatResidual(low, false), most = FormatResidual(high, false);
  if (high > 0) {
    text = fmt::format("{} expected (median of the fit)",
                       least == most ? most : fmt::format("{} to {}", least, most));
  }
  return is_extrapolated ? fmt::format("{}; * outside the measured {}", text, range) : text;
}

void AddCostCommand(CLI::App& app, const Session& session) {
  const auto op = std::make_shared<std::string>();
  const auto question = std::make_shared<CostQuestion>();
  app.add_option(
         "op", *op,
         fmt::format("one of: {}; also as nccl-tests spells them", fmt::join(OpNames(), ", ")))
      ->required()
      ->type_name("OP");
  AddOptions(app, question);
  const auto add_list = [&app](const char* name, std::vector<std::string>& list, const char* type,
                               const char* doc) {
    app.add_option(name, list, doc)
        ->type_name(type)
        ->expected(1)
        ->take_all()
        ->allow_extra_args(false);
  };
  add_list("--set", question->sets, "PATH=VALUE",
           "override one field of hardware.*, network.* or collectives.*; may repeat");
  add_list("--export", question->exports, "FILE",
           "write .csv or .json; - is standard output (-.csv: as CSV); may repeat");
  app.add_flag("-q,--quiet", question->is_quiet, "no table on the terminal");
  app.callback([op, question, &session] { RunCost(*op, *question, session); });
}

}  // namespace stepsim
