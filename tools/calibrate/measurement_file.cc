#include "tools/calibrate/measurement_file.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "sim/base/diagnostics.h"

namespace stepsim::measure {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kSchema = "stepsim.measurements/1";

Json Fields(const GemmTask& task) {
  return {{"m", task.m}, {"n", task.n}, {"k", task.k}, {"dtype", task.dtype}};
}

Json Fields(const LaunchTask& task) { return {{"op", ToString(task.op)}}; }

Json Fields(const MemoryTask& task) { return {{"op", ToString(task.op)}, {"bytes", task.bytes}}; }

Json Fields(const AttentionTask& task) {
  return {{"batch", task.batch},    {"heads", task.heads},       {"seq_q", task.sequence},
          {"seq_k", task.sequence}, {"head_dim", task.head_dim}, {"causal", task.causal},
          {"dtype", task.dtype},    {"direction", "forward"}};
}

Json Fields(const CollectiveTask& task) {
  return {{"op", ToString(task.op)},
          {"bytes", task.bytes},
          {"in_place", task.in_place},
          {"max_ctas", task.max_ctas}};
}

Json LoadFields(const CopyLoad& load) { return {{"kind", "copy"}, {"sms", load.sms}}; }

Json LoadFields(const CollectiveLoad& load) {
  Json json = {{"kind", "collective"}};
  json.update(Fields(load.collective));
  if (load.is_polled) json["polled"] = *load.is_polled;
  return json;
}

Json Fields(const InterferenceTask& task) {
  Json compute = {{"kind", "gemm"}};
  compute.update(Fields(task.compute));
  return {{"compute", compute},
          {"beside", std::visit([](const auto& load) { return LoadFields(load); }, task.beside)}};
}

// Backslashes and bytes that are no UTF-8 (a device's name, an argument) must not end the program.
std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string HeaderLine(const FileHeader& header) {
  const DeviceFacts& facts = header.facts;
  const Json json = {{"schema", kSchema},
                     {"date", header.date},
                     {"command", header.command},
                     {"backend", facts.backend},
                     {"device", facts.device},
                     {"driver", facts.driver},
                     {"libraries", Json(facts.libraries)},
                     {"ranks", header.ranks},
                     {"nodes", header.nodes},
                     {"clocks", Json(facts.clocks)}};
  return Dump(json);
}

std::string MeasurementLine(const Measured& measured) {
  Json json = {{"kind", KindOf(measured.task)}};
  json.update(std::visit([](const auto& task) { return Fields(task); }, measured.task));
  if (IsCollective(measured.task)) {
    Json& where = std::holds_alternative<CollectiveTask>(measured.task) ? json : json["beside"];
    where["ranks"] = measured.ranks;
    where["nodes"] = measured.nodes;
  }
  for (const auto& [key, value] : measured.facts) json[key] = value;
  Spread spread = measured.columns.front();
  if (std::holds_alternative<InterferenceTask>(measured.task)) {
    spread = measured.columns.at(1);
    json["compute_alone_s"] = measured.columns.at(0).median;
    json["compute_beside_s"] = measured.columns.at(1).median;
    json["beside_alone_s"] = measured.columns.at(2).median;
    json["beside_beside_s"] = measured.columns.at(3).median;
  }
  json["median_s"] = spread.median;
  json["p10_s"] = spread.p10;
  json["p90_s"] = spread.p90;
  json["repeats"] = measured.repeats;
  if (!measured.note.empty()) json["note"] = measured.note;
  return Dump(json);
}

MeasurementFile::MeasurementFile(std::string path, bool overwrite) : path_(std::move(path)) {
  std::error_code error;
  if (!overwrite && std::filesystem::exists(path_, error)) {
    throw ConfigError(Place{}, fmt::format("--output {}: found a file of this name, allowed: a new "
                                           "one, or --overwrite",
                                           path_));
  }
  out_.open(path_, std::ios::binary | std::ios::trunc);
  if (!out_) {
    throw ConfigError(Place{}, fmt::format("--output {}: cannot be written, allowed: a file in a "
                                           "folder that is there",
                                           path_));
  }
}

void MeasurementFile::WriteLine(const std::string& line) {
  out_ << line << '\n';
  out_.flush();
  if (!out_) throw MeasureError(fmt::format("{}: cannot be written any more: disk full?", path_));
}

}  // namespace stepsim::measure
