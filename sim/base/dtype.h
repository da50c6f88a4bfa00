// How wide is a number? Element types as the frameworks spell them.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "sim/base/quantity.h"

namespace stepsim {

enum class DType { kFp32, kTf32, kBf16, kFp16, kFp8, kInt32, kInt64 };

std::string_view ToString(DType dtype);  // "fp32", "tf32", "bf16", "fp16", "fp8", "int32", "int64"
std::optional<DType> ParseDType(std::string_view text);  // also "float32", "bfloat16", "half", ...
std::span<const std::string_view> DTypeNames();          // the canonical names

Bytes ElementSize(DType dtype);                    // tf32 is stored as 4 bytes
Bytes SizeOf(DType dtype, std::int64_t elements);  // REQUIRES: elements >= 0

}  // namespace stepsim
