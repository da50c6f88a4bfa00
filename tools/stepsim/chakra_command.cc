// stepsim chakra: somebody's execution traces, replayed on a machine of our choice.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "models/chakra/chakra_graph.h"
#include "models/contention/contention.h"
#include "models/cost/graph_cost.h"
#include "models/spec/load_cluster.h"
#include "sim/config/read_config.h"
#include "sim/engine/simulate.h"
#include "sim/metrics/build_report.h"
#include "sim/report/writer.h"
#include "tools/stepsim/command.h"
#include "tools/stepsim/result_table.h"
#include "tools/stepsim/write_results.h"

namespace stepsim {
namespace {

struct ChakraCommand {
  std::vector<std::string> files;
  std::string groups;
  std::string compute = "recorded";
  std::string dtype = "bf16";
  std::vector<std::string> sets;
  std::vector<std::string> exports;
  std::map<std::string, std::string> cluster;  // path -> value
  bool is_quiet = false;
};

struct ClusterOption {
  const char* name;
  const char* path;
  const char* type;
  const char* doc;
};
constexpr std::array kClusterOptions = {
    ClusterOption{"--hardware", "hardware", "NAME", "a name of `stepsim list hardware`, or a file"},
    ClusterOption{"--nodes", "nodes", "N", "nodes (default: 1)"},
    ClusterOption{"--gpus-per-node", "gpus_per_node", "G",
                  "ranks per node (default: the profile's GPUs)"},
    ClusterOption{"--network", "network", "NAME", "a name of `stepsim list networks`, or a file"},
};

ClusterSpec LoadClusterOf(const ChakraCommand& command, const ConfigSource& source) {
  Diagnostics diagnostics;
  std::vector<Setting> settings;
  for (const ClusterOption& option : kClusterOptions) {
    const auto given = command.cluster.find(option.path);
    if (given == command.cluster.end()) continue;
    const Place place{fmt::format("{} {}", option.name, given->second), 0, 0};
    settings.push_back({option.path, ReadSetValue(given->second, place), place});
  }
  if (command.cluster.count("hardware") == 0) {
    diagnostics.Add({}, "--hardware: missing, allowed: a name of `stepsim list hardware`");
  }
  for (Setting& setting : ParseSettings(command.sets, diagnostics)) {
    settings.push_back(std::move(setting));
  }
  return LoadCluster(settings, source, std::move(diagnostics));
}

std::vector<ChakraTrace> ReadTraces(const ChakraCommand& command, const ConfigSource& source) {
  std::vector<ChakraTrace> traces;
  for (const std::string& file : command.files) {
    const SourceFile text = source.ReadFile(file);
    if (!text.error.empty()) throw ConfigError({file, 0, 0}, text.error);
    traces.push_back(ReadChakra(text.text, text.name));
  }
  return traces;
}

StepContext ContextOf(const ChakraCommand& command, const ChakraStep& step,
                      const ClusterSpec& cluster) {
  StepContext context;
  context.job = fmt::format("{} Chakra {} on {} x {}", command.files.size(),
                            command.files.size() == 1 ? "trace" : "traces", cluster.ranks(),
                            cluster.hardware.gpu.name);
  context.job_file = command.files.front();
  context.hardware = cluster.hardware.name;
  context.gpus = cluster.ranks();
  context.peak = PeakOf(cluster.hardware.gpu, step.job.precision.compute);
  context.peak_dtype = step.job.precision.compute;
  context.gpu_memory = cluster.hardware.gpu.memory;
  context.notes = step.notes;
  context.warnings = step.warnings;
  return context;
}

void Run(const ChakraCommand& command, const Session& session) {
  const std::vector<ExportTarget> exports = ParseExports(command.exports);
  const auto source = session.Configs();
  const ClusterSpec cluster = LoadClusterOf(command, *source);
  ChakraOptions options;
  options.keeps_durations = command.compute == "recorded";
  options.dtype = *ParseDType(command.dtype);
  if (!command.groups.empty()) {
    const SourceFile text = source->ReadFile(command.groups);
    if (!text.error.empty()) throw ConfigError({command.groups, 0, 0}, text.error);
    options.groups = ReadChakraGroups(text.text, text.name);
  }
  const std::vector<ChakraTrace> traces = ReadTraces(command, *source);
  const ChakraStep step = BuildChakraStep(traces, cluster, options);
  GraphCosts priced = PriceGraph(step.graph, step.job);
  const auto contention = MakeContention(priced.occupancy, step.job);
  const Timeline timeline = Simulate(step.graph, priced.costs, contention.get());
  const StepReport report = BuildReport(step.graph, priced.costs, std::move(priced.choices),
                                        timeline, ContextOf(command, step, cluster));
  WriteResults({step.graph, timeline, report, TraceView::kBoth}, exports, command.is_quiet,
               session);
}

}  // namespace

void AddChakraCommand(CLI::App& app, const Session& session) {
  const auto command = std::make_shared<ChakraCommand>();
  app.add_option("traces", command->files,
                 "Chakra execution traces (.et), one for each rank, in the order of the ranks")
      ->required()
      ->type_name("FILE");
  for (const ClusterOption& option : kClusterOptions) {
    app.add_option_function<std::string>(
           option.name,
           [command, &option](const std::string& text) { command->cluster[option.path] = text; },
           option.doc)
        ->type_name(option.type);
  }
  app.add_option("--set", command->sets, "collectives.algorithm=ring and its like; may repeat")
      ->type_name("PATH=VALUE")
      ->expected(1)
      ->take_all();
  app.add_option("--groups", command->groups,
                 "process groups by name, as in {\"0\": [0, 1]} (default: all ranks)")
      ->type_name("FILE");
  app.add_option("--compute", command->compute,
                 "recorded: kernels take as long as in the trace; model: those with num_ops or "
                 "tensor_size are priced for the hardware")
      ->check(CLI::IsMember({"recorded", "model"}))
      ->capture_default_str();
  app.add_option("--dtype", command->dtype, "of products and of what is reduced")
      ->check(CLI::IsMember({"fp32", "tf32", "bf16", "fp16", "fp8"}))
      ->capture_default_str();
  AddExportOption(app, command->exports);
  app.add_flag("--quiet", command->is_quiet, "no summary");
  app.callback([command, &session] { Run(*command, session); });
}

}  // namespace stepsim
