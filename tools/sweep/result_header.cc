#include "tools/sweep/result_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "sim/base/units.h"

namespace stepsim {
namespace {

using Json = nlohmann::ordered_json;

// FNV-1a, 64 bits: tells sweeps apart, keeps nobody out.
class Hash {
 public:
  void Add(std::string_view text) {
    for (const char c : text) AddByte(static_cast<unsigned char>(c));
    AddByte(0xff);  // never a byte of a text: "ab", "c" is not "a", "bc"
  }
  std::string Text() const { return fmt::format("{:016x}", value_); }

 private:
  void AddByte(unsigned byte) { value_ = (value_ ^ byte) * 0x100000001b3ULL; }

  std::uint64_t value_ = 0xcbf29ce484222325ULL;
};

// Files that an axis names may change while the sweep's own text stays the same.
void AddReferences(const Sweep& sweep, const JobVariants& variants, Hash& hash) {
  for (const Axis* axis : sweep.axes()) {
    if (!axis->field.IsReference()) continue;
    for (const AxisValue& value : axis->values) {
      try {
        hash.Add(variants.With({axis->field.path() + "=" + value.set}).resolved_json);
      } catch (const ConfigError& error) {
        hash.Add(error.what());
        // Found wrong by itself, not in its combination with the job.
        const std::string start = axis->field.path() + ":";
        for (const Diagnostic& d : error.diagnostics()) {
          if (d.message.rfind(start, 0) == 0) throw;
        }
      }
    }
  }
}

}  // namespace

ResultHeader MakeHeader(const Grid& grid, const Shard& shard, const JobVariants& variants,
                        const std::string& version) {
  const Sweep& sweep = grid.sweep();
  ResultHeader header;
  header.sweep = sweep.name;
  header.version = version;
  header.points = grid.total();
  header.shard = shard;
  header.shard_points = PointsOfShard(grid.total(), shard);
  for (const Axis* axis : sweep.axes()) {
    const FieldRow& row = axis->field.row();
    const bool is_quantity = row.unit != Unit::kNone;
    header.axes.push_back({axis->field.path(),
                           is_quantity ? std::string(BaseUnit(row.unit)) : row.unit_note,
                           is_quantity});
  }
  for (const Metric& metric : sweep.metrics) header.metrics.emplace_back(metric.name);
  header.curve = sweep.curve;
  Hash hash;
  hash.Add(version);
  hash.Add(sweep.text);
  hash.Add(variants.base().resolved_json);
  AddReferences(sweep, variants, hash);
  header.hash = hash.Text();
  return header;
}

std::string WriteHeader(const ResultHeader& header) {
  Json axes = Json::array();
  for (const ResultHeader::Axis& axis : header.axes) {
    axes.push_back({{"path", axis.path}, {"unit", axis.unit}, {"is_quantity", axis.is_quantity}});
  }
  const Json line = {
      {"schema", ResultHeader::kSchema},
      {"sweep", header.sweep},
      {"hash", header.hash},
      {"version", header.version},
      {"points", header.points},
      {"shard", header.shard.Text()},
      {"shard_points", header.shard_points},
      {"axes", std::move(axes)},
      {"metrics", header.metrics},
      {"curve", {{"x", header.curve.x}, {"y", header.curve.y}, {"series", header.curve.series}}}};
  return line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

ResultHeader ReadHeader(std::string_view line, const Place& place) {
  const std::string allowed =
      fmt::format("allowed: a file that stepsim sweep wrote (schema {})", ResultHeader::kSchema);
  const Json json = Json::parse(line, nullptr, false);
  if (!json.is_object() || !json.contains("schema") || !json["schema"].is_string()) {
    throw ConfigError(place, fmt::format("found no header of a sweep, {}", allowed));
  }
  const auto schema = json["schema"].get<std::string>();
  if (schema != ResultHeader::kSchema) {
    throw ConfigError(place, fmt::format("found the schema '{}', {}", schema, allowed));
  }
  const auto count = [&](const char* key) {
    if (json.at(key).is_number_unsigned()) return json.at(key).get<std::uint64_t>();
    throw ConfigError(place, fmt::format("found no number of {}, {}", key, allowed));
  };
  try {
    ResultHeader header;
    header.sweep = json.at("sweep");
    header.hash = json.at("hash");
    header.version = json.at("version");
    header.points = count("points");
    header.shard = ParseShard(json.at("shard").get<std::string>(), place);
    header.shard_points = count("shard_points");
    if (header.points == 0 || header.shard_points > header.points) {
      throw ConfigError(place, fmt::format("found {} of {} points, {}", header.shard_points,
                                           header.points, allowed));
    }
    for (const Json& axis : json.at("axes")) {
      header.axes.push_back({axis.at("path"), axis.at("unit"), axis.at("is_quantity")});
    }
    for (const Json& metric : json.at("metrics")) header.metrics.push_back(metric);
    header.curve.x = json.at("curve").at("x");
    header.curve.y = json.at("curve").at("y");
    for (const Json& path : json.at("curve").at("series")) header.curve.series.push_back(path);
    if (!header.axes.empty() && !header.metrics.empty()) return header;
    throw ConfigError(place, fmt::format("found a header without axes or metrics, {}", allowed));
  } catch (const Json::exception&) {
    throw ConfigError(place, fmt::format("found a broken header, {}", allowed));
  }
}

std::optional<std::uint64_t> IndexOf(std::string_view line) {
  constexpr std::string_view kStart = "{\"index\":";
  if (line.substr(0, kStart.size()) != kStart || line.empty() || line.back() != '}') {
    return std::nullopt;
  }
  std::uint64_t index = 0;
  const char* end = line.data() + line.size();
  const auto read = std::from_chars(line.data() + kStart.size(), end, index);
  if (read.ec != std::errc() || read.ptr == end || *read.ptr != ',') return std::nullopt;
  return index;
}

}  // namespace stepsim
