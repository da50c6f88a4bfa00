// What is a byte? Amounts carry their unit in the type, so that a size cannot be passed for a rate.
#pragma once

#include <compare>
#include <cstdint>

namespace stepsim {

template <class Tag, class Rep>
struct Quantity {
  Rep value{};

  friend constexpr auto operator<=>(Quantity, Quantity) = default;
  constexpr Quantity& operator+=(Quantity other) { return value += other.value, *this; }
  constexpr Quantity& operator-=(Quantity other) { return value -= other.value, *this; }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return a += b; }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return a -= b; }
  friend constexpr Quantity operator*(Quantity a, Rep factor) { return {a.value * factor}; }
  friend constexpr Quantity operator*(Rep factor, Quantity a) { return a * factor; }
};

using Bytes = Quantity<struct BytesTag, std::int64_t>;
using Flops = Quantity<struct FlopsTag, double>;          // floating-point operations
using FlopRate = Quantity<struct FlopRateTag, double>;    // floating-point operations per second
using Bandwidth = Quantity<struct BandwidthTag, double>;  // bytes per second, one direction

// How many pieces of b hold a. REQUIRES: a >= 0, b > 0.
constexpr std::int64_t CeilDiv(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

constexpr double ToDouble(Bytes b) { return static_cast<double>(b.value); }

}  // namespace stepsim
