// The calibration as YAML: the difference of two field trees.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "models/calibration/calibrate.h"
#include "models/spec/spec_fields.h"
#include "sim/base/units.h"
#include "sim/config/config_node.h"

namespace stepsim {
namespace {

bool IsSame(const ConfigNode& a, const ConfigNode& b) { return WriteJson(a) == WriteJson(b); }

// What `node` says and `base` does not. Lists keep the items that the base's lacks.
ConfigNode Difference(const ConfigNode& node, const ConfigNode& base) {
  ConfigNode rest = MakeMapping();
  for (const ConfigEntry& entry : node.entries) {
    const ConfigNode* other = base.FindValue(entry.key);
    if (other != nullptr && IsSame(entry.value, *other)) continue;
    if (other != nullptr && entry.value.IsMapping()) {
      rest.Set(entry.key, {}, Difference(entry.value, *other));
    } else if (other != nullptr && entry.value.IsSequence()) {
      ConfigNode items = entry.value;
      const auto is_known = [&](const ConfigNode& item) {
        return std::any_of(other->items.begin(), other->items.end(),
                           [&](const ConfigNode& o) { return IsSame(item, o); });
      };
      items.items.erase(std::remove_if(items.items.begin(), items.items.end(), is_known),
                        items.items.end());
      rest.Set(entry.key, {}, std::move(items));
    } else {
      rest.Set(entry.key, {}, entry.value);
    }
  }
  return rest;
}

// Defaults say nothing, but a reader looks for these.
void StripDefaults(ConfigNode& list, const ConfigNode& defaults) {
  constexpr std::array<std::string_view, 5> kAlways = {"collective", "ranks", "nodes", "dtype",
                                                       "what"};
  for (ConfigNode& item : list.items) {
    ConfigNode kept = MakeMapping();
    for (ConfigEntry& entry : item.entries) {
      const ConfigNode* other = defaults.FindValue(entry.key);
      const bool is_kept = std::find(kAlways.begin(), kAlways.end(), entry.key) != kAlways.end() ||
                           other == nullptr || !IsSame(entry.value, *other);
      if (is_kept) kept.Set(entry.key, {}, std::move(entry.value));
    }
    item = std::move(kept);
  }
}

void StripList(ConfigNode& mapping, std::string_view key, const ConfigNode& defaults) {
  if (ConfigEntry* entry = mapping.Find(key)) StripDefaults(entry->value, defaults);
}

// "113.02938475 MB/s" -> "113.03 MB/s": nobody measured more digits.
std::string Shortened(const std::string& text) {
  constexpr std::size_t kDigits = 8;
  const std::size_t end = std::min(text.find_first_not_of("0123456789.e+-"), text.size());
  const std::string number = text.substr(0, end);
  if (end <= kDigits || number.find('.') == std::string::npos) return text;
  const auto value = ParseNumber(number);
  return value ? fmt::format("{:.6g}{}", *value, text.substr(end)) : text;
}

// Text of people's logs: what is not plain ASCII might not even be a text.
std::string Printable(const std::string& text) {
  constexpr std::size_t kLongest = 400;
  std::string plain;
  for (const char c : text.substr(0, kLongest)) plain += c >= ' ' && c <= '~' ? c : '?';
  return plain;
}

void MakePrintable(CalibrationSpec& about) {
  for (std::string* text : {&about.name, &about.description, &about.date, &about.device,
                            &about.driver, &about.fitted_over, &about.command}) {
    *text = Printable(*text);
  }
  for (auto* list : {&about.libraries, &about.files}) {
    for (std::string& text : *list) text = Printable(text);
  }
}

std::string Scalar(const ConfigNode& node) {
  if (!node.is_quoted) return Shortened(node.text);
  return WriteJson(MakeText(Shortened(node.text)));
}

std::string Flow(const ConfigNode& node) {
  std::string text;
  switch (node.kind) {
    case ConfigNode::Kind::kNull:
      return "null";
    case ConfigNode::Kind::kScalar:
      return Scalar(node);
    case ConfigNode::Kind::kSequence:
      for (const ConfigNode& item : node.items) text += (text.empty() ? "" : ", ") + Flow(item);
      return "[" + text + "]";
    case ConfigNode::Kind::kMapping:
      for (const ConfigEntry& entry : node.entries) {
        text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", entry.key, Flow(entry.value));
      }
      break;
  }
  return "{" + text + "}";
}

// Mappings as blocks, one line for each item of a list of mappings.
std::string Block(const ConfigNode& mapping, const std::string& indent) {
  std::string text;
  for (const ConfigEntry& entry : mapping.entries) {
    const ConfigNode& value = entry.value;
    const bool is_empty = value.entries.empty() && value.items.empty();
    if (!value.IsScalar() && is_empty) continue;
    text += indent + entry.key + ":";
    if (value.IsMapping()) {
      text += "\n" + Block(value, indent + "  ");
    } else if (value.IsSequence() && value.items.front().IsMapping()) {
      text += "\n";
      for (const ConfigNode& item : value.items) text += indent + "  - " + Flow(item) + "\n";
    } else {
      text += " " + Flow(value) + "\n";
    }
  }
  return text;
}

}  // namespace

std::string CalibrationYaml(const FittedCalibration& calibration, const HardwareSpec& base) {
  CalibrationSpec about = calibration.about;
  MakePrintable(about);
  ConfigNode root = Difference(WriteStruct(CalibrationFields(), about),
                               WriteStruct(CalibrationFields(), CalibrationSpec{}));
  StripList(root, "fits", WriteStruct(FitRecordFields(), FitRecord{}));
  ConfigNode hardware = Difference(WriteStruct(HardwareFields(), calibration.hardware),
                                   WriteStruct(HardwareFields(), base));
  StripList(hardware, "collective_curves", WriteStruct(CurveFields(), CollectiveCurve{}));
  if (ConfigEntry* gpu = hardware.Find("gpu")) {
    StripList(gpu->value, "gemm", WriteStruct(GemmCurveFields(), GemmCurve{}));
  }
  const ConfigNode host = Difference(WriteStruct(HostFields(), calibration.host),
                                     WriteStruct(HostFields(), HostSpec{}));
  if (!hardware.entries.empty()) root.Set("hardware", {}, std::move(hardware));
  if (!host.entries.empty()) root.Set("host", {}, host);
  return fmt::format(
      "# What measurements say of a system, over the hardware profile {}. Fields: `stepsim "
      "describe\n"
      "# calibration`; method: models/README.md, \"Calibration\".\n{}",
      about.fitted_over, Block(root, ""));
}

}  // namespace stepsim
