// Which values does an axis take? Lists and ranges of a job's field, checked as a job's file is.
//
//   1,5,25:400:x2      1, 5, 25, 50, 100, 200, 400
//   25MiB:1GiB:x2      each twice the one before, up to 1 GiB
//   8:64:+8, 8:64:8    in steps of 8, the end included
//   a, b, null         names; null takes the key out
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "models/spec/job_field.h"
#include "sim/base/diagnostics.h"
#include "sim/config/condition.h"
#include "sim/config/config_node.h"

namespace stepsim {

inline constexpr std::size_t kMostPoints = 10'000'000;

struct AxisValue {
  std::string set;    // behind "path=" of --set
  std::string json;   // in a row
  std::string label;  // for people: "25", "400 Gb/s", "ethernet-25g"
  ConditionValue value;
};

struct Axis {
  JobField field;
  std::vector<AxisValue> values;
};

// `node`: a list whose items may be ranges, or a text as above. Throws ConfigError with every
// problem; `path` is as the user wrote it.
Axis ReadAxis(std::string_view path, const Place& path_place, const ConfigNode& node);

// The value of --vary as a tree for ReadAxis.
ConfigNode VaryNode(std::string_view text, const Place& place);

// "path=value" pieces for --set: a scalar, a list or a mapping on one line.
std::string SetText(const ConfigNode& node);

}  // namespace stepsim
