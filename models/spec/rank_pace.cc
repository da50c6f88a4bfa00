#include "models/spec/rank_pace.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "sim/base/units.h"

namespace stepsim {
namespace {

// SplitMix64's finalizer (Steele, Lea, Flood 2014): every bit of the input reaches every bit.
std::uint64_t Mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

// The n-th number that belongs to a key.
std::uint64_t Draw(std::uint64_t key, std::uint64_t n) {
  constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15;  // 2^64 over the golden ratio
  return Mix(key + (n + 1) * kOdd);
}

// Mean 0, variance 1: the sum of twelve uniform numbers, which needs no function that libraries
// round differently. Within 6 either way.
double Normal(std::uint64_t key) {
  std::uint64_t sum = 0;
  for (std::uint64_t n = 0; n < 12; ++n) sum += Draw(key, n) >> 32;
  return static_cast<double>(sum) / 4294967296.0 - 6;
}

}  // namespace

std::optional<Straggler> ParseStraggler(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto rank = ParseNumber(text.substr(0, colon));
  const auto factor = ParseNumber(text.substr(colon + 1));
  if (!rank || !factor || *rank < 0 || *rank > 1e9 || std::floor(*rank) != *rank) {
    return std::nullopt;
  }
  return Straggler{static_cast<std::int64_t>(*rank), *factor};
}

std::int32_t RankPace::At(std::int32_t step, std::int32_t microstep) const {
  double pace = factor_;
  if (jitter_ > 0) {
    std::uint64_t key = Mix(static_cast<std::uint64_t>(seed_));
    for (const std::int64_t part : {rank_, std::int64_t{step}, std::int64_t{microstep}}) {
      key = Draw(key, static_cast<std::uint64_t>(part));
    }
    constexpr double kLeast = 0.05;  // nothing takes less time than none
    pace *= std::max(1 + jitter_ * Normal(key), kLeast);
  }
  return std::max<std::int32_t>(static_cast<std::int32_t>(std::lround(pace * kNormalPace)), 1);
}

RankPace RankPaceOf(const JobSpec& job, std::int64_t rank) {
  double factor = 1;
  for (const std::string& text : job.simulate.stragglers) {
    const auto straggler = ParseStraggler(text);
    if (straggler && straggler->rank == rank) factor *= straggler->factor;
  }
  return {rank, factor, job.simulate.jitter, job.simulate.seed};
}

}  // namespace stepsim
