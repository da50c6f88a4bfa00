#include "tools/calibrate/command.h"

#include <fmt/format.h>

#include <chrono>
#include <ctime>
#include <ostream>

#include "models/spec/load_job.h"
#include "sim/base/diagnostics.h"
#include "tools/calibrate/job_shapes.h"
#include "tools/calibrate/measurement_file.h"
#include "tools/calibrate/options.h"
#include "tools/calibrate/progress_line.h"
#include "tools/calibrate/run_plan.h"
#include "tools/calibrate/tcp_peers.h"
#include "tools/calibrate/watchdog.h"

namespace stepsim::measure {
namespace {

constexpr int kLastPort = 65535;

double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string Now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[sizeof "2026-01-31T12:00:00Z"];
  return std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc) > 0 ? text : "";
}

std::string CommandLine(const std::vector<std::string>& arguments) {
  std::string text = "stepsim-calibrate";
  for (const std::string& argument : arguments) text += " " + argument;
  return text;
}

const BackendRow& RowOf(const std::string& name, std::span<const BackendRow> rows) {
  for (const BackendRow& row : rows) {
    if (row.name == name) return row;
  }
  return rows.front();  // the options were checked
}

// Shapes given without a type are measured in every type.
void ExpandTypes(const DeviceLimits& limits, PlanRequest* plan) {
  const auto& types = plan->dtypes.empty() ? limits.dtypes : plan->dtypes;
  std::vector<GemmTask> gemms;
  for (const GemmTask& gemm : plan->gemms) {
    if (!gemm.dtype.empty()) {
      gemms.push_back(gemm);
      continue;
    }
    for (const std::string& type : types) gemms.push_back({gemm.m, gemm.n, gemm.k, type});
  }
  plan->gemms = std::move(gemms);
}

PlanRequest RequestOf(const Options& options, const Program& program) {
  PlanRequest request = options.plan;
  if (options.job.empty()) return request;
  const DirectoryConfigSource source(options.config_folder.empty() ? program.default_configs
                                                                   : options.config_folder);
  JobShapes shapes = ShapesOf(LoadJob(options.job, options.sets, source).job);
  if (shapes.gemms.empty()) {
    throw ConfigError(Place{options.job, 0, 0},
                      "found a network without matrix products of known shape, allowed: "
                      "a transformer, or --gemm MxNxK instead of --job");
  }
  request.gemms = std::move(shapes.gemms);
  request.attention = std::move(shapes.attention);
  if (!options.plan.dtypes.empty()) {
    for (GemmTask& gemm : request.gemms) gemm.dtype.clear();
  }
  return request;
}

std::unique_ptr<Peers> MakePeers(const LaunchContext& context, const Options& options) {
  if (context.launcher == Launcher::kMpi) return OpenMpiPeers();
  if (context.ranks == 1) return std::make_unique<AlonePeers>();
  const int port = options.port > 0 ? options.port : context.master_port % kLastPort + 1;
  return std::make_unique<TcpPeers>(context, port, options.timeout_s);
}

class Listener : public RunListener {
 public:
  Listener(MeasurementFile* file, ProgressLine& progress, Watchdog& watchdog)
      : file_(file), progress_(progress), watchdog_(watchdog) {}

  void OnStart(std::size_t number, const MeasureTask& task) override {
    watchdog_.Pat();
    if (file_ != nullptr) progress_.Show(number, Describe(task));
  }
  void OnSample() override { watchdog_.Pat(); }
  void OnMeasured(const Measured& measured) override {
    if (file_ != nullptr) file_->Write(measured);
  }
  void OnRefused(const MeasureTask& task, const std::string& reason) override {
    if (file_ != nullptr)
      progress_.Say(fmt::format("not measured: {}: {}", Describe(task), reason));
  }

 private:
  MeasurementFile* file_;  // rank 0's
  ProgressLine& progress_;
  Watchdog& watchdog_;
};

int DryRun(const Options& options, const PlanRequest& request, const Program& program,
           const LaunchContext& context) {
  DeviceLimits limits;  // of a large GPU
  limits.sms = 132;
  limits.dtypes = {"bf16", "fp16", "fp8", "tf32"};
  limits.has_cta_limit = true;
  PlanRequest plan_request = request;
  ExpandTypes(limits, &plan_request);
  const auto plan = MakePlan(plan_request, limits, context.ranks);
  for (const PlannedTask& planned : plan) {
    program.out << fmt::format("{}  {}\n", planned.level, Describe(planned.task));
  }
  program.out << fmt::format("{} measurements{}\n", plan.size(),
                             options.budget_s > 0 ? ", as far as the budget reaches" : "");
  return kExitDone;
}

int Measure(const Options& options, PlanRequest request, const std::string& command,
            const Program& program, const BackendRow& row, Peers& peers) {
  const auto backend = row.open(peers);
  const DeviceLimits limits = backend->Limits();
  ExpandTypes(limits, &request);
  const auto plan = MakePlan(request, limits, peers.ranks());
  std::unique_ptr<MeasurementFile> file;
  if (peers.rank() == 0) {
    file = std::make_unique<MeasurementFile>(options.output, options.overwrite);
    file->WriteHeader({Now(), command, backend->Facts(), peers.ranks(), peers.nodes()});
  }
  ProgressLine progress(program.err, plan.size(),
                        {program.is_terminal, options.is_quiet, options.budget_s, Seconds});
  RunOutcome outcome;
  {
    Watchdog watchdog([&peers] { return peers.Lost(); }, options.timeout_s, program.die);
    Listener listener(file.get(), progress, watchdog);
    RunOptions run;
    if (options.budget_s > 0) run.budget_s = options.budget_s;
    run.seconds = Seconds;
    run.is_interrupted = program.is_interrupted;
    outcome = RunPlan(plan, *backend, peers, run, listener);
  }
  peers.Finish();
  if (file == nullptr) return kExitDone;
  progress.Finish();
  program.err << fmt::format("{} measurements in {}\n", outcome.measured, options.output);
  if (const std::string left = LeftOutText(plan, outcome); !left.empty())
    program.err << left << '\n';
  return outcome.end == RunEnd::kInterrupted ? kExitInterrupted : kExitDone;
}

int Run(const Options& options, const std::string& command, const Program& program) {
  const LaunchContext context = ReadLaunchContext(program.environment, HasMpi());
  const PlanRequest request = RequestOf(options, program);
  if (options.is_dry_run) {
    return context.rank == 0 ? DryRun(options, request, program, context) : kExitDone;
  }
  const BackendRow& row = RowOf(options.backend, program.backends);
  if (const std::string missing = row.missing(); !missing.empty()) {
    throw MeasureError(missing);
  }
  const auto peers = MakePeers(context, options);
  try {
    return Measure(options, request, command, program, row, *peers);
  } catch (const std::exception& error) {
    if (peers->ranks() > 1) peers->Abandon(error.what());  // the others must not wait
    throw;
  }
}

}  // namespace

int RunCalibrate(const std::vector<std::string>& arguments, const Program& program) {
  try {
    std::string help;
    const auto options = ReadOptions(arguments, program.backends, &help);
    if (options) return Run(*options, CommandLine(arguments), program);
    program.out << help;
    return kExitDone;
  } catch (const ConfigError& error) {
    for (const Diagnostic& problem : error.diagnostics()) {
      program.err << "error: " << problem.ToString() << '\n';
    }
    return kExitInput;
  } catch (const std::exception& error) {
    program.err << "error: " << error.what() << '\n';
    return kExitFailed;
  }
}

}  // namespace stepsim::measure
