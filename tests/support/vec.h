// What does a worked schedule example say, and what does the engine make of it? Reads `vec` blocks:
//
//   ```vec two-buckets
//   b1 | C | backward 1 | 20 | -  | -        id | stream | op | duration | communicator | waits-on
//   r1 | N | all-reduce | 30 | DP | b1       lines are in host order
//   h  | H | synchronise | 0 | -  | r1       the host: blocks every later line of its rank
//   expect makespan=50 start: b1=0 r1=20 h=50
//   ```
//
// An op starts at the latest of: the end of the previous op on its stream, of the previous op with
// the same communicator, of all ids in waits-on, and of the latest preceding `H` line of its rank.
// Streams of several ranks are called `rank.stream`; `x.*` are links, which no host blocks.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sim/engine/simulate.h"
#include "sim/graph/task_graph.h"

namespace stepsim {

struct VecLine {
  std::string id;
  std::string stream;
  std::string op;
  std::int64_t duration = 0;  // in the example's own unit
  std::string communicator;   // "" for none
  std::vector<std::string> waits_on;
};

struct VecExpectation {
  std::int64_t makespan = 0;
  std::map<std::string, std::int64_t> start;  // by id

  bool operator==(const VecExpectation&) const = default;
};

struct VecExample {
  std::string name;
  std::vector<VecLine> lines;
  VecExpectation expected;
};

// All blocks of a text, in order. Throws std::runtime_error with the line number of a bad line.
std::vector<VecExample> ParseVec(std::string_view text);
std::vector<VecExample> ReadVecFile(const std::string& path);
// Throws when the file has no example of that name.
VecExample ReadVecExample(const std::string& path, const std::string& name);

inline constexpr Duration kVecUnit = std::chrono::microseconds(1);

// The task ids are the line numbers. All streams lie on one simulated rank: a rank is a name here.
TaskGraph BuildVec(const VecExample& example);

// The same shape as the expectation, read from a run of the engine over BuildVec's graph.
VecExpectation ObserveVec(const VecExample& example, const Timeline& timeline);

}  // namespace stepsim
