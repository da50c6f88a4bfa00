// stepsim calibrate: measurements in, a calibration out; without measurements it starts the program
// that makes them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "models/calibration/benchmark_csv.h"
#include "models/calibration/calibrate.h"
#include "models/calibration/collective_names.h"
#include "models/calibration/measurement_file.h"
#include "models/calibration/nccl_log.h"
#include "models/spec/load_cluster.h"
#include "sim/report/writer.h"
#include "tools/stepsim/calibrate_training.h"
#include "tools/stepsim/command.h"
#include "tools/stepsim/measuring_program.h"
#include "tools/stepsim/result_table.h"
#include "tools/stepsim/text_document.h"
#include "tools/stepsim/validate.h"

namespace stepsim {
namespace {

struct CalibrateOptions {
  std::vector<std::string> nccl_logs, measurements, csvs, gemms, logs, jobs, sets, where;
  std::string hardware, output, name, op, backend = "mpi";
  std::int64_t ranks = 0, nodes = 0;
  bool is_quiet = false;

  // `stepsim-calibrate` takes shapes ("4096x11008x4096") with --gemm.
  bool HasGemmFiles() const {
    return std::any_of(gemms.begin(), gemms.end(), [](const std::string& text) {
      return text.find_first_not_of("0123456789x") != std::string::npos;
    });
  }
  bool HasInput() const {
    return !nccl_logs.empty() || !measurements.empty() || !csvs.empty() || !logs.empty() ||
           HasGemmFiles();
  }
};

std::string StemOf(const std::string& path) {
  const std::string file = path.substr(path.find_last_of('/') + 1);
  const std::string stem = file.substr(0, file.find_last_of('.'));
  return stem.empty() ? "calibration" : stem;
}

void CheckOptions(const CalibrateOptions& options, const std::vector<std::string>& unknown) {
  Diagnostics problems;
  for (const std::string& text : unknown) {
    problems.Add({}, fmt::format("found '{}', which means nothing beside measurements", text));
  }
  if (options.output.empty()) {
    problems.Add({}, "-o: missing, allowed: the calibration's file, or - for standard output");
  }
  const bool is_training = !options.logs.empty();
  const bool has_kernels = !options.nccl_logs.empty() || !options.measurements.empty() ||
                           !options.csvs.empty() || !options.gemms.empty();
  if (is_training && has_kernels) {
    problems.Add({"--log", 0, 0}, "found beside measurements, allowed: one of the two");
  }
  if (is_training && options.logs.size() != options.jobs.size()) {
    problems.Add({"--log", 0, 0},
                 fmt::format("found {} logs and {} jobs, allowed: a --job for each --log",
                             options.logs.size(), options.jobs.size()));
  }
  if (!is_training && options.hardware.empty()) {
    problems.Add({},
                 "--hardware: missing, allowed: the profile that the measurements lie over, a "
                 "name of `stepsim list hardware` or a file");
  }
  if (is_training && !options.hardware.empty()) {
    problems.Add({"--hardware", 0, 0}, "found with --log, allowed: without; the jobs have it");
  }
  problems.ThrowIfAny();
}

CsvSelection SelectionOf(const CalibrateOptions& options) {
  CsvSelection selection;
  selection.backend = options.backend;
  selection.nodes = std::max<std::int64_t>(options.nodes, 1);
  for (const std::string& text : options.where) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw ConfigError(Place{"--where " + text, 0, 0}, "found no COLUMN=VALUE");
    }
    selection.where.push_back({text.substr(0, equals), text.substr(equals + 1)});
  }
  return selection;
}

NcclLogDefaults DefaultsOf(const CalibrateOptions& options) {
  NcclLogDefaults defaults;
  defaults.ranks = options.ranks;
  defaults.nodes = options.nodes;
  if (options.op.empty()) return defaults;
  defaults.op = CollectiveNamed(options.op);
  if (!defaults.op) throw ConfigError(Place{}, UnknownCollective("--op", options.op));
  return defaults;
}

// Every file is read before anything fails: all mistakes at once.
Measurements ReadAll(const CalibrateOptions& options) {
  const CsvSelection selection = SelectionOf(options);
  const NcclLogDefaults defaults = DefaultsOf(options);
  Measurements all;
  Diagnostics problems;
  const auto read = [&](const std::vector<std::string>& files, auto reader) {
    for (const std::string& file : files) {
      try {
        all.Append(reader(ReadTable(file), file));
      } catch (const ConfigError& error) {
        for (const Diagnostic& d : error.diagnostics()) problems.Add(d.place, d.message);
      }
    }
  };
  read(options.measurements, [](const std::string& text, const std::string& file) {
    return ReadMeasurementFile(text, file);
  });
  read(options.nccl_logs, [&](const std::string& text, const std::string& file) {
    return ReadNcclLog(text, file, defaults);
  });
  read(options.csvs, [&](const std::string& text, const std::string& file) {
    return ReadCollectiveCsv(text, file, selection);
  });
  read(options.gemms, [&](const std::string& text, const std::string& file) {
    return ReadGemmCsv(text, file, selection);
  });
  problems.ThrowIfAny();
  return all;
}

HardwareSpec LoadBase(const CalibrateOptions& options, const Session& session) {
  const Place place{"--hardware " + options.hardware, 0, 0};
  std::vector<Setting> settings = {{"hardware", MakeText(options.hardware, place), place}};
  Diagnostics problems;
  for (Setting& set : ParseSettings(options.sets, problems)) settings.push_back(std::move(set));
  return LoadCluster(settings, *session.Configs(), std::move(problems)).hardware;
}

}  // namespace

std::string CalibrationSummary(const FittedCalibration& calibration,
                               const std::vector<std::string>& notes, std::size_t width,
                               bool use_colour) {
  TextDocument document;
  const CalibrationSpec& about = calibration.about;
  document.title = fmt::format("calibration {} over {}", about.name, about.fitted_over);
  if (!about.device.empty()) document.headline.push_back(about.device);
  if (!about.date.empty()) document.headline.push_back(about.date);
  for (const std::string& library : about.libraries) document.headline.push_back(library);
  TextTable table{"fits", {"n", "off", "median", "p90", "what: value (range; note)"}, "rrrrl"};
  for (const FitRecord& fit : about.fits) {
    const auto percent = [&](double error) {
      return error > 0 ? fmt::format("{:.1f}%", 100 * error) : std::string("-");
    };
    std::string text = fit.what;
    if (!fit.value.empty()) text += ": " + fit.value;
    if (!fit.range.empty() || !fit.note.empty()) {
      text += fmt::format(" ({}{}{})", fit.range, fit.range.empty() || fit.note.empty() ? "" : "; ",
                          fit.note);
    }
    table.rows.push_back({std::to_string(fit.points), std::to_string(fit.outliers),
                          percent(fit.residual), percent(fit.residual_p90), std::move(text)});
  }
  table.remarks.push_back(
      "n: measurements; off: of them so far from the rest that they count for nothing; median and "
      "p90 of |error|, of curves and types with enough measurements those of what was left out");
  document.tables.push_back(std::move(table));
  for (const std::string& note : notes) document.last.push_back({"note", note});
  return TerminalText(document, width, use_colour);
}

void WriteCalibration(const FittedCalibration& calibration, const HardwareSpec& base,
                      const std::vector<std::string>& notes, const std::string& output,
                      bool is_quiet, const Session& session) {
  const std::string yaml = CalibrationYaml(calibration, base);
  const bool is_stdout = IsStandardOutput(output);
  std::ostream& text = is_stdout ? session.streams.err : session.streams.out;
  if (!is_quiet) {
    const std::size_t width = is_stdout ? 0 : session.streams.terminal_width;
    text << CalibrationSummary(calibration, notes, width == 0 ? kSummaryWidth : width,
                               !is_stdout && session.streams.use_colour);
  }
  if (is_stdout) {
    session.streams.out << yaml;
    return;
  }
  WriteFileAtomically(output, yaml);
  if (!is_quiet) text << fmt::format("wrote {}\n", output);
}

namespace {

void Run(const CalibrateOptions& options, const std::vector<std::string>& unknown,
         const Session& session) {
  if (!options.HasInput()) return StartMeasuringProgram(session);
  CheckOptions(options, unknown);
  const std::string name = options.name.empty() ? StemOf(options.output) : options.name;
  if (!options.logs.empty()) {
    return CalibrateFromTraining(
        {options.logs, options.jobs, options.sets, name, options.output, options.is_quiet},
        session);
  }
  const Measurements all = ReadAll(options);
  const HardwareSpec base = LoadBase(options, session);
  const FittedCalibration calibration = Calibrate(all, base, name);
  WriteCalibration(calibration, base, all.notes, options.output, options.is_quiet, session);
}

}  // namespace

void AddCalibrateCommand(CLI::App& app, const Session& session) {
  const auto options = std::make_shared<CalibrateOptions>();
  const auto add_files = [&app](const char* name, std::vector<std::string>& list, const char* type,
                                const char* doc) {
    app.add_option(name, list, doc)->type_name(type)->take_all();
  };
  add_files("--measurements", options->measurements, "FILE",
            "what `stepsim-calibrate` wrote; several may follow");
  add_files("--nccl-tests", options->nccl_logs, "FILE",
            "output of nccl-tests as it was printed, lines of NCCL_DEBUG=INFO with it where there "
            "are; several may follow");
  add_files("--csv", options->csvs, "FILE",
            "collectives of MPI or gloo: op, bytes, ranks (or world), median_us or the like");
  add_files("--gemm", options->gemms, "FILE", "matrix products: m, n, k, dtype, time_us or tflops");
  add_files("--log", options->logs, "FILE",
            "a training's log (Megatron-LM, torchtitan, DeepSpeed, llm-foundry, NeMo, Lightning); "
            "one for each --job");
  add_files("--job", options->jobs, "JOB", "the job of a --log, in the same order");
  app.add_option("--hardware", options->hardware, "the profile that the measurements lie over")
      ->type_name("NAME");
  app.add_option("-o,--output", options->output, "the calibration's file; - is standard output")
      ->type_name("FILE.yaml");
  app.add_option("--name", options->name, "the calibration's name (default: the file's)");
  app.add_option("--op", options->op, "of tables of nccl-tests without the program's name");
  app.add_option("--ranks", options->ranks, "of tables of nccl-tests without a list of devices")
      ->check(CLI::Range(0, 10'000'000));
  app.add_option("--nodes", options->nodes, "of tables that do not say it")
      ->check(CLI::Range(0, 1'000'000));
  app.add_option("--backend", options->backend,
                 "who carried out the collectives of --csv: mpi, "
                 "gloo, nccl (default: mpi)");
  add_files("--where", options->where, "COLUMN=VALUE", "only these rows of --csv and --gemm");
  add_files("--set", options->sets, "PATH=VALUE", "override one field of the profile or the jobs");
  app.add_flag("-q,--quiet", options->is_quiet, "no table of fits");
  app.allow_extras();      // of `stepsim-calibrate`
  app.fallthrough(false);  // they are nobody else's
  app.callback([options, &app, &session] { Run(*options, app.remaining(), session); });
}

}  // namespace stepsim
