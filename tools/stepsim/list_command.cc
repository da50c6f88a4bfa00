// stepsim list: everything that a job can name.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "models/import/importers.h"
#include "models/parallel/strategy.h"
#include "models/pipeline/schedule.h"
#include "models/spec/load_job.h"
#include "models/spec/nccl_choice.h"
#include "models/workload/model_flops.h"
#include "sim/base/diagnostics.h"
#include "sim/metrics/metric_table.h"
#include "sim/report/wrap_text.h"
#include "sim/report/writer.h"
#include "tools/stepsim/command.h"
#include "tools/sweep/sweep.h"

namespace stepsim {
namespace {

using Rows = std::vector<std::pair<std::string, std::string>>;  // name, what it is

// A file that cannot be read is listed with its problem: the list is how one finds it.
template <class Describe>
Rows ListFiles(const ConfigSource& configs, ConfigKind kind, Describe describe) {
  Rows rows;
  for (const std::string& name : configs.Names(kind)) {
    const auto file = configs.FindNamed(kind, name);
    if (!file.has_value()) continue;
    try {
      rows.emplace_back(name, file->error.empty() ? describe(*file) : file->error);
    } catch (const ConfigError& error) {
      rows.emplace_back(name, "error: " + error.diagnostics().front().ToString());
    }
  }
  return rows;
}

template <class Table>
Rows ListTable(const Table& table) {
  Rows rows;
  for (const auto& row : table) rows.emplace_back(row.name, row.doc);
  return rows;
}

Rows ListHardware(const ConfigSource& configs) {
  return ListFiles(configs, ConfigKind::kHardware, [](const SourceFile& file) {
    return LoadHardwareText(file.text, file.name).description;
  });
}

Rows ListNetworks(const ConfigSource& configs) {
  return ListFiles(configs, ConfigKind::kNetworks, [](const SourceFile& file) {
    const NetworkSpec network = LoadNetworkText(file.text, file.name);
    return fmt::format("{} x {:g} Gb/s {} per node", network.nics_per_node,
                       network.link.bandwidth.value * 8 / 1e9, network.link.type);
  });
}

Rows ListModels(const ConfigSource& configs) {
  return ListFiles(configs, ConfigKind::kModels, [](const SourceFile& file) {
    return LoadModelText(file.text, file.name).description;
  });
}

template <class Names>
Rows ListNames(const Names& names) {
  Rows rows;
  for (const std::string_view name : names) rows.emplace_back(name, "");
  return rows;
}

Rows ListCorrections(const ConfigSource& configs) {
  return ListFiles(configs, ConfigKind::kCollectives, [](const SourceFile& file) {
    return LoadCorrectionsText(file.text, file.name).description;
  });
}

Rows ListCalibrations(const ConfigSource& configs) {
  return ListFiles(configs, ConfigKind::kCalibrations, [](const SourceFile& file) {
    const CalibrationSpec calibration = LoadCalibrationText(file.text, file.name);
    return fmt::format("{}{}over {}", calibration.description,
                       calibration.description.empty() ? "" : "; ", calibration.fitted_over);
  });
}

Rows ListJobs(const ConfigSource& configs) {
  return ListFiles(configs, ConfigKind::kJobs, [&](const SourceFile& file) {
    const JobSpec job = LoadJobText(file.text, file.name, {}, configs).job;
    return job.name.empty() ? job.model.name + " on " + job.hardware.name : job.name;
  });
}

Rows ListSweeps(const ConfigSource& configs) {
  return ListFiles(configs, ConfigKind::kSweeps, [&](const SourceFile& file) {
    Diagnostics problems;
    const ConfigNode root = configs.ReadTree(file.text, file.name, problems);
    return ReadSweep(root, file.name, std::move(problems)).name;
  });
}

Rows ListMetrics(const ConfigSource&) {
  Rows rows;
  for (const Metric& metric : Metrics()) {
    rows.emplace_back(metric.name, fmt::format("[{}] {}", metric.unit, metric.doc));
  }
  return rows;
}

Rows ListWriters(const ConfigSource&) {
  Rows rows;
  for (const Writer& writer : Writers()) rows.emplace_back(writer.suffix, writer.doc);
  return rows;
}

struct Kind {
  std::string_view name;
  std::string_view doc;
  Rows (*rows)(const ConfigSource&);
};
constexpr std::array kKinds = {
    Kind{"hardware", "GPU, links in the node, network: `hardware:` of a job", ListHardware},
    Kind{"networks", "overlays: `network:` of a job", ListNetworks},
    Kind{"models", "network descriptions: `model:` of a job", ListModels},
    Kind{"jobs", "shipped examples: `stepsim run <name>`", ListJobs},
    Kind{"sweeps", "shipped examples: `stepsim sweep <name>`", ListSweeps},
    Kind{"frameworks", "kinds of files for --from",
         [](const ConfigSource&) { return ListTable(Importers()); }},
    Kind{"algorithms", "of collectives: `collectives.algorithm`, `stepsim cost --algo`",
         [](const ConfigSource&) { return ListNames(NcclAlgorithmNames()); }},
    Kind{"protocols", "of collectives: `collectives.protocol`, `stepsim cost --proto`",
         [](const ConfigSource&) { return ListNames(NcclProtocolNames()); }},
    Kind{"corrections", "of NCCL's table: `collectives.corrections`", ListCorrections},
    Kind{"calibrations", "of real systems: `calibration:` of a job, --calibration",
         ListCalibrations},
    Kind{"strategies", "`plan.strategy`",
         [](const ConfigSource&) { return ListTable(Strategies()); }},
    Kind{"schedules", "of pipelines: `stepsim schedule`",
         [](const ConfigSource&) { return ListTable(Schedules()); }},
    Kind{"mfu_conventions", "`mfu_convention`",
         [](const ConfigSource&) { return ListTable(FlopConventions()); }},
    Kind{"metrics", "numbers of a result", ListMetrics},
    Kind{"writers", "endings of --export", ListWriters},
};

// Into a file one line per row; on a terminal long ones break at its width.
void Print(const Kind& kind, const ConfigSource& configs, const CliStreams& streams) {
  constexpr std::size_t kAnyNumber = std::numeric_limits<std::size_t>::max();
  constexpr std::size_t kNarrowest = 20;
  const Rows rows = kind.rows(configs);
  std::size_t width = 0;
  for (const auto& [name, doc] : rows) width = std::max(width, name.size());
  const std::size_t indent = width + 4;
  const std::size_t room = streams.terminal_width == 0
                               ? kAnyNumber
                               : std::max(streams.terminal_width, indent + kNarrowest) - indent;
  streams.out << fmt::format("{}  ({})\n", kind.name, kind.doc);
  for (const auto& [name, doc] : rows) {
    if (doc.empty()) {
      streams.out << fmt::format("  {}\n", name);
      continue;
    }
    std::string head = fmt::format("  {:<{}}  ", name, width);
    for (const std::string& line : WrapText(doc, room, kAnyNumber)) {
      streams.out << head << line << '\n';
      head.assign(indent, ' ');
    }
  }
}

}  // namespace

void AddListCommand(CLI::App& app, const Session& session) {
  const auto chosen = std::make_shared<std::string>();
  std::vector<std::string> names;
  for (const Kind& kind : kKinds) names.emplace_back(kind.name);
  app.add_option("kind", *chosen, fmt::format("one of: {} (default: all)", fmt::join(names, ", ")))
      ->type_name("KIND");
  app.callback([chosen, names, &session] {
    const auto configs = session.Configs();
    bool found = chosen->empty();
    for (const Kind& kind : kKinds) {
      if (!chosen->empty() && kind.name != *chosen) continue;
      if (chosen->empty() && &kind != &kKinds.front()) session.streams.out << '\n';
      Print(kind, *configs, session.streams);
      found = true;
    }
    if (found) return;
    throw ConfigError(Place{}, fmt::format("list: found '{}', allowed: {}{}", *chosen,
                                           fmt::join(names, ", "), DidYouMean(*chosen, names)));
  });
}

}  // namespace stepsim
