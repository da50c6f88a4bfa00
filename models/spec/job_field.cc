#include "models/spec/job_field.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "models/spec/schema.h"
#include "models/spec/spec_fields.h"
#include "sim/base/nearest.h"
#include "sim/base/units.h"
#include "sim/config/config_node.h"
#include "sim/config/read_fields.h"

namespace stepsim {
namespace {

// The part of the path before the first dot; the rest stays.
std::string_view TakePart(std::string_view& path) {
  const std::size_t dot = path.find('.');
  const std::string_view part = path.substr(0, dot);
  path.remove_prefix(dot == std::string_view::npos ? path.size() : dot + 1);
  return part;
}

bool IsLeaf(const FieldRow& row) {
  return row.kind != FieldKind::kStruct && row.kind != FieldKind::kStructList;
}

bool IsList(const FieldRow& row) {
  return row.kind == FieldKind::kNumberList || row.kind == FieldKind::kTextList;
}

}  // namespace

class JobFieldFinder {
 public:
  std::optional<JobField> Find(std::string_view path) {
    std::string_view rest = path;
    const std::string_view first = TakePart(rest);
    if (!rest.empty() && first == "hardware") {
      return From(Root::kHardware, HardwareFields().fields(), "hardware", rest);
    }
    if (!rest.empty() && first == "network") {
      return From(Root::kHardware, HardwareFields().fields(), "hardware", path);
    }
    if (!rest.empty() && first == "model") return InModel(rest);
    return From(Root::kJob, JobFields().fields(), "", path);
  }

 private:
  using Root = JobField::Root;

  std::optional<JobField> InModel(std::string_view path) {
    std::string_view rest = path;
    if (TakePart(rest) == "transformer") {
      return From(Root::kTransformer, TransformerFields().fields(), "model.transformer", rest);
    }
    auto found = From(Root::kLayerList, LayerListFields().fields(), "model", path);
    return found ? found : From(Root::kModel, ModelFields().fields(), "model", path);
  }

  std::optional<JobField> From(Root root, const FieldTable& fields, std::string prefix,
                               std::string_view path) {
    JobField field;
    field.root_ = root;
    field.path_ = std::move(prefix);
    const FieldTable* table = &fields;
    while (!path.empty()) {
      const FieldRow* row = table->Find(TakePart(path));
      if (row == nullptr) return std::nullopt;
      field.path_ = JoinPath(field.path_, row->key);
      if (IsLeaf(*row)) {
        if (!path.empty()) return std::nullopt;
        field.row_ = row;
        field.table_ = table;
        return field;
      }
      std::size_t index = 0;
      if (row->kind == FieldKind::kStructList) {
        constexpr std::int64_t kMostItems = 100'000;
        const std::string_view text = TakePart(path);
        const auto number = ParseInteger(text);
        if (!number || *number < 0 || *number > kMostItems) return std::nullopt;
        index = static_cast<std::size_t>(*number);
        field.path_ = JoinPath(field.path_, text);
      }
      field.hops_.push_back({row, index});
      table = row->nested;
    }
    return std::nullopt;  // a mapping, no value
  }
};

const void* JobField::OwnerIn(const JobSpec& job) const {
  const void* owner = &job;
  if (root_ == Root::kHardware) owner = &job.hardware;
  if (root_ == Root::kModel) owner = &job.model;
  if (root_ == Root::kTransformer) owner = TransformerOf(job);
  if (root_ == Root::kLayerList) owner = std::get_if<LayerListSpec>(&job.model.network);
  for (const Hop& hop : hops_) {
    if (owner == nullptr) return nullptr;
    if (hop.row->kind == FieldKind::kStructList && hop.row->size(owner) <= hop.index) {
      return nullptr;
    }
    owner = hop.row->const_child(owner, hop.index);
  }
  return owner;
}

void* JobField::MakeOwner(JobSpec& job) const {
  void* owner = &job;
  if (root_ == Root::kHardware) owner = &job.hardware;
  if (root_ == Root::kModel) owner = &job.model;
  if (root_ == Root::kTransformer) owner = &job.model.network.emplace<TransformerSpec>();
  if (root_ == Root::kLayerList) owner = &job.model.network.emplace<LayerListSpec>();
  for (const Hop& hop : hops_) {
    if (hop.row->kind == FieldKind::kStructList) hop.row->resize(owner, hop.index + 1);
    owner = hop.row->child(owner, hop.index);
  }
  return owner;
}

FieldValue JobField::ValueIn(const JobSpec& job) const {
  if (IsReference()) {
    if (path_ == "model") return job.model.name;
    if (path_ == "hardware") return job.hardware.name;
    if (path_ == "network") return job.hardware.network.name;
    return {};
  }
  const void* owner = OwnerIn(job);
  return owner == nullptr ? FieldValue{} : row_->get(owner);
}

FieldValue JobField::Read(const ConfigNode& value, Diagnostics& problems) const {
  if (IsReference() || value.IsNull()) return {};
  JobSpec scratch;
  void* owner = MakeOwner(scratch);
  FieldTable table;
  table.rows.push_back(*row_);
  table.defaults = table_->defaults;
  ConfigNode mapping = MakeMapping(value.place);
  mapping.Set(row_->key, value.place, value);
  const std::size_t dot = path_.rfind('.');
  FieldReading reading;
  ReadFields(mapping, table, path_.substr(0, dot == std::string::npos ? 0 : dot), owner, reading);
  for (const Diagnostic& d : reading.diagnostics.list()) problems.Add(d.place, d.message);
  return reading.diagnostics.empty() ? row_->get(owner) : FieldValue{};
}

JobField FindJobField(std::string_view path, const Place& place) {
  if (std::optional<JobField> field = JobFieldFinder().Find(path)) return std::move(*field);
  const std::vector<std::string> paths = AllFieldPaths();
  const std::string group = fmt::format("{}.", path);
  for (const std::string& other : paths) {
    if (other.rfind(group, 0) != 0) continue;
    throw ConfigError(place, fmt::format("found no field '{}' but several in it, allowed: one of "
                                         "them, such as {}",
                                         path, other));
  }
  std::string nearest = Nearest(path, paths);
  const std::string ending(path.substr(path.find_last_of('.') + 1));
  for (const std::string& other : paths) {
    if (nearest.empty() && other.ends_with("." + ending)) nearest = other;
  }
  const std::string found = DescribeFound(MakeText(std::string(path)));
  throw ConfigError(
      place,
      fmt::format("found no field {}, allowed: the path of a value such as plan.ddp.no_sync{}",
                  found, nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest)));
}

std::vector<JobField> ScalarJobFields() {
  std::vector<JobField> fields;
  for (const std::string& path : AllFieldPaths()) {
    std::optional<JobField> field = JobFieldFinder().Find(path);
    if (field && !IsList(field->row())) fields.push_back(std::move(*field));
  }
  return fields;
}

}  // namespace stepsim
