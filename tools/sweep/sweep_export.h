// In which formats do the points of a sweep leave? One row per format.
//
// To add one: a function and a row in sweep_export.cc.
#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "tools/sweep/curve.h"
#include "tools/sweep/results.h"

namespace stepsim {

using TextSink = std::function<void(std::string_view)>;

struct SweepFormat {
  std::string_view suffix;
  std::string_view doc;
  void (*write)(const SweepResults& results, const Curve& curve, const TextSink& sink);
};

std::span<const SweepFormat> SweepFormats();
const SweepFormat* FindSweepFormat(std::string_view file_name);  // nullptr when no suffix fits

}  // namespace stepsim
