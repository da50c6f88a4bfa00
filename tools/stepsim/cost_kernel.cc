// stepsim cost gemm, attention and memory: one kernel that has the GPU to itself.
#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "models/cost/kernel_cost.h"
#include "models/workload/kernel_work.h"
#include "sim/base/units.h"
#include "tools/stepsim/cost_command.h"
#include "tools/stepsim/size_range.h"

namespace stepsim {
namespace {

constexpr std::int64_t kMostElements = 1'000'000'000;  // m, n, k, tokens
constexpr double kMostWork = 1e15;  // elements of one matrix: far below the end of int64
constexpr double kMicro = 1e6;

// One option whose values are combined with all others', the last one varying fastest.
struct Axis {
  std::string key;  // column: "m"
  std::vector<std::int64_t> values;
};

struct Point {
  std::vector<std::int64_t> shape;  // one value per axis
  ComputeWork work;
  KernelCost cost;
};

Axis ReadAxis(const CostQuestion& question, const std::string& key, const std::string& option,
              std::string_view otherwise, Diagnostics& diagnostics) {
  const std::string text = question.Text(option, otherwise);
  if (text.empty()) {
    diagnostics.Add({}, fmt::format("{}: missing, allowed: a whole number such as 4096, a list or "
                                    "a range such as 1024:8192:x2",
                                    option));
    return {key, {}};
  }
  return {key, ParseRange(text, {option, Unit::kNone, kMostElements}, diagnostics)};
}

// The last axis of every kernel: one value, all SMs of the GPU, unless the user names others.
Axis ReadSms(const CostQuestion& question, const GpuSpec& gpu) {
  const std::string text = question.Text("--sms", fmt::format("{}", gpu.sms));
  Diagnostics diagnostics;
  Axis axis{"sms", ParseRange(text, {"--sms", Unit::kNone, gpu.sms}, diagnostics)};
  diagnostics.ThrowIfAny();
  return axis;
}

std::vector<std::vector<std::int64_t>> Combine(const std::vector<Axis>& axes) {
  std::vector<std::vector<std::int64_t>> shapes(1);
  for (const Axis& axis : axes) {
    std::vector<std::vector<std::int64_t>> longer;
    for (const auto& shape : shapes) {
      for (const std::int64_t value : axis.values) {
        longer.push_back(shape);
        longer.back().push_back(value);
      }
    }
    if (longer.size() > kMostRangePoints) {
      throw ConfigError(Place{}, fmt::format("cost: found more than {} combinations of sizes, "
                                             "allowed: at most that many",
                                             kMostRangePoints));
    }
    shapes = std::move(longer);
  }
  return shapes;
}

void CheckPeak(const GpuSpec& gpu, const std::string& hardware, DType dtype) {
  if (PeakOf(gpu, dtype).value > 0) return;
  std::vector<std::string_view> names;
  for (const DType other : {DType::kFp32, DType::kTf32, DType::kBf16, DType::kFp16, DType::kFp8}) {
    if (PeakOf(gpu, other).value > 0) names.push_back(ToString(other));
  }
  throw ConfigError(Place{"--dtype " + std::string(ToString(dtype)), 0, 0},
                    fmt::format("found a type for which hardware {} has no peak, allowed: {}",
                                hardware, fmt::join(names, ", ")));
}

// The matrices, the sums and their traffic must stay below 2^63.
void CheckWork(double elements) {
  if (elements <= kMostWork) return;
  throw ConfigError(Place{}, fmt::format("cost: found about {} elements, allowed: at most {}",
                                         FormatCount(elements), FormatCount(kMostWork)));
}

// ---- Showing ----

struct KernelTable {
  const CostOp& op;
  const ClusterSpec& cluster;
  DType dtype = DType::kBf16;
  std::vector<Axis> axes;
  std::vector<Point> points;
  std::string note;  // beside the operation's name: "causal, backward"
};

double FlopRateOf(const Point& p) {
  return p.cost.seconds > 0 ? p.work.flops.value / p.cost.seconds : 0;
}
double ByteRateOf(const Point& p) {
  return p.cost.seconds > 0 ? ToDouble(p.work.bytes) / p.cost.seconds : 0;
}
double FractionOfPeak(const Point& p, const KernelTable& table) {
  const double peak = PeakOf(table.cluster.hardware.gpu, table.dtype).value;
  return peak > 0 ? FlopRateOf(p) / peak : 0;
}
double FractionOfHbm(const Point& p, const KernelTable& table) {
  return ByteRateOf(p) / table.cluster.hardware.gpu.hbm_bandwidth.value;
}
double Waves(const Point& p) {
  return std::ceil(p.cost.tiles / static_cast<double>(p.shape.back()));  // over the SMs in use
}

std::string ErrorText(const KernelTable& table) {
  return ExpectedErrorText(table.points, "shapes");
}

std::string HeaderText(const KernelTable& table) {
  const HardwareSpec& hardware = table.cluster.hardware;
  const GpuSpec& gpu = hardware.gpu;
  std::string text = fmt::format("# stepsim cost {}{}{}: one kernel alone on the GPU\n",
                                 table.op.name, table.note.empty() ? "" : ", ", table.note);
  text += fmt::format("# hardware     {}: {}, {} SMs, {} {} dense, HBM {}\n", hardware.name,
                      gpu.name, gpu.sms, FormatFlopRate(PeakOf(gpu, table.dtype).value),
                      ToString(table.dtype), FormatBandwidth(gpu.hbm_bandwidth.value));
  return text + fmt::format("# error        {}\n#\n", ErrorText(table));
}

bool HasFlops(const KernelTable& table) { return table.op.family != CostFamily::kMemory; }
bool HasTiles(const KernelTable& table) { return table.op.family == CostFamily::kGemm; }

std::vector<std::vector<std::string>> HeaderRows(const KernelTable& table) {
  std::vector<std::string> titles, units;
  const auto add = [&](std::string title, std::string unit) {
    titles.push_back(std::move(title));
    units.push_back(std::move(unit));
  };
  for (const Axis& axis : table.axes)
    add(axis.key == "bytes" ? "size" : axis.key, axis.key == "bytes" ? "(B)" : "");
  add("type", "");
  add("time", "(us)");
  if (HasFlops(table)) {
    add("rate", "(TFLOP/s)");
    add("of peak", "");
  }
  add("HBM", "(GB/s)");
  add("of HBM", "");
  add("bound by", "");
  if (HasTiles(table)) {
    add("tiles", "");
    add("waves", "");
  }
  add("error", "");
  return {titles, units};
}

std::vector<std::string> PointText(const Point& point, const KernelTable& table) {
  std::vector<std::string> cells;
  for (const std::int64_t value : point.shape) cells.push_back(fmt::format("{}", value));
  cells.emplace_back(ToString(table.dtype));
  cells.push_back(FormatShort(point.cost.seconds * kMicro));
  if (HasFlops(table)) {
    cells.push_back(FormatShort(FlopRateOf(point) / 1e12));
    cells.push_back(fmt::format("{:.1f}%", FractionOfPeak(point, table) * 100));
  }
  cells.push_back(FormatShort(ByteRateOf(point) / 1e9));
  cells.push_back(fmt::format("{:.1f}%", FractionOfHbm(point, table) * 100));
  cells.emplace_back(point.cost.bound);
  if (HasTiles(table)) {
    const double waves = Waves(point);
    cells.push_back(waves > 0 ? fmt::format("{:.0f}", point.cost.tiles) : "-");
    cells.push_back(waves > 0 ? fmt::format("{:.0f}", waves) : "-");
  }
  cells.push_back(FormatResidual(point.cost.residual, point.cost.is_extrapolated));
  return cells;
}

ResultTable Exported(const KernelTable& table) {
  ResultTable result{{"op", "hardware", "gpu"}};
  for (const Axis& axis : table.axes) result.columns.push_back(axis.key);
  for (const char* key :
       {"dtype", "time_us", "flops", "hbm_bytes", "tflops", "fraction_of_peak", "hbm_gbps",
        "fraction_of_hbm", "bound", "tiles", "waves", "residual", "is_extrapolated"}) {
    result.columns.emplace_back(key);
  }
  for (const Point& p : table.points) {
    std::vector<Cell> row = {std::string(table.op.name), table.cluster.hardware.name,
                             table.cluster.hardware.gpu.name};
    row.insert(row.end(), p.shape.begin(), p.shape.end());
    row.insert(row.end(),
               {std::string(ToString(table.dtype)), p.cost.seconds * kMicro, p.work.flops.value,
                p.work.bytes.value, FlopRateOf(p) / 1e12, FractionOfPeak(p, table),
                ByteRateOf(p) / 1e9, FractionOfHbm(p, table), std::string(p.cost.bound),
                p.cost.tiles, Waves(p), p.cost.residual, p.cost.is_extrapolated});
    result.rows.push_back(std::move(row));
  }
  return result;
}

CostAnswer Show(const KernelTable& table) {
  std::vector<std::vector<std::string>> rows = HeaderRows(table);
  const std::size_t header_rows = rows.size();
  for (const Point& point : table.points) rows.push_back(PointText(point, table));
  CostAnswer answer;
  answer.text = HeaderText(table) + AlignedText(rows, header_rows);
  answer.table = Exported(table);
  answer.facts = {{"note", table.note}, {"expected_error", ErrorText(table)}};
  return answer;
}

// `make_work` turns a shape into work; it may put a default right in it.
template <class MakeWork>
CostAnswer PriceAll(KernelTable table, const CostQuestion& question, const MakeWork& make_work) {
  const GpuSpec& gpu = table.cluster.hardware.gpu;
  table.axes.push_back(ReadSms(question, gpu));
  for (std::vector<std::int64_t>& shape : Combine(table.axes)) {
    const ComputeWork work = make_work(shape);
    table.points.push_back({shape, work, PriceKernel(work, gpu, shape.back())});
  }
  return Show(table);
}

double Real(std::int64_t number) { return static_cast<double>(number); }

}  // namespace

CostAnswer PriceGemms(const CostQuestion& question, const ConfigSource& configs) {
  Diagnostics diagnostics;
  std::vector<Axis> axes;
  for (const char* key : {"m", "n", "k"}) {
    axes.push_back(ReadAxis(question, key, std::string("--") + key, "", diagnostics));
  }
  axes.push_back(ReadAxis(question, "batch", "--batch", "1", diagnostics));
  const DType dtype = DTypeOf(question, DType::kBf16, diagnostics);
  const DType output = dtype == DType::kFp8 ? DType::kBf16 : dtype;
  const ClusterSpec cluster = ClusterOf(question, configs, diagnostics);
  CheckPeak(cluster.hardware.gpu, cluster.hardware.name, dtype);
  return PriceAll({*question.op, cluster, dtype, axes, {}, ""}, question,
                  [&](const std::vector<std::int64_t>& shape) {
                    const GemmShape gemm{shape[0], shape[1], shape[2], shape[3]};
                    const double m = Real(gemm.m), n = Real(gemm.n), k = Real(gemm.k);
                    CheckWork(Real(gemm.groups) * (m * k + k * n + m * n));
                    return GemmWork(dtype, output, gemm, Pass::kForward);
                  });
}

CostAnswer PriceAttention(const CostQuestion& question, const ConfigSource& configs) {
  Diagnostics diagnostics;
  std::vector<Axis> axes;
  axes.push_back(ReadAxis(question, "batch", "--batch", "1", diagnostics));
  axes.push_back(ReadAxis(question, "seq", "--seq", "", diagnostics));
  axes.push_back(ReadAxis(question, "heads", "--heads", "", diagnostics));
  axes.push_back(question.Has("--kv-heads")
                     ? ReadAxis(question, "kv_heads", "--kv-heads", "", diagnostics)
                     : Axis{"kv_heads", {0}});  // as many as query heads
  axes.push_back(ReadAxis(question, "head_dim", "--head-dim", "128", diagnostics));
  const DType dtype = DTypeOf(question, DType::kBf16, diagnostics);
  const ClusterSpec cluster = ClusterOf(question, configs, diagnostics);
  CheckPeak(cluster.hardware.gpu, cluster.hardware.name, dtype);
  const bool is_causal = question.Has("--causal"), is_backward = question.Has("--backward");
  const std::string note =
      fmt::format("{}, {}", is_causal ? "causal" : "full", is_backward ? "backward" : "forward");
  const auto make_work = [&](std::vector<std::int64_t>& shape) {
    if (shape[3] == 0) shape[3] = shape[2];
    const AttentionShape attention{shape[0], shape[1], shape[2], shape[3], shape[4], is_causal};
    if (attention.heads % attention.kv_heads != 0) {
      throw ConfigError(Place{fmt::format("--kv-heads {}", attention.kv_heads), 0, 0},
                        fmt::format("heads ({}) must be a multiple of kv_heads ({})",
                                    attention.heads, attention.kv_heads));
    }
    CheckWork(Real(attention.batch) * Real(attention.sequence) * Real(attention.heads) *
              Real(attention.head_dim));
    return is_backward ? AttentionBackwardWork(attention, dtype)
                       : AttentionForwardWork(attention, dtype);
  };
  return PriceAll({*question.op, cluster, dtype, axes, {}, note}, question, make_work);
}

CostAnswer PriceMemoryKernels(const CostQuestion& question, const ConfigSource& configs) {
  Diagnostics diagnostics;
  const Axis bytes{"bytes", BytesOf(question, diagnostics)};
  const DType dtype = DTypeOf(question, DType::kBf16, diagnostics);
  const ClusterSpec cluster = ClusterOf(question, configs, diagnostics);
  return PriceAll(
      {*question.op, cluster, dtype, {bytes}, {}, ""}, question,
      [&](const std::vector<std::int64_t>& shape) { return MemoryWork(dtype, Bytes{shape[0]}); });
}

}  // namespace stepsim
