// How long does a rank take, next to what its kernels cost? Stragglers and jitter of a job.
//
//   simulate: {ranks: all, stragglers: ["3:1.2"], jitter: 0.05, seed: 7}
//   RankPaceOf(job, 3).At(0, 2)     // e.g. 1241: thousandths, in micro-step 2 of step 0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "models/spec/job.h"

namespace stepsim {

// "3:1.2": compute kernels of global rank 3 take 1.2 times as long.
struct Straggler {
  std::int64_t rank = 0;
  double factor = 1;
};
std::optional<Straggler> ParseStraggler(std::string_view text);

inline constexpr std::int32_t kNormalPace = 1000;

class RankPace {
 public:
  RankPace() = default;
  RankPace(std::int64_t rank, double factor, double jitter, std::int64_t seed)
      : rank_(rank), factor_(factor), jitter_(jitter), seed_(seed) {}

  // Time over price of the compute kernels of a micro-step, in thousandths. A draw depends on the
  // seed, the rank and the micro-step alone: not on what else is simulated, nor in which order.
  std::int32_t At(std::int32_t step, std::int32_t microstep) const;

 private:
  std::int64_t rank_ = 0;
  double factor_ = 1;
  double jitter_ = 0;
  std::int64_t seed_ = 0;
};

RankPace RankPaceOf(const JobSpec& job, std::int64_t rank);

}  // namespace stepsim
