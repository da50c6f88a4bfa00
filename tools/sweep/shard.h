// Which part of a sweep is this process to do? The I-th of N, counted from 1.
//
//   ParseShard("3/8", place)
//   ShardFromEnvironment(std::getenv)   // an element of a Slurm job array, or a task of a step
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "sim/base/diagnostics.h"

namespace stepsim {

struct Shard {
  std::uint64_t index = 1;  // from 1 to count
  std::uint64_t count = 1;

  bool IsWhole() const { return count == 1; }
  std::string Text() const;  // "3/8"
  bool operator==(const Shard& other) const { return index == other.index && count == other.count; }
};

inline constexpr std::uint64_t kMostShards = 1'000'000;

// Throws ConfigError at `place`.
Shard ParseShard(std::string_view text, const Place& place);

struct FoundShard {
  Shard shard;
  std::string source;  // "SLURM_ARRAY_TASK_ID=2 of SLURM_ARRAY_TASK_COUNT=8"
};
// nullopt: none is set, or the process is a batch script itself and no task that srun started.
// Throws ConfigError where they are set but say nothing usable.
std::optional<FoundShard> ShardFromEnvironment(
    const std::function<const char*(const char*)>& variable);

// "out.jsonl" -> "out.3-of-8.jsonl", padded so that names sort; a whole sweep keeps its name.
std::string ShardFileName(const std::string& path, const Shard& shard);

// Whether a point belongs to the shard. `ordinal`: its number among the `total` points that are
// left by the filters on axes. Shards take turns with runs of neighbouring points: neighbours share
// work, and every shard gets some of each corner of the grid.
bool IsInShard(std::uint64_t ordinal, std::uint64_t total, const Shard& shard);
std::uint64_t PointsOfShard(std::uint64_t total, const Shard& shard);

}  // namespace stepsim
