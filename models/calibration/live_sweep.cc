#include "models/calibration/live_sweep.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string_view>
#include <tuple>

#include "models/calibration/error_statistics.h"
#include "sim/base/diagnostics.h"

namespace stepsim {
namespace {

constexpr double kMicrosecond = 1e-6;
constexpr double kLeastSeconds = 1e-12;
constexpr double kMostSeconds = 1e4;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 50;

double Median(std::vector<double> values) { return Quantile(std::move(values), 0.5); }

// Collects rows of all tables; medians are taken at the end.
class SweepReader {
 public:
  void ReadSteps(const CsvTable& table) {
    CsvReader reader(table, {"link", "config", "bucket_cap_mb", "accumulation", "total_us",
                             "total_no_comm_us", "bwd_no_comm_us"});
    for (std::size_t row = 0; row < table.rows(); ++row) {
      LiveStep step;
      step.link = Name(reader, row, "link");
      step.config = Name(reader, row, "config");
      step.cap_mb = reader.Positive(row, "bucket_cap_mb").value_or(1);
      if (step.cap_mb > 1e6) reader.Report(row, "bucket_cap_mb", "found more than 1e6 MiB");
      step.accumulation = Integer(reader, row, "accumulation", 4096);
      if (!reader.Text(row, "buckets").empty()) {
        step.buckets = Integer(reader, row, "buckets", 1'000'000);
      }
      step.seconds = Seconds(reader, row, "total_us");
      step.seconds_no_sync = Seconds(reader, row, "total_no_comm_us");
      step.backward_no_sync = Seconds(reader, row, "bwd_no_comm_us");
      if (step.backward_no_sync > step.seconds_no_sync) {
        reader.Report(row, "bwd_no_comm_us",
                      "found more than total_no_comm_us, of which it is a "
                      "part");
      }
      sweep_.steps.push_back(std::move(step));
    }
    reader.ThrowIfAny();
  }

  void ReadGradients(const CsvTable& table) {
    CsvReader reader(table, {"link", "config", "param", "name", "bytes", "ready_no_comm_us"});
    for (std::size_t row = 0; row < table.rows(); ++row) {
      if (reader.Text(row, "ready_no_comm_us").empty()) continue;  // no hook saw it
      const std::string parameter(reader.Text(row, "param"));
      auto& gradients = gradients_[{Name(reader, row, "link"), Name(reader, row, "config")}];
      Gradient& gradient = gradients[parameter];
      gradient.name = Name(reader, row, "name");
      gradient.bytes = Integer(reader, row, "bytes", kMostBytes);
      gradient.ready.push_back(Seconds(reader, row, "ready_no_comm_us"));
    }
    reader.ThrowIfAny();
  }

  void ReadCurves(const CsvTable& table) {
    CsvReader reader(table, {"link", "op", "bytes", "median_us"});
    for (std::size_t row = 0; row < table.rows(); ++row) {
      if (reader.Text(row, "op") != "all_reduce") continue;
      const std::int64_t bytes = Integer(reader, row, "bytes", kMostBytes);
      curves_[Name(reader, row, "link")][bytes].push_back(Seconds(reader, row, "median_us"));
    }
    reader.ThrowIfAny();
  }

  void ReadOverlaps(const CsvTable& table) {
    CsvReader reader(table, {"link", "ar_bytes", "ar_with_gemm_us", "gemm_slowdown_mean"});
    for (std::size_t row = 0; row < table.rows(); ++row) {
      LiveOverlap overlap;
      overlap.bytes = Integer(reader, row, "ar_bytes", kMostBytes);
      overlap.beside = Seconds(reader, row, "ar_with_gemm_us");
      overlap.slow_down = reader.Positive(row, "gemm_slowdown_mean").value_or(1);
      sweep_.overlaps[Name(reader, row, "link")].push_back(overlap);
    }
    reader.ThrowIfAny();
  }

  void ReadSlowDowns(const CsvTable& table) {
    CsvReader reader(table, {"config", "factor"});
    for (std::size_t row = 0; row < table.rows(); ++row) {
      slow_downs_[Name(reader, row, "config")].push_back(
          reader.Positive(row, "factor").value_or(1));
    }
    reader.ThrowIfAny();
  }

  LiveSweep Take() {
    for (const auto& [key, gradients] : gradients_) {
      LiveProfile& profile = sweep_.profiles[key];
      for (const auto& [parameter, gradient] : gradients) {
        profile.push_back({gradient.name, gradient.bytes, Median(gradient.ready)});
      }
      std::sort(profile.begin(), profile.end(), [](const LiveGradient& a, const LiveGradient& b) {
        return std::tie(a.ready, a.name) < std::tie(b.ready, b.name);
      });
    }
    for (const auto& [link, points] : curves_) {
      for (const auto& [bytes, ranks] : points) {  // the mean of the ranks' medians
        double sum = 0;
        for (const double seconds : ranks) sum += seconds;
        sweep_.curves[link].emplace_back(bytes, sum / static_cast<double>(ranks.size()));
      }
    }
    for (const auto& [config, factors] : slow_downs_) sweep_.slow_downs[config] = Median(factors);
    return std::move(sweep_);
  }

 private:
  struct Gradient {
    std::string name;
    std::int64_t bytes = 0;
    std::vector<double> ready;  // of every sweep point
  };

  static std::string Name(CsvReader& reader, std::size_t row, std::string_view column) {
    const std::string_view text = reader.Text(row, column);
    // They become parts of a job and of file names.
    const bool is_name =
        !text.empty() && text[0] != '.' && std::all_of(text.begin(), text.end(), [](char c) {
          return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                 c == '_' || c == '.' || c == '-';
        });
    if (is_name) return std::string(text);
    reader.Report(row, column,
                  fmt::format("found '{}', allowed: letters, digits, '_', '.' and '-'", text));
    return "none";
  }

  static double Seconds(CsvReader& reader, std::size_t row, std::string_view column) {
    const double seconds = reader.Positive(row, column).value_or(1) * kMicrosecond;
    if (seconds >= kLeastSeconds && seconds <= kMostSeconds) return seconds;
    reader.Report(row, column, "found another time, allowed: 1e-6 to 1e10 us");
    return 1;
  }

  static std::int64_t Integer(CsvReader& reader, std::size_t row, std::string_view column,
                              std::int64_t most) {
    const std::int64_t value = reader.PositiveInteger(row, column).value_or(1);
    if (value <= most) return value;
    reader.Report(row, column, fmt::format("found {}, allowed: up to {}", value, most));
    return 1;
  }

  LiveSweep sweep_;
  std::map<std::pair<std::string, std::string>, std::map<std::string, Gradient>> gradients_;
  std::map<std::string, std::map<std::int64_t, std::vector<double>>> curves_;
  std::map<std::string, std::vector<double>> slow_downs_;
};

// What a table is, by a column that no other has.
struct TableKind {
  std::string_view column;
  void (SweepReader::*read)(const CsvTable& table);
};
constexpr std::array kTableKinds = {
    TableKind{"bwd_no_comm_us", &SweepReader::ReadSteps},
    TableKind{"ready_no_comm_us", &SweepReader::ReadGradients},
    TableKind{"median_us", &SweepReader::ReadCurves},
    TableKind{"ar_with_gemm_us", &SweepReader::ReadOverlaps},
    TableKind{"factor", &SweepReader::ReadSlowDowns},
};

void ReadTable(const CsvTable& table, SweepReader& reader) {
  const std::vector<std::string>& columns = table.columns();
  for (const TableKind& kind : kTableKinds) {
    if (std::find(columns.begin(), columns.end(), kind.column) == columns.end()) continue;
    (reader.*kind.read)(table);
    return;
  }
  std::vector<std::string_view> known;
  for (const TableKind& kind : kTableKinds) known.push_back(kind.column);
  throw ConfigError(Place{table.file(), 1, 1},
                    fmt::format("found the columns {}, allowed: a table with one of {}",
                                fmt::join(columns, ", "), fmt::join(known, ", ")));
}

}  // namespace

LiveSweep ReadLiveSweep(const std::vector<CsvTable>& tables) {
  SweepReader reader;
  for (const CsvTable& table : tables) ReadTable(table, reader);
  LiveSweep sweep = reader.Take();
  if (!sweep.steps.empty()) return sweep;
  throw ConfigError(Place{tables.empty() ? std::string() : tables[0].file(), 0, 0},
                    "found no measured step, allowed: one table with a column bwd_no_comm_us");
}

}  // namespace stepsim
