// What did `stepsim-calibrate` measure? Its file: a header and one measurement a line, as JSON.
//
//   {"schema":"stepsim.measurements/1","date":"...","device":"NVIDIA H200","ranks":2,"nodes":1,...}
//   {"kind":"gemm","m":4096,"n":4096,"k":4096,"dtype":"bf16","median_s":2e-4,"p10_s":...}
//
// A file that was cut off in the middle of its last line is read up to there. To add a kind of
// measurement: a row in kKinds of the .cc.
#pragma once

#include <string>
#include <string_view>

#include "models/calibration/measurements.h"

namespace stepsim {

// Throws ConfigError with every wrong line. Kinds that are not known are counted in the notes.
Measurements ReadMeasurementFile(std::string_view text, const std::string& file_name);

}  // namespace stepsim
