#include "tools/sweep/shard.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/units.h"

namespace stepsim {
namespace {

std::optional<std::uint64_t> Count(std::string_view text, std::int64_t least) {
  const auto number = ParseInteger(text);
  if (!number || *number < least || *number > static_cast<std::int64_t>(kMostShards) * 1000) {
    return std::nullopt;
  }
  return static_cast<std::uint64_t>(*number);
}

// Points that a shard takes before it is the next one's turn.
std::uint64_t RunLength(std::uint64_t total, std::uint64_t shards) {
  constexpr std::uint64_t kTurns = 8;     // of each shard, so that all get much the same
  constexpr std::uint64_t kLongest = 64;  // neighbours that share work
  return std::clamp<std::uint64_t>(total / (shards * kTurns), 1, kLongest);
}

// The value of a variable that must be a number from `least`.
class Variables {
 public:
  explicit Variables(const std::function<const char*(const char*)>& get) : get_(get) {}

  bool IsSet(const char* name) const {
    const char* text = get_(name);
    return text != nullptr && *text != '\0';
  }
  std::uint64_t Number(const char* name, std::int64_t least) const {
    const auto number = IsSet(name) ? Count(get_(name), least) : std::nullopt;
    if (number) return *number;
    throw ConfigError(
        {name, 0, 0},
        fmt::format("found {}, allowed: a whole number from {}; --shard I/N says it "
                    "without the environment",
                    IsSet(name) ? fmt::format("'{}'", get_(name)) : "nothing", least));
  }

 private:
  const std::function<const char*(const char*)>& get_;
};

FoundShard OfJobArray(const Variables& variables) {
  constexpr const char* kId = "SLURM_ARRAY_TASK_ID";
  constexpr const char* kMin = "SLURM_ARRAY_TASK_MIN";
  constexpr const char* kStep = "SLURM_ARRAY_TASK_STEP";
  const std::uint64_t id = variables.Number(kId, 0);
  const std::uint64_t count = variables.Number("SLURM_ARRAY_TASK_COUNT", 1);
  const std::uint64_t first = variables.IsSet(kMin) ? variables.Number(kMin, 0) : 0;
  const std::uint64_t step = variables.IsSet(kStep) ? variables.Number(kStep, 1) : 1;
  const bool is_regular = id >= first && (id - first) % step == 0 && (id - first) / step < count;
  if (!is_regular) {
    throw ConfigError({kId, 0, 0},
                      fmt::format("found {} beside a count of {}, a first of {} and a step of {}, "
                                  "allowed: an array without gaps; --shard I/N says it for others",
                                  id, count, first, step));
  }
  return {{(id - first) / step + 1, count},
          fmt::format("{}={} of SLURM_ARRAY_TASK_COUNT={}", kId, id, count)};
}

// A batch script has the variables of its first task, but is none of them: srun numbers steps.
bool IsBatchScript(const Variables& variables) {
  return variables.IsSet("SLURM_JOB_ID") && !variables.IsSet("SLURM_STEP_ID");
}

FoundShard OfStep(const Variables& variables) {
  const std::uint64_t id = variables.Number("SLURM_PROCID", 0);
  const std::uint64_t count = variables.Number("SLURM_NTASKS", 1);
  if (id >= count) {
    throw ConfigError(
        {"SLURM_PROCID", 0, 0},
        fmt::format("found {} beside SLURM_NTASKS={}, allowed: less than that", id, count));
  }
  return {{id + 1, count}, fmt::format("SLURM_PROCID={} of SLURM_NTASKS={}", id, count)};
}

}  // namespace

std::string Shard::Text() const { return fmt::format("{}/{}", index, count); }

Shard ParseShard(std::string_view text, const Place& place) {
  const std::size_t slash = text.find('/');
  const auto index = Count(text.substr(0, slash), 0);
  const auto count =
      slash == std::string_view::npos ? std::nullopt : Count(text.substr(slash + 1), 1);
  if (index && count && *index >= 1 && *index <= *count && *count <= kMostShards) {
    return {*index, *count};
  }
  const bool is_zero = index && *index == 0;
  throw ConfigError(place, fmt::format("found '{}', allowed: I/N such as 3/8, I from 1 to N{}",
                                       text, is_zero ? " (shards are counted from 1)" : ""));
}

std::optional<FoundShard> ShardFromEnvironment(
    const std::function<const char*(const char*)>& variable) {
  const Variables variables(variable);
  std::optional<FoundShard> found;
  if (variables.IsSet("SLURM_ARRAY_TASK_ID")) {
    found = OfJobArray(variables);
  } else if (variables.IsSet("SLURM_PROCID") && variables.IsSet("SLURM_NTASKS") &&
             !IsBatchScript(variables)) {
    found = OfStep(variables);
  }
  return found;
}

std::string ShardFileName(const std::string& path, const Shard& shard) {
  if (shard.IsWhole()) return path;
  const std::size_t slash = path.find_last_of('/');
  const std::size_t dot = path.rfind('.');
  const bool has_ending =
      dot != std::string::npos && dot > 0 && (slash == std::string::npos || dot > slash + 1);
  const std::size_t end = has_ending ? dot : path.size();
  const std::size_t width = fmt::format("{}", shard.count).size();
  return fmt::format("{}.{:0{}}-of-{}{}", path.substr(0, end), shard.index, width, shard.count,
                     path.substr(end));
}

bool IsInShard(std::uint64_t ordinal, std::uint64_t total, const Shard& shard) {
  return ordinal / RunLength(total, shard.count) % shard.count == shard.index - 1;
}

std::uint64_t PointsOfShard(std::uint64_t total, const Shard& shard) {
  const std::uint64_t run = RunLength(total, shard.count);
  const std::uint64_t round = run * shard.count;
  const std::uint64_t rest = total % round;
  const std::uint64_t before = (shard.index - 1) * run;
  return total / round * run + (rest > before ? std::min(rest - before, run) : 0);
}

}  // namespace stepsim
