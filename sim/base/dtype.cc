#include "sim/base/dtype.h"

#include <algorithm>
#include <array>

namespace stepsim {
namespace {

constexpr std::array<std::string_view, 7> kNames = {"fp32", "tf32",  "bf16", "fp16",
                                                    "fp8",  "int32", "int64"};
struct Alias {
  std::string_view name;
  DType dtype;
};
constexpr std::array kAliases = {
    Alias{"float32", DType::kFp32}, Alias{"float", DType::kFp32}, Alias{"bfloat16", DType::kBf16},
    Alias{"float16", DType::kFp16}, Alias{"half", DType::kFp16},  Alias{"float8", DType::kFp8},
    Alias{"long", DType::kInt64},   Alias{"int", DType::kInt32},
};

}  // namespace

std::string_view ToString(DType dtype) { return kNames[static_cast<std::size_t>(dtype)]; }

std::optional<DType> ParseDType(std::string_view text) {
  const auto name = std::find(kNames.begin(), kNames.end(), text);
  if (name != kNames.end()) return static_cast<DType>(name - kNames.begin());
  const auto alias = std::find_if(kAliases.begin(), kAliases.end(),
                                  [&](const Alias& a) { return a.name == text; });
  if (alias != kAliases.end()) return alias->dtype;
  return std::nullopt;
}

std::span<const std::string_view> DTypeNames() { return kNames; }

Bytes ElementSize(DType dtype) {
  switch (dtype) {
    case DType::kFp8:
      return Bytes{1};
    case DType::kBf16:
    case DType::kFp16:
      return Bytes{2};
    case DType::kInt64:
      return Bytes{8};
    case DType::kFp32:
    case DType::kTf32:
    case DType::kInt32:
      break;
  }
  return Bytes{4};
}

Bytes SizeOf(DType dtype, std::int64_t elements) { return ElementSize(dtype) * elements; }

}  // namespace stepsim
