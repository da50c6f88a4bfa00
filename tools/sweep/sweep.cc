#include "tools/sweep/sweep.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "sim/base/nearest.h"
#include "sim/config/describe_fields.h"
#include "sim/config/read_fields.h"

namespace stepsim {
namespace {

// A single text where a list is read.
ConfigNode AsList(ConfigNode node) {
  if (!node.IsScalar()) return node;
  ConfigNode list;
  list.kind = ConfigNode::Kind::kSequence;
  list.place = node.place;
  list.items.push_back(std::move(node));
  return list;
}

void WrapText(ConfigNode& mapping, std::string_view key) {
  if (ConfigEntry* entry = mapping.Find(key)) entry->value = AsList(std::move(entry->value));
}

void Append(const ConfigError& error, Diagnostics& problems) {
  for (const Diagnostic& d : error.diagnostics()) problems.Add(d.place, d.message);
}

class SweepBuilder {
 public:
  SweepBuilder(Sweep& sweep, Diagnostics& problems) : sweep_(sweep), problems_(problems) {
    for (const Axis* axis : sweep.axes()) places_.emplace(axis->field.path(), Place{});
  }

  void AddAxes(const ConfigNode& axes) {
    if (!RequireMapping(axes, "axes", "a mapping of a field to its values")) return;
    for (const ConfigEntry& entry : axes.entries) {
      AxisGroup group;
      if (AddAxis(entry, group)) sweep_.groups.push_back(std::move(group));
    }
    if (axes.entries.empty()) problems_.Add(axes.place, "axes: found none, allowed: at least one");
  }

  void AddZips(const ConfigNode& zips) {
    if (!zips.IsSequence()) {
      problems_.Add(zips.place, fmt::format("zip: found {}, allowed: a list of mappings of a field "
                                            "to its values",
                                            DescribeFound(zips)));
      return;
    }
    for (const ConfigNode& zip : zips.items) AddZip(zip);
  }

  void AddZip(const ConfigNode& zip) {
    if (!RequireMapping(zip, "zip", "a mapping of a field to its values")) return;
    AxisGroup group;
    bool is_complete = !zip.entries.empty();
    for (const ConfigEntry& entry : zip.entries) is_complete &= AddAxis(entry, group);
    if (!is_complete) return;
    std::vector<std::string> lengths;
    for (const Axis& axis : group.axes) {
      lengths.push_back(fmt::format("{} has {}", axis.field.path(), axis.values.size()));
    }
    const bool is_even = std::all_of(group.axes.begin(), group.axes.end(), [&](const Axis& axis) {
      return axis.values.size() == group.size();
    });
    if (!is_even) {
      problems_.Add(zip.place,
                    fmt::format("zip: {}, allowed: lists of one length", fmt::join(lengths, ", ")));
      return;
    }
    sweep_.groups.push_back(std::move(group));
  }

  void AddSet(const ConfigNode& set) {
    if (!RequireMapping(set, "set", "a mapping of a field's path to its value")) return;
    for (const ConfigEntry& entry : set.entries) {
      sweep_.set.push_back(entry.key + "=" + SetText(entry.value));
      try {
        const JobField field = FindJobField(entry.key, entry.key_place);
        NoteField(field.path(), entry.key_place);
      } catch (const ConfigError& error) {
        if (!entry.value.IsMapping()) Append(error, problems_);
      }
    }
  }

  void AddWhere(const std::vector<std::string>& texts, const Place& place) {
    for (const std::string& text : texts) {
      try {
        sweep_.where.emplace_back(text, place);
      } catch (const ConfigError& error) {
        Append(error, problems_);
      }
    }
  }

  void SetMetrics(const std::vector<std::string>& names, const Place& place) {
    sweep_.metrics.clear();
    for (const Metric& metric : Metrics()) {
      const bool is_chosen = std::count(names.begin(), names.end(), metric.name) > 0;
      if (names.empty() || is_chosen) sweep_.metrics.push_back(metric);
    }
    for (const std::string& name : names) RequireMetric(name, "metrics", place);
  }

  void CheckCurve(const Place& place) {
    CurveSpec& curve = sweep_.curve;
    if (!curve.y.empty()) RequireMetric(curve.y, "curve.y", place);
    if (!curve.x.empty()) RequireAxis(curve.x, "curve.x", place);
    for (std::string& path : curve.series) RequireAxis(path, "curve.series", place);
  }

  void CheckCount() {
    double count = 1;
    std::vector<std::string> sizes;
    for (const AxisGroup& group : sweep_.groups) {
      count *= static_cast<double>(group.size());
      sizes.push_back(fmt::format("{}", group.size()));
    }
    if (count <= static_cast<double>(kMostPoints)) return;
    problems_.Add({}, fmt::format("found {} = {:.6g} points, allowed: at most {}",
                                  fmt::join(sizes, " x "), count, kMostPoints));
  }

 private:
  bool RequireMapping(const ConfigNode& node, std::string_view key, std::string_view allowed) {
    if (node.IsMapping()) return true;
    problems_.Add(node.place,
                  fmt::format("{}: found {}, allowed: {}", key, DescribeFound(node), allowed));
    return false;
  }

  bool AddAxis(const ConfigEntry& entry, AxisGroup& group) {
    try {
      Axis axis = ReadAxis(entry.key, entry.key_place, entry.value);
      if (!NoteField(axis.field.path(), entry.key_place)) return false;
      group.axes.push_back(std::move(axis));
      return true;
    } catch (const ConfigError& error) {
      Append(error, problems_);
      return false;
    }
  }

  // A field is set or swept once.
  bool NoteField(const std::string& path, const Place& place) {
    const auto [first, is_new] = places_.emplace(path, place);
    if (is_new) return true;
    const std::string where = first->second.ToString();
    problems_.Add(place, fmt::format("{}: found twice{}, allowed: one axis or setting", path,
                                     where.empty() ? "" : fmt::format(", first at {}", where)));
    return false;
  }

  void RequireMetric(const std::string& name, std::string_view key, const Place& place) {
    std::vector<std::string> names;
    for (const Metric& metric : key == "metrics"
                                    ? std::vector<Metric>(Metrics().begin(), Metrics().end())
                                    : sweep_.metrics) {
      names.emplace_back(metric.name);
    }
    if (std::count(names.begin(), names.end(), name) > 0) return;
    const std::string nearest = Nearest(name, names);
    problems_.Add(place,
                  fmt::format("{}: found '{}', allowed: {}{}", key, name, fmt::join(names, ", "),
                              nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest)));
  }

  // Turns the path into that of the axis.
  void RequireAxis(std::string& path, std::string_view key, const Place& place) {
    std::vector<std::string> paths;
    for (const Axis* axis : sweep_.axes()) {
      const std::string& full = axis->field.path();
      if (full == path || full == "hardware." + path) return void(path = full);
      paths.push_back(full);
    }
    try {
      const std::string full = FindJobField(path, place).path();
      if (std::count(paths.begin(), paths.end(), full) > 0) return void(path = full);
    } catch (const ConfigError&) {
      // The message below names the axes, of which there are few.
    }
    const std::string nearest = Nearest(path, paths);
    problems_.Add(place,
                  fmt::format("{}: found '{}', allowed: {}{}", key, path, fmt::join(paths, ", "),
                              nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest)));
  }

  Sweep& sweep_;
  Diagnostics& problems_;
  std::map<std::string, Place> places_;  // of each field that is set or swept
};

std::string StemOf(const std::string& path) {
  const std::string name = path.substr(path.find_last_of('/') + 1);
  return name.substr(0, name.find_last_of('.'));
}

}  // namespace

const StructTable<CurveSpec>& SweepCurveFields() {
  static const StructTable<CurveSpec> table{
      Field("x", &CurveSpec::x, "the axis along which the curve runs")
          .Unset("the axis of numbers with the most values, of equal ones the last"),
      Field("y", &CurveSpec::y, "a metric (`stepsim list metrics`)").Unset("step_time_s"),
      Field("series", &CurveSpec::series, "axes of which each combination is a curve of its own")
          .Unset("all the other axes"),
  };
  return table;
}

const StructTable<SweepSpec>& SweepFields() {
  using S = SweepSpec;
  static const StructTable<S> table{
      Field("name", &S::name, "for reports").Unset("the file's name"),
      Field<S>::Reference("job", "a name, a file (its path counts from this one) or a mapping"),
      Field<S>::Reference("set", "a mapping of a job's field to its value at every point"),
      Field<S>::Reference("axes",
                          "a mapping of a job's field to a list, a range such as 1:64:x2 or "
                          "8:64:+8, or both; every combination is a point, the last axis runs "
                          "fastest"),
      Field<S>::Reference("zip",
                          "a list of mappings of fields to lists of one length, whose values are "
                          "taken together"),
      Field("where", &S::where,
            "conditions on fields and metrics that a point must fulfil to be kept"),
      Field("metrics", &S::metrics, "metrics that are kept of every point")
          .Unset("all of `stepsim list metrics`"),
      Field("curve", &S::curve, SweepCurveFields(), "what is drawn"),
  };
  return table;
}

namespace {

// A list, or the one text that would be in it.
void AllowText(ConfigNode& schema, std::string_view key) {
  ConfigNode& property = schema.Find("properties")->value.Find(key)->value;
  ConfigNode list = property;
  list.Remove("description");
  ConfigNode text = MakeMapping();
  text.Set("type", {}, MakeText("string"));
  ConfigNode any;
  any.kind = ConfigNode::Kind::kSequence;
  any.items = {std::move(list), std::move(text)};
  property.Remove("type");
  property.Remove("items");
  property.Set("anyOf", {}, std::move(any));
}

}  // namespace

std::string SweepSchema() {
  ConfigNode schema = FieldsSchema(SweepFields().fields(), SchemaMode::kWhole);
  AllowText(schema, "where");
  AllowText(schema, "metrics");
  AllowText(schema.Find("properties")->value.Find("curve")->value, "series");
  ConfigNode root = MakeMapping();
  root.Set("$schema", {}, MakeText("http://json-schema.org/draft-07/schema#"));
  root.Set("title", {}, MakeText("stepsim sweep"));
  for (ConfigEntry& entry : schema.entries) root.Set(entry.key, {}, std::move(entry.value));
  return WriteJson(root) + "\n";
}

std::uint64_t Sweep::points() const {
  std::uint64_t count = 1;
  for (const AxisGroup& group : groups) count *= group.size();
  return count;
}

std::vector<const Axis*> Sweep::axes() const {
  std::vector<const Axis*> all;
  for (const AxisGroup& group : groups) {
    for (const Axis& axis : group.axes) all.push_back(&axis);
  }
  return all;
}

Sweep ReadSweep(const ConfigNode& root, const std::string& file_name, Diagnostics problems) {
  if (!root.IsMapping()) {
    throw ConfigError(root.place, fmt::format("found {}, allowed: a mapping with job and axes",
                                              DescribeFound(root)));
  }
  ConfigNode mapping = root;
  WrapText(mapping, "where");
  WrapText(mapping, "metrics");
  if (ConfigEntry* curve = mapping.Find("curve")) WrapText(curve->value, "series");
  SweepSpec spec;
  FieldReading reading;
  ReadStruct(mapping, SweepFields(), "", spec, reading);
  for (const Diagnostic& d : reading.diagnostics.list()) problems.Add(d.place, d.message);

  Sweep sweep;
  sweep.name = spec.name.empty() ? StemOf(file_name) : spec.name;
  sweep.curve = spec.curve;
  sweep.text = WriteJson(root);
  SweepBuilder builder(sweep, problems);
  if (const ConfigNode* job = root.FindValue("job")) sweep.job = *job;
  if (const ConfigNode* set = root.FindValue("set")) builder.AddSet(*set);
  if (const ConfigNode* axes = root.FindValue("axes")) builder.AddAxes(*axes);
  if (const ConfigNode* zip = root.FindValue("zip")) builder.AddZips(*zip);
  builder.AddWhere(spec.where, reading.PlaceOf("where"));
  builder.SetMetrics(spec.metrics, reading.PlaceOf("metrics"));
  if (problems.empty()) builder.CheckCurve(reading.PlaceOf("curve"));
  builder.CheckCount();
  problems.ThrowIfAny();
  return sweep;
}

namespace {

// "path=values" of each --vary as an axis of its own.
void AddVary(const std::vector<std::string>& vary, SweepBuilder& builder, Diagnostics& problems) {
  for (const std::string& text : vary) {
    constexpr std::size_t kShown = 80;
    const Place place{"--vary " + text.substr(0, kShown), 0, 0};
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      problems.Add(
          place,
          "found no path=values, allowed: for example 'plan.ddp.bucket_cap_mb=1,5,25:400:x2'");
      continue;
    }
    try {
      ConfigNode axes = MakeMapping(place);
      axes.Set(text.substr(0, equals), place, VaryNode(text.substr(equals + 1), place));
      builder.AddAxes(axes);
    } catch (const ConfigError& error) {
      Append(error, problems);
    }
  }
}

}  // namespace

Sweep WithOptions(Sweep sweep, const SweepOptions& options) {
  Diagnostics problems;
  SweepBuilder builder(sweep, problems);
  AddVary(options.vary, builder, problems);
  builder.AddWhere(options.where, {"--where", 0, 0});
  if (!options.metrics.empty() || sweep.metrics.empty()) {
    builder.SetMetrics(options.metrics, {"--metrics", 0, 0});
  }
  if (!options.curve.x.empty()) sweep.curve.x = options.curve.x;
  if (!options.curve.y.empty()) sweep.curve.y = options.curve.y;
  if (!options.curve.series.empty()) sweep.curve.series = options.curve.series;
  if (problems.empty()) builder.CheckCurve({"--x, --y, --series", 0, 0});
  builder.CheckCount();
  if (sweep.groups.empty() && problems.empty()) {
    problems.Add({},
                 "found no axis, allowed: axes or zip in the sweep's file, or --vary PATH=VALUES");
  }
  problems.ThrowIfAny();
  for (const auto* list : {&options.vary, &options.where, &options.metrics}) {
    for (const std::string& text : *list) sweep.text += "\n" + text;
  }
  return sweep;
}

}  // namespace stepsim
