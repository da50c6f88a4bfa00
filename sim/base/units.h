// How is a value with a unit written and read?
//
//   ParseQuantity("25 MiB", Unit::kBytes)        -> 26214400 (bytes)
//   ParseQuantity("400 Gb/s", Unit::kBandwidth)  -> 5e10 (bytes per second)
//   ParseQuantity("5 us", Unit::kTime)           -> 5e-6 (seconds)
//   FormatTime(0.01234)                          -> "12.3 ms"
//
// 1 GB = 1e9 B, 1 GiB = 2^30 B; b is a bit, B a byte; bandwidth is per direction. Numbers are
// decimal: "010" is ten, never eight; nan, inf and hexadecimal are refused.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/quantity.h"
#include "sim/base/time.h"

namespace stepsim {

enum class Unit { kNone, kBytes, kBandwidth, kTime, kFlopRate, kFlops };

struct ParsedQuantity {
  double value = 0;   // in the base unit: bytes, bytes/s, seconds, FLOP/s, FLOP
  std::string error;  // empty when the text was understood
  bool ok() const { return error.empty(); }
};

// Reads "<number> <unit>"; the space may be missing, the unit may not (except for Unit::kNone).
ParsedQuantity ParseQuantity(std::string_view text, Unit unit);

// A decimal integer or number with nothing around it; nullopt otherwise.
std::optional<std::int64_t> ParseInteger(std::string_view text);  // "1_000_000" and "1e6" allowed
std::optional<double> ParseNumber(std::string_view text);

std::string_view UnitExample(Unit unit);  // "25 MiB", "400 Gb/s", ... for messages and help
std::vector<std::string_view> UnitNames(Unit unit);  // every spelling that is read: "B", "kB", ...
std::string_view BaseUnit(Unit unit);  // "bytes", "bytes/s", "s", "FLOP/s", "FLOP", ""

// For people: three or four significant digits and the largest fitting unit.
std::string FormatTime(double seconds);  // "1.43 s", "12.3 ms", "4.00 us", "0 s"
std::string FormatTime(Duration duration);
std::string FormatBytes(double bytes);  // decimal: "28.9 MB", "1.58 GB"
std::string FormatBytes(Bytes bytes);
std::string FormatMemory(Bytes bytes);                 // binary, as memory is sold: "80.0 GiB"
std::string FormatBandwidth(double bytes_per_second);  // "150 GB/s"
std::string FormatFlopRate(double flops_per_second);   // "312 TFLOP/s"
std::string FormatCount(double count);                 // "3.21 B", "12,345"

// Writes a value so that ParseQuantity reads back exactly the same number.
std::string WriteQuantity(double value, Unit unit);

}  // namespace stepsim
