// stepsim validate: predictions against tables of measurements. One row per kind of table.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "models/calibration/csv_table.h"
#include "models/spec/nccl_choice.h"
#include "sim/base/diagnostics.h"
#include "tools/stepsim/validate.h"

namespace stepsim {
namespace {

struct Kind {
  std::string_view name;
  std::string_view doc;
  void (*validate)(const ValidateOptions& options, const Session& session);
};
constexpr std::array kKinds = {
    Kind{"collectives", "nccl-tests results: error by link class and size", ValidateCollectives},
    Kind{"kernels", "matrix products: error by GPU and element type", ValidateKernels},
    Kind{"memory", "peak memory of training runs: error by source, states and recompute",
         ValidateMemory},
    Kind{"ddp", "a bucket sweep of real DDP with its micro-measurements: error by link and network",
         ValidateDdp},
    Kind{"steps", "published training steps: error by source, GPU, strategy, ...", ValidateSteps},
};

// Before anything is computed: a file of another kind, a release that is none, an option in vain.
void CheckOptions(const ValidateOptions& options) {
  Diagnostics diagnostics;
  const auto check_ending = [&](const char* option, const std::string& path,
                                std::initializer_list<std::string_view> endings) {
    if (path.empty()) return;
    for (const std::string_view ending : endings) {
      if (path.size() > ending.size() && path.substr(path.size() - ending.size()) == ending) return;
    }
    diagnostics.Add({fmt::format("{} {}", option, path), 0, 0},
                    fmt::format("found another ending, allowed: {}", fmt::join(endings, ", ")));
  };
  check_ending("--export", options.export_path, {".csv"});
  check_ending("--fit", options.fit_path, {".yaml", ".yml"});
  if (!options.nccl_version.empty() && !ParseNcclRelease(options.nccl_version).has_value()) {
    diagnostics.Add({"--nccl", 0, 0},
                    fmt::format("found '{}', allowed: a release of NCCL such as 2.18 or 2.27.3",
                                options.nccl_version));
  }
  if (options.corrections != ValidateOptions{}.corrections &&
      (!options.fit_path.empty() || !options.leave_one_out.empty())) {
    diagnostics.Add({"--corrections", 0, 0},
                    "has no effect with --fit or --leave-one-out, which fit their own");
  }
  const bool is_ddp = options.kind == "ddp";
  if (options.most_median && options.kind != "memory" && !is_ddp) {
    diagnostics.Add({"--max-median", 0, 0},
                    fmt::format("found with {}, allowed: with memory, ddp", options.kind));
  }
  if (options.tables.size() > 1 && !is_ddp) {
    diagnostics.Add({options.tables[1], 0, 0},
                    fmt::format("found a second table with {}, allowed: with ddp", options.kind));
  }
  if (!options.jobs_path.empty() && !is_ddp) {
    diagnostics.Add({"--write-jobs", 0, 0},
                    fmt::format("found with {}, allowed: with ddp", options.kind));
  }
  diagnostics.ThrowIfAny();
}

void Validate(const ValidateOptions& options, const Session& session) {
  std::vector<std::string> names;
  for (const Kind& kind : kKinds) {
    if (kind.name == options.kind) {
      CheckOptions(options);
      return kind.validate(options, session);
    }
    names.emplace_back(kind.name);
  }
  throw ConfigError(Place{}, fmt::format("validate: found '{}', allowed: {}{}", options.kind,
                                         fmt::join(names, ", "), DidYouMean(options.kind, names)));
}

std::string KindHelp() {
  std::string help;
  for (const Kind& kind : kKinds) {
    help += fmt::format("{}{}: {}", help.empty() ? "" : "; ", kind.name, kind.doc);
  }
  return help;
}

}  // namespace

void RefuseFitOptions(const ValidateOptions& options) {
  const ValidateOptions defaults;
  Diagnostics diagnostics;
  const auto refuse = [&](const char* option, const std::string& value, const std::string& unset) {
    if (value == unset) return;
    diagnostics.Add({option, 0, 0}, fmt::format("found with {}, allowed: with collectives or "
                                                "kernels",
                                                options.kind));
  };
  refuse("--calibrate", options.calibrate, defaults.calibrate);
  refuse("--leave-one-out", options.leave_one_out, defaults.leave_one_out);
  refuse("--corrections", options.corrections, defaults.corrections);
  refuse("--nccl", options.nccl_version, defaults.nccl_version);
  refuse("--fit", options.fit_path, defaults.fit_path);
  diagnostics.ThrowIfAny();
}

std::string MicrosecondsText(double seconds) { return fmt::format("{:.6g}", seconds * 1e6); }

std::string PercentText(double fraction) { return fmt::format("{:.3f}", fraction * 100); }

void CheckMedian(const ValidateOptions& options, double median) {
  if (!options.most_median || median * 100 <= *options.most_median) return;
  throw CheckFailed(fmt::format("the median error is {:.1f}%, allowed by --max-median: {:g}%",
                                median * 100, *options.most_median));
}

std::string ReadTable(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw ConfigError(Place{path, 0, 0}, "found no such file, or none that may be read");
  const std::size_t limit = CsvLimits{}.max_bytes;
  std::string text;
  std::array<char, 1 << 16> chunk{};
  while (file && text.size() <= limit) {  // a byte more than allowed: the reader says so
    file.read(chunk.data(), chunk.size());
    text.append(chunk.data(), static_cast<std::size_t>(file.gcount()));
  }
  if (text.empty()) {
    throw ConfigError(Place{path, 0, 0}, "found nothing in it, allowed: rows of a table");
  }
  return text;
}

void AddValidateCommand(CLI::App& app, const Session& session) {
  const auto options = std::make_shared<ValidateOptions>();
  app.add_option("kind", options->kind, KindHelp())->required()->type_name("KIND");
  app.add_option("table", options->tables,
                 "measurements (CSV with a header); ddp: its tables in any order")
      ->required()
      ->type_name("TABLE.csv");
  app.add_option("--calibrate", options->calibrate,
                 "none; two-point: predictions are told the smallest and the largest size of each "
                 "curve; knots: every second size. Points told are not scored")
      ->type_name("HOW");
  app.add_option(
         "--leave-one-out", options->leave_one_out,
         "system: predict each cluster by corrections fitted on the others of the table; shape: "
         "predict each matrix product by curves fitted without its m, n, k")
      ->type_name("WHAT");
  app.add_option("--corrections", options->corrections,
                 "corrections of NCCL's table: a file of configs/collectives, or none")
      ->type_name("NAME");
  app.add_option("--nccl", options->nccl_version,
                 "NCCL's version for all rows (default: the table's)")
      ->type_name("VERSION");
  app.add_option("--export", options->export_path, "write one line per point")
      ->type_name("FILE.csv");
  app.add_option("--fit", options->fit_path,
                 "fit to the table and write: corrections of collectives, curves of kernels")
      ->type_name("FILE.yaml");
  app.add_option("--where", options->where, "steps: rows of which this holds")
      ->type_name("EXPRESSION");
  app.add_option("--by", options->by, "steps: errors by these columns of the table")
      ->delimiter(',')
      ->type_name("COLUMN,...");
  app.add_option("--jobs", options->jobs, "steps: threads (default: all cores)")
      ->check(CLI::Range(1, 4096))
      ->type_name("N");
  app.add_option("--max-median", options->most_median,
                 "memory, ddp: exit 4 where the median of |error| is larger")
      ->check(CLI::NonNegativeNumber)
      ->type_name("PERCENT");
  app.add_option("--write-jobs", options->jobs_path,
                 "ddp: write the job of each link and network, for `stepsim run`, to a folder")
      ->type_name("FOLDER");
  app.callback([options, &session] { Validate(*options, session); });
}

}  // namespace stepsim
