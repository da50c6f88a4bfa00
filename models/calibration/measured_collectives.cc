#include "models/calibration/measured_collectives.h"

#include <fmt/format.h>

#include <array>
#include <optional>

#include "models/calibration/csv_table.h"
#include "sim/base/nearest.h"

namespace stepsim {
namespace {

struct OpName {
  std::string_view name;
  CollectiveOp op;
};
// Ours and nccl-tests' spellings.
constexpr std::array kOpNames = {
    OpName{"all_reduce", CollectiveOp::kAllReduce},
    OpName{"all_gather", CollectiveOp::kAllGather},
    OpName{"reduce_scatter", CollectiveOp::kReduceScatter},
    OpName{"all_to_all", CollectiveOp::kAllToAll},
    OpName{"alltoall", CollectiveOp::kAllToAll},
    OpName{"broadcast", CollectiveOp::kBroadcast},
    OpName{"reduce", CollectiveOp::kReduce},
    OpName{"send_recv", CollectiveOp::kSendRecv},
    OpName{"sendrecv", CollectiveOp::kSendRecv},
};
constexpr std::int64_t kMostRanks = 10'000'000;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 60;
constexpr double kLeastMicroseconds = 1e-3;
constexpr double kMostMicroseconds = 1e12;  // eleven days

class RowReader {
 public:
  explicit RowReader(CsvReader& reader) : reader_(reader) {}

  MeasuredCollective Read(std::size_t row) {
    MeasuredCollective point;
    point.system_id = RequiredText(row, "system_id");
    point.gpu = RequiredText(row, "gpu");
    point.nodes = Count(row, "nodes");
    point.gpus_per_node = Count(row, "gpus_per_node");
    point.ranks = Count(row, "ranks");
    CheckRanks(row, point);
    point.nic = reader_.Text(row, "nic");
    point.intra_fabric = reader_.Text(row, "intra_fabric");
    point.op = Op(row);
    point.size = Bytes{Size(row)};
    point.seconds = Microseconds(row) * 1e-6;
    point.nccl_version = reader_.Text(row, "nccl_version");
    return point;
  }

 private:
  std::string RequiredText(std::size_t row, std::string_view column) {
    const std::string_view text = reader_.Text(row, column);
    if (text.empty()) reader_.Report(row, column, "found nothing, allowed: a name");
    return std::string(text);
  }

  std::int64_t Count(std::size_t row, std::string_view column) {
    const auto count = reader_.PositiveInteger(row, column);
    if (!count.has_value()) return 1;
    if (*count > kMostRanks) {
      reader_.Report(row, column, fmt::format("found {}, allowed: at most {}", *count, kMostRanks));
      return 1;
    }
    return *count;
  }

  std::int64_t Size(std::size_t row) {
    const std::int64_t size = reader_.PositiveInteger(row, "size_bytes").value_or(1);
    if (size <= kMostBytes) return size;
    reader_.Report(row, "size_bytes", fmt::format("found {}, allowed: at most 2^60", size));
    return 1;
  }

  double Microseconds(std::size_t row) {
    const double us = reader_.Positive(row, "time_us").value_or(1);
    if (us >= kLeastMicroseconds && us <= kMostMicroseconds) return us;
    reader_.Report(row, "time_us",
                   fmt::format("found {:g}, allowed: from {:g} to {:g} microseconds", us,
                               kLeastMicroseconds, kMostMicroseconds));
    return 1;
  }

  // Not every GPU of the last node need take part.
  void CheckRanks(std::size_t row, MeasuredCollective& point) {
    const std::int64_t most = point.nodes * point.gpus_per_node;
    if (point.ranks >= point.nodes && point.ranks <= most) return;
    reader_.Report(row, "ranks",
                   fmt::format("found {}, allowed: from nodes to nodes x gpus_per_node, {} to {}",
                               point.ranks, point.nodes, most));
    point.ranks = most;
  }

  CollectiveOp Op(std::size_t row) {
    const std::string_view text = reader_.Text(row, "collective");
    std::vector<std::string> names;
    for (const OpName& known : kOpNames) {
      if (known.name == text) return known.op;
      names.emplace_back(known.name);
    }
    const std::string nearest = Nearest(text, names);
    reader_.Report(row, "collective",
                   fmt::format("found '{}', allowed: {}{}", text, fmt::join(names, ", "),
                               nearest.empty() ? "" : "; did you mean '" + nearest + "'?"));
    return CollectiveOp::kAllReduce;
  }

  CsvReader& reader_;
};

}  // namespace

std::vector<MeasuredCollective> ReadMeasuredCollectives(std::string_view text,
                                                        const std::string& file_name) {
  const CsvTable table = ParseCsv(text, file_name);
  CsvReader reader(table, {"system_id", "gpu", "nodes", "gpus_per_node", "ranks", "nic",
                           "intra_fabric", "collective", "size_bytes", "time_us"});
  RowReader row_reader(reader);
  std::vector<MeasuredCollective> points;
  points.reserve(table.rows());
  for (std::size_t row = 0; row < table.rows(); ++row) points.push_back(row_reader.Read(row));
  reader.ThrowIfAny();
  return points;
}

}  // namespace stepsim
