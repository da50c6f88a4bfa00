// How do measurements become a calibration? Everything that was measured, fitted over a hardware
// profile.
//
//   const FittedCalibration calibration = Calibrate(measurements, base, "office");
//   CalibrationYaml(calibration, base)  -> the text of configs/calibration/office.yaml
#pragma once

#include <string>
#include <vector>

#include "models/calibration/measurements.h"
#include "models/spec/calibration_spec.h"
#include "models/spec/hardware.h"
#include "models/spec/host_spec.h"

namespace stepsim {

struct FittedCalibration {
  CalibrationSpec about;  // with one record for each fit
  HardwareSpec hardware;  // the base with fitted values
  HostSpec host;
};

FittedCalibration Calibrate(const Measurements& measurements, const HardwareSpec& base,
                            const std::string& name);

// Only what differs from `base`, so that the file lies over later versions of it. Reading it over
// `base` gives calibration.hardware, but for the digits that nobody measured.
std::string CalibrationYaml(const FittedCalibration& calibration, const HardwareSpec& base);

}  // namespace stepsim
