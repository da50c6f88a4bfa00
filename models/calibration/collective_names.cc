#include "models/calibration/collective_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <string_view>
#include <vector>

#include "sim/base/nearest.h"

namespace stepsim {
namespace {

struct Spelling {
  std::string_view name;  // small letters alone
  CollectiveOp op;
};
// To read another spelling: a row.
constexpr std::array kSpellings = {
    Spelling{"allreduce", CollectiveOp::kAllReduce},
    Spelling{"allgather", CollectiveOp::kAllGather},
    Spelling{"allgatherbase", CollectiveOp::kAllGather},
    Spelling{"allgatherintotensor", CollectiveOp::kAllGather},
    Spelling{"reducescatter", CollectiveOp::kReduceScatter},
    Spelling{"reducescatterblock", CollectiveOp::kReduceScatter},
    Spelling{"reducescattertensor", CollectiveOp::kReduceScatter},
    Spelling{"alltoall", CollectiveOp::kAllToAll},
    Spelling{"broadcast", CollectiveOp::kBroadcast},
    Spelling{"bcast", CollectiveOp::kBroadcast},
    Spelling{"reduce", CollectiveOp::kReduce},
    Spelling{"sendrecv", CollectiveOp::kSendRecv},
};
constexpr std::array<std::string_view, 7> kOwnNames = {
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce", "send_recv"};

}  // namespace

std::optional<CollectiveOp> CollectiveNamed(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (c >= 'A' && c <= 'Z') plain += static_cast<char>(c - 'A' + 'a');
    if (c >= 'a' && c <= 'z') plain += c;
  }
  for (const std::string_view prefix : {"mpi", "nccl"}) {
    if (plain.rfind(prefix, 0) == 0) plain.erase(0, prefix.size());
  }
  constexpr std::string_view kSuffix = "perf";
  if (plain.size() > kSuffix.size() &&
      plain.compare(plain.size() - kSuffix.size(), kSuffix.size(), kSuffix) == 0) {
    plain.resize(plain.size() - kSuffix.size());
  }
  for (const Spelling& row : kSpellings) {
    if (row.name == plain) return row.op;
  }
  return std::nullopt;
}

std::string UnknownCollective(std::string_view field, std::string_view found) {
  const std::vector<std::string> names(kOwnNames.begin(), kOwnNames.end());
  const std::string nearest = Nearest(found, names);
  return fmt::format("{}: found '{}', allowed: {}{}", field, found.substr(0, 80),
                     fmt::join(names, ", "),
                     nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest));
}

}  // namespace stepsim
