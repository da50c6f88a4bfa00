#include "tests/fuzz/fuzz_targets.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "models/calibration/benchmark_csv.h"
#include "models/calibration/calibrate.h"
#include "models/calibration/collective_validation.h"
#include "models/calibration/csv_table.h"
#include "models/calibration/kernel_table.h"
#include "models/calibration/live_link.h"
#include "models/calibration/measurement_file.h"
#include "models/calibration/memory_table.h"
#include "models/calibration/nccl_log.h"
#include "models/calibration/train_log.h"
#include "models/chakra/chakra_graph.h"
#include "models/import/import_job.h"
#include "models/pipeline/check_schedule.h"
#include "models/pipeline/lowering.h"
#include "models/pipeline/replay.h"
#include "models/pipeline/schedule_csv.h"
#include "models/spec/config_source.h"
#include "models/spec/load_job.h"
#include "models/trace/measured_run.h"
#include "sim/base/diagnostics.h"
#include "sim/config/condition.h"
#include "sim/config/read_toml.h"

namespace stepsim {
namespace {

const MemoryConfigSource& Source() {
  static const MemoryConfigSource source(std::map<std::string, std::string>{
      {"hardware/box.yaml",
       "{name: box, gpus_per_node: 4, gpu: {name: chip, peak: {fp32: 1 TFLOP/s, fp16: 1 TFLOP/s, "
       "bf16: 1 TFLOP/s}, hbm_bandwidth: 1 "
       "TB/s, memory: 80 GiB, sms: 100}, intra_node: {type: nvlink, bandwidth: 1 GB/s}, network: "
       "{name: n, link: {type: infiniband, bandwidth: 1 Gb/s}}}"},
      {"models/tiny.yaml",
       "{name: tiny, transformer: {layers: 2, hidden_size: 8, heads: 2, ffn_size: 8, vocab_size: "
       "9}}"},
      {"models/llama-3-8b.yaml",
       "{name: llama-3-8b, transformer: {layers: 2, hidden_size: 8, heads: 2, ffn_size: 8, "
       "vocab_size: 9}}"},
      {"ds.json", "{\"zero_optimization\": {\"stage\": 2}, \"train_batch_size\": 16}"},
      {"networks/slow.yaml", "{name: slow, link: {type: ethernet, bandwidth: 1 Gb/s}}"},
      {"a.yaml", "{base: a.yaml}"},
  });
  return source;
}

// What is accepted must be accepted again when it is written out, and mean the same.
void CheckRoundTrip(const ResolvedJob& resolved) {
  const ResolvedJob again = LoadJobText(resolved.resolved_json, "again.json", {}, Source());
  if (again.resolved_json != resolved.resolved_json) std::abort();
}

}  // namespace

void FuzzConfig(std::string_view bytes) {
  try {
    // A first line "--set path=value" is a setting.
    std::vector<std::string> sets;
    constexpr std::string_view kSet = "--set ";
    while (bytes.substr(0, kSet.size()) == kSet) {
      const std::size_t end = std::min(bytes.find('\n'), bytes.size());
      sets.emplace_back(bytes.substr(kSet.size(), end - kSet.size()));
      bytes.remove_prefix(std::min(end + 1, bytes.size()));
    }
    CheckRoundTrip(LoadJobText(bytes, "fuzz.yaml", sets, Source()));
  } catch (const ConfigError& error) {
    if (error.diagnostics().empty()) std::abort();
  }
}

void FuzzHfConfig(std::string_view bytes) {
  try {
    LoadModelText(bytes, "config.json");
  } catch (const ConfigError& error) {
    if (error.diagnostics().empty()) std::abort();
  }
}

void FuzzToml(std::string_view bytes) {
  try {
    const ConfigNode root = ReadToml(bytes, "fuzz.toml", {.max_bytes = 1 << 20});
    for (const ConfigEntry& entry : root.entries) {
      if (entry.key_place.line < 1) std::abort();
    }
    WriteJson(root);
  } catch (const ConfigError& error) {
    if (error.diagnostics().size() != 1) std::abort();
  }
}

void FuzzImport(std::string_view bytes) {
  const std::size_t end = std::min(bytes.find('\n'), bytes.size());
  const std::string framework(bytes.substr(0, end));
  bytes.remove_prefix(std::min(end + 1, bytes.size()));
  if (FindImporter(framework) == nullptr) return;
  ImportRequest request;
  request.files.push_back({framework, {"fuzz.txt", std::string(bytes), ""}});
  request.job = SourceFile{"job.yaml",
                           "{model: tiny, hardware: box, nodes: 2, batch: {micro_batch_size: 1, "
                           "sequence_length: 8}}",
                           ""};
  try {
    CheckRoundTrip(LoadImportedJob(request, {}, Source()));
  } catch (const ConfigError& error) {
    if (error.diagnostics().empty()) std::abort();
  }
}

void FuzzCsv(std::string_view bytes) {
  try {
    const CsvTable table = ParseCsv(bytes, "fuzz.csv", {.max_bytes = 1 << 20, .max_columns = 64});
    const std::string first = table.columns().front();
    CsvReader reader(table, {first});
    for (std::size_t row = 0; row < table.rows(); ++row) {
      if (table.PlaceOf(row, 0).line < 1) std::abort();
      const auto number = reader.Positive(row, first);
      if (number && !(*number > 0)) std::abort();
      reader.PositiveInteger(row, first);
    }
    for (const KernelRow& kernel : ReadKernelTable(table).rows) {
      if (!(kernel.seconds > 0) || kernel.work.bytes.value <= 0) std::abort();
    }
    reader.ThrowIfAny();
  } catch (const ConfigError& error) {
    if (error.diagnostics().empty()) std::abort();
  }
}

void FuzzMeasuredTable(std::string_view bytes) {
  constexpr std::size_t kMostRows = 64;  // fits take time
  try {
    std::vector<MeasuredCollective> points = ReadMeasuredCollectives(bytes, "fuzz.csv");
    if (points.size() > kMostRows) points.resize(kMostRows);
    const CollectiveValidation validation(std::move(points), Source());
    const CollectiveCorrections fitted = validation.Fit("fuzz");
    for (const bool leave_one_out : {false, true}) {
      for (const KnownSizes how : {KnownSizes::kNone, KnownSizes::kTwoPoint, KnownSizes::kKnots}) {
        for (const Prediction& p : validation.Predict(
                 {.calibration = how, .corrections = fitted, .leave_one_out = leave_one_out})) {
          if (p.is_predicted && !(p.seconds > 0 && p.seconds < 1e30)) std::abort();
        }
      }
    }
  } catch (const ConfigError& error) {
    if (error.diagnostics().empty()) std::abort();
  }
}

void FuzzLiveSweep(std::string_view bytes) {
  constexpr std::string_view kBetween = "---\n";
  try {
    std::vector<CsvTable> tables;
    while (tables.size() < 8) {
      const std::size_t end = bytes.find(kBetween);
      tables.push_back(
          ParseCsv(bytes.substr(0, end), "fuzz.csv", {.max_bytes = 1 << 20, .max_columns = 64}));
      if (end == std::string_view::npos) break;
      bytes.remove_prefix(end + kBetween.size());
    }
    const LiveSweep sweep = ReadLiveSweep(tables);
    for (std::size_t i = 0; i < std::min<std::size_t>(sweep.steps.size(), 16); ++i) {
      const LiveStep& step = sweep.steps[i];
      const LiveLink link = FitLink(sweep, ParseExperiment(step.link, step.config), step.config, 1);
      const bool is_sound = link.curve.bandwidth.value > 0 && link.core_demand >= 0 &&
                            link.core_demand <= 1 && link.core_wait >= 0;
      if (!is_sound) std::abort();
    }
  } catch (const ConfigError& error) {
    if (error.diagnostics().empty()) std::abort();
  }
}

namespace {

template <class T>
void Shorten(std::vector<T>& list, std::size_t most) {
  if (list.size() > most) list.resize(most);
}

// Fits take their time: a few of each are enough to go wrong.
void CheckCalibration(Measurements measured) {
  Shorten(measured.gemms, 8);
  Shorten(measured.attention, 4);
  Shorten(measured.collectives, 48);
  Shorten(measured.interference, 8);
  const ResolvedJob plain = LoadJobText("{model: tiny, hardware: box}", "job.yaml", {}, Source());
  const HardwareSpec& base = plain.job.hardware;
  const FittedCalibration calibration = Calibrate(measured, base, "fuzz");
  const MemoryConfigSource files(
      std::map<std::string, std::string>{{"c.yaml", CalibrationYaml(calibration, base)}});
  // Whatever was measured: what is written can be read.
  try {
    LoadJobText(plain.resolved_json, "job.json", {"calibration=c.yaml"}, files);
  } catch (const ConfigError&) {
    std::abort();
  }
}

}  // namespace

void FuzzMeasuredLog(std::string_view bytes) {
  const std::string name = "log";
  const NcclLogDefaults defaults{.op = CollectiveOp::kAllReduce, .ranks = 4, .nodes = 2};
  const auto attempt = [](auto read) {
    try {
      CheckCalibration(read());
    } catch (const ConfigError&) {
    }
  };
  attempt([&] { return ReadMeasurementFile(bytes, name); });
  attempt([&] { return ReadNcclLog(bytes, name); });
  attempt([&] { return ReadNcclLog(bytes, name, defaults); });
  attempt([&] { return ReadCollectiveCsv(bytes, name); });
  attempt([&] { return ReadGemmCsv(bytes, name); });
  try {
    for (const LogSeries& series : ReadTrainLog(bytes, name).series) {
      if (!(series.median > 0) || !std::isfinite(series.median)) std::abort();
    }
  } catch (const ConfigError&) {
  }
}

void FuzzMemoryTable(std::string_view bytes) {
  try {
    const CsvTable csv = ParseCsv(bytes, "fuzz.csv");
    for (const MemoryRow& row : ReadMemoryTable(csv).rows) {
      const MemoryEstimate estimate = EstimateMemory(row.job);
      if (!std::isfinite(estimate.total) || estimate.total < 0) std::abort();
      for (const auto& [name, part] : estimate.parts) {
        if (!(part >= 0)) std::abort();
      }
    }
  } catch (const ConfigError& error) {
    if (error.diagnostics().empty()) std::abort();
  }
}

void FuzzSchedule(std::string_view bytes) {
  try {
    const ScheduleFile file = ReadScheduleCsv(bytes, "fuzz.csv");
    const PipelineSchedule compute = ComputeOnly(file.schedule);
    if (!InvalidActions(compute).empty()) return;
    if (!WaitCycle(compute).empty()) return;
    const ScheduleReplay replay = Replay(compute);
    if (!replay.is_complete || !IsWorkConserving(compute, replay)) std::abort();
    if (ComputeOnly(Lower(compute)).ranks != compute.ranks) std::abort();
    const std::string csv = WriteScheduleCsv(file.schedule);
    if (ReadScheduleCsv(csv, "again.csv").schedule.ranks != file.schedule.ranks) std::abort();
  } catch (const ConfigError& error) {
    if (error.diagnostics().size() != 1) std::abort();
  }
}

void FuzzCondition(std::string_view bytes) {
  static const std::vector<ConditionName> known = {
      {"nodes", {}},
      {"memory", {ConditionKind::kNumber, Unit::kBytes, 0, {}}},
      {"step_time_s", {ConditionKind::kNumber, Unit::kTime, 1, {}}},
      {"network", {ConditionKind::kText, Unit::kNone, 0, {}}},
      {"plan.strategy", {ConditionKind::kText, Unit::kNone, 0, {"ddp", "fsdp2"}}},
      {"is_fast", {ConditionKind::kBool, Unit::kNone, 0, {}}}};
  try {
    const Condition condition(bytes, {"fuzz", 0, 0}, known);
    std::vector<ConditionValue> values(condition.names().size());
    condition.Holds(values);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const ConditionKind kind = condition.names()[i].type.kind;
      if (kind == ConditionKind::kNumber) values[i] = 4.0;
      if (kind == ConditionKind::kText) values[i] = std::string("ddp");
      if (kind == ConditionKind::kBool) values[i] = true;
    }
    condition.Holds(values);
    condition.DescribeValues(values);
  } catch (const ConfigError& error) {
    if (error.diagnostics().size() != 1) std::abort();
  }
}

void FuzzTrace(std::string_view bytes) {
  try {
    // Twice: two ranks with the same calls.
    const MeasuredRun run = ReadTraceTexts({{"a.json", bytes}, {"b.json", bytes}}, {});
    const RunReporter reporter(run);
    reporter.Report(ChooseStep(run, {StepChoice::Kind::kAll}));
    reporter.Report(ChooseStep(run, {}));
  } catch (const ConfigError& error) {
    if (error.diagnostics().empty()) std::abort();
  }
}

void FuzzChakra(std::string_view bytes) {
  try {
    ClusterSpec pair;
    pair.gpus_per_node = 2;
    const std::vector<ChakraTrace> traces(2, ReadChakra(bytes, "fuzz.et"));
    BuildChakraStep(traces, pair, {});
  } catch (const ConfigError&) {
  }
}

}  // namespace stepsim
