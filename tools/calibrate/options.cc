#include "tools/calibrate/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>

#include "sim/base/diagnostics.h"
#include "sim/base/nearest.h"
#include "sim/base/units.h"

namespace stepsim::measure {
namespace {

constexpr std::int64_t kMostCtas = 1024;
constexpr std::int64_t kMostEdge = 1 << 24;
constexpr std::int64_t kMostPort = 65535;
constexpr double kMostBytes = 1e15, kMostSeconds = 1e7;
constexpr const char* kExample =
    "Examples:\n"
    "  stepsim-calibrate --budget 120s --output h200.jsonl\n"
    "  torchrun --nproc-per-node 8 --no-python stepsim-calibrate --only collective\n"
    "  srun --ntasks-per-node 8 stepsim-calibrate --job llama-3.2-3b_ddp_16xa100\n"
    "  mpirun -n 4 stepsim-calibrate --backend mpi --budget 60s";

// As the command line has them.
struct Texts {
  std::string budget, timeout = "120s", port, min_bytes, max_bytes;
  std::vector<std::string> only, dtypes, max_ctas, sms, gemms;
};

std::vector<std::string> Strings(std::span<const std::string_view> views) {
  return {views.begin(), views.end()};
}

class Checker {
 public:
  void Name(const char* option, const std::string& found, const std::vector<std::string>& allowed) {
    if (std::find(allowed.begin(), allowed.end(), found) != allowed.end()) return;
    const std::string nearest = Nearest(found, allowed);
    Add(fmt::format("{}: found '{}', allowed: {}{}", option, found, fmt::join(allowed, ", "),
                    nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest)));
  }
  std::int64_t Integer(const char* option, const std::string& found, std::int64_t most) {
    const auto value = ParseInteger(found);
    if (value && *value >= 1 && *value <= most) return *value;
    Add(fmt::format("{}: found '{}', allowed: a whole number from 1 to {}", option, found, most));
    return 1;
  }
  // "" stays 0.
  double Quantity(const char* option, const std::string& found, Unit unit, double most) {
    if (found.empty()) return 0;
    const ParsedQuantity value = ParseQuantity(found, unit);
    if (value.ok() && value.value > 0 && value.value <= most) return value.value;
    Add(fmt::format("{}: found '{}', allowed: a positive size such as {}", option, found,
                    UnitExample(unit)));
    return 0;
  }
  void Add(std::string message) { problems_.Add({}, std::move(message)); }
  void ThrowIfAny() const { problems_.ThrowIfAny(); }

 private:
  Diagnostics problems_;
};

void Describe(CLI::App& app, Options& options, Texts& texts, std::span<const BackendRow> backends) {
  std::string names;
  for (const BackendRow& row : backends) {
    names += fmt::format("{}{} ({})", names.empty() ? "" : ", ", row.name, row.doc);
  }
  app.add_option("--backend", options.backend, "what is measured: " + names)->capture_default_str();
  app.add_option("-o,--output", options.output, "file of measurements, JSON lines")
      ->capture_default_str();
  app.add_flag("--overwrite", options.overwrite, "replace --output if it is there");
  app.add_option("--budget", texts.budget, "stop in time: 120s; the most useful comes first");
  app.add_option("--job", options.job, "measure the shapes of this job instead of a grid");
  app.add_option("--set", options.sets, "change the job: path=value")->allow_extra_args(false);
  app.add_option("--configs", options.config_folder, "folder with hardware/, models/, jobs/");
  app.add_option("--only", texts.only, fmt::format("kinds: {}", fmt::join(TaskKinds(), ", ")))
      ->delimiter(',');
  app.add_option("--dtypes", texts.dtypes, "types of GEMMs: bf16,fp16,fp8,tf32,fp32,fp64")
      ->delimiter(',');
  app.add_option("--gemm", texts.gemms, "MxNxK instead of the grid, several times")
      ->allow_extra_args(false);
  app.add_option("--min-bytes", texts.min_bytes, "smallest collective: 1KiB");
  app.add_option("--max-bytes", texts.max_bytes, "largest collective: 1GiB");
  app.add_option("--max-ctas", texts.max_ctas, "limits of NCCL's CTAs to try besides: 4,8,16")
      ->delimiter(',');
  app.add_option("--sms", texts.sms, "SMs (CPU: threads) of the copy beside a GEMM: 2,4,8")
      ->delimiter(',');
  app.add_option("--port", texts.port, "of rank 0, without MPI (default: MASTER_PORT + 1)");
  app.add_option("--timeout", texts.timeout, "end when nothing happens for so long")
      ->capture_default_str();
  app.add_flag("--dry-run", options.is_dry_run, "print what would be measured; needs no device");
  app.add_flag("--quiet", options.is_quiet, "no progress line");
  app.footer(kExample);
}

// "4096x11008x4096", for every type that is measured.
void ReadGemms(const Texts& texts, Options& options, Checker& check) {
  for (const std::string& text : texts.gemms) {
    std::vector<std::string> parts;
    std::string rest = text;
    for (std::size_t at; (at = rest.find('x')) != std::string::npos; rest.erase(0, at + 1)) {
      parts.push_back(rest.substr(0, at));
    }
    parts.push_back(rest);
    if (parts.size() != 3) {
      check.Add(fmt::format("--gemm: found '{}', allowed: MxNxK such as 4096x11008x4096", text));
      continue;
    }
    const auto edge = [&](const std::string& part) {
      return check.Integer("--gemm", part, kMostEdge);
    };
    const std::int64_t m = edge(parts[0]), n = edge(parts[1]), k = edge(parts[2]);
    options.plan.gemms.push_back({m, n, k, ""});  // ExpandTypes sets it
  }
}

void Check(const Texts& texts, std::span<const BackendRow> backends, Options& options) {
  Checker check;
  std::vector<std::string> names;
  for (const BackendRow& row : backends) names.emplace_back(row.name);
  check.Name("--backend", options.backend, names);
  for (const std::string& kind : texts.only) check.Name("--only", kind, Strings(TaskKinds()));
  for (const std::string& dtype : texts.dtypes) {
    check.Name("--dtypes", dtype, {"bf16", "fp16", "fp8", "tf32", "fp32", "fp64"});
  }
  PlanRequest& plan = options.plan;
  plan.kinds = texts.only;
  plan.dtypes = texts.dtypes;
  ReadGemms(texts, options, check);
  if (!plan.gemms.empty() && !options.job.empty()) {
    check.Add("--gemm: not together with --job, which says the shapes");
  }
  for (const std::string& text : texts.max_ctas) {
    plan.max_ctas.push_back(static_cast<int>(check.Integer("--max-ctas", text, kMostCtas)));
  }
  for (const std::string& text : texts.sms) {
    plan.load_sms.push_back(static_cast<int>(check.Integer("--sms", text, kMostCtas)));
  }
  const auto bytes = [&](const char* option, const std::string& text) {
    return static_cast<std::int64_t>(check.Quantity(option, text, Unit::kBytes, kMostBytes));
  };
  plan.min_bytes = bytes("--min-bytes", texts.min_bytes);
  plan.max_bytes = bytes("--max-bytes", texts.max_bytes);
  if (plan.max_bytes > 0 && plan.min_bytes > plan.max_bytes) {
    check.Add(fmt::format("--min-bytes: found {}, allowed: at most --max-bytes ({})",
                          texts.min_bytes, texts.max_bytes));
  }
  options.budget_s = check.Quantity("--budget", texts.budget, Unit::kTime, kMostSeconds);
  options.timeout_s = check.Quantity("--timeout", texts.timeout, Unit::kTime, kMostSeconds);
  if (!texts.port.empty()) {
    options.port = static_cast<int>(check.Integer("--port", texts.port, kMostPort));
  }
  check.ThrowIfAny();
}

// CLI11 names what it did not expect; this adds what was probably meant.
std::string Hint(const CLI::App& app, const std::vector<std::string>& arguments) {
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  }
  for (const std::string& argument : arguments) {
    const std::string name = argument.substr(0, argument.find('='));
    if (name.rfind("--", 0) != 0 || std::find(known.begin(), known.end(), name) != known.end()) {
      continue;
    }
    const std::string nearest = Nearest(name, known);
    return nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest);
  }
  return "";
}

}  // namespace

std::optional<Options> ReadOptions(const std::vector<std::string>& arguments,
                                   std::span<const BackendRow> backends, std::string* help) {
  CLI::App app("Measures kernels, collectives and their interference on this machine.",
               "stepsim-calibrate");
  Options options;
  Texts texts;
  Describe(app, options, texts, backends);
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // as CLI11 wants it
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    *help = app.help();
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    throw ConfigError(Place{}, error.what() + Hint(app, arguments));
  }
  Check(texts, backends, options);
  return options;
}

}  // namespace stepsim::measure
