// What may stand in the files, for editors and for `stepsim describe` and `stepsim schema`?
//
//   DescribeField("plan.ddp.bucket_cap_mb")  or just "bucket_cap_mb"
//   JobSchema()  -> JSON Schema (draft-07) of configs/jobs/*.yaml
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stepsim {

// JSON text. An editor with a YAML server checks files against them while they are written.
std::string JobSchema();
std::string HardwareSchema();
std::string NetworkSchema();
std::string ModelSchema();
std::string CorrectionsSchema();  // configs/collectives/*.yaml
std::string CalibrationSchema();  // configs/calibration/*.yaml

// Every field of a job with its presets expanded: "plan.ddp.no_sync", "hardware.gpu.memory", ...
std::vector<std::string> AllFieldPaths();

// Meaning, allowed values, default and other spellings; one paragraph per field that `name` means:
// a full path, its end, or another spelling. Throws ConfigError with the nearest name.
std::string DescribeField(std::string_view name);

}  // namespace stepsim
