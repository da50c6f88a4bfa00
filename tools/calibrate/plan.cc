#include "tools/calibrate/plan.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

namespace stepsim::measure {
namespace {

constexpr int kJobTopShapes = 8;    // of a job's network: in level 0
constexpr int kJobNextShapes = 24;  // ... in level 1
constexpr std::int64_t kSmallestMessage = 1 << 10;
constexpr std::int64_t kSmallestKernel = 1 << 16;

bool Wants(const PlanRequest& request, std::string_view kind) {
  return request.kinds.empty() ||
         std::find(request.kinds.begin(), request.kinds.end(), kind) != request.kinds.end();
}

std::vector<std::string> TypesOf(const PlanRequest& request, const DeviceLimits& limits) {
  return request.dtypes.empty() ? limits.dtypes : request.dtypes;
}

// `from`, from x factor, ... up to `to`, which is always there.
std::vector<std::int64_t> Sizes(std::int64_t from, std::int64_t to, std::int64_t factor) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = to; size >= from; size /= factor) sizes.push_back(size);
  std::reverse(sizes.begin(), sizes.end());
  return sizes;
}

class PlanBuilder {
 public:
  PlanBuilder(const PlanRequest& request, const DeviceLimits& limits, int ranks)
      : request_(request), limits_(limits), ranks_(ranks), types_(TypesOf(request, limits)) {}

  void Launches() {
    for (const LaunchOp op :
         {LaunchOp::kKernelLaunch, LaunchOp::kEmptyKernel, LaunchOp::kEventHandover}) {
      Add(LaunchTask{op}, 0);
    }
  }

  void Gemms() {
    if (!request_.gemms.empty()) return JobGemms();
    const std::int64_t edge = limits_.gemm_edge;
    for (std::size_t type = 0; type < types_.size(); ++type) {
      const int later = type == 0 ? 0 : 1;  // the usual type first
      for (const GridShape& shape : kGrid) {
        Add(GemmTask{Part(edge, shape.m), Part(edge, shape.n), Part(edge, shape.k), types_[type]},
            shape.level + later);
      }
    }
  }

  void MemoryKernels() {
    const auto sizes = Sizes(kSmallestKernel, limits_.memory_kernel_bytes, 4);
    const auto levels = CoarseToFine(sizes.size());
    for (const MemoryOp op : {MemoryOp::kCopy, MemoryOp::kAdd, MemoryOp::kNorm}) {
      const int later = op == MemoryOp::kCopy ? 0 : 1;
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        // Three tensors of the size of the others' two.
        const std::int64_t bytes = op == MemoryOp::kAdd ? sizes[i] / 2 * 3 : sizes[i];
        Add(MemoryTask{op, bytes}, levels[i] + later);
      }
    }
  }

  void Attention() {
    if (!request_.attention.empty()) {
      for (const AttentionTask& task : request_.attention) Add(task, 0);
      return;
    }
    const std::string type = limits_.dtypes.empty() ? "fp32" : limits_.dtypes.front();
    const std::int64_t sequence = limits_.attention_sequence;
    int level = 0;
    for (const std::int64_t tokens : {sequence, sequence / 4, sequence * 2, sequence / 2}) {
      for (const bool causal : {true, false}) {
        Add(AttentionTask{1, limits_.attention_heads, tokens, 128, causal, type},
            level + (causal ? 0 : 1));
      }
      ++level;
    }
  }

  void Collectives() {
    if (ranks_ < 2) return;
    const auto sizes = MessageSizes(4);
    const auto levels = CoarseToFine(sizes.size());
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      for (const Flavour& flavour : kFlavours) {
        Add(CollectiveTask{flavour.op, sizes[i], flavour.in_place, 0}, levels[i] + flavour.level);
      }
      if (!limits_.has_cta_limit) continue;
      for (const int ctas : request_.max_ctas) {
        Add(CollectiveTask{CollectiveKind::kAllReduce, sizes[i], true, ctas}, levels[i] + 2);
      }
    }
  }

  void Interference() {
    const std::string type = types_.empty() ? "fp32" : types_.front();
    const GemmTask compute =
        request_.gemms.empty()
            ? GemmTask{limits_.gemm_edge / 2, limits_.gemm_edge / 2, limits_.gemm_edge / 2, type}
            : request_.gemms.front();
    const auto loads = LoadSms();
    const auto levels = CoarseToFine(loads.size());
    for (std::size_t i = 0; i < loads.size(); ++i) {
      Add(InterferenceTask{compute, CopyLoad{loads[i]}}, levels[i]);
    }
    if (ranks_ < 2) return;
    std::vector<int> limits = {0};
    if (limits_.has_cta_limit) {
      limits.insert(limits.end(), request_.max_ctas.begin(), request_.max_ctas.end());
    }
    int level = 0;
    for (const std::int64_t bytes : LoadMessages()) {
      for (const int ctas : limits) {
        const CollectiveTask load{CollectiveKind::kAllReduce, bytes, true, ctas};
        const int at = level + (ctas == 0 ? 0 : 1);
        if (!limits_.has_polling) {
          Add(InterferenceTask{compute, CollectiveLoad{load, std::nullopt}}, at);
          continue;
        }
        for (const bool is_polled : {true, false}) {
          Add(InterferenceTask{compute, CollectiveLoad{load, is_polled}}, at);
        }
      }
      ++level;
    }
  }

  // Level by level; within one, the kinds take turns.
  std::vector<PlannedTask> Sorted() && {
    std::map<std::pair<int, std::string_view>, int> taken;
    std::vector<std::pair<std::pair<int, int>, PlannedTask>> turns;
    for (PlannedTask& planned : plan_) {
      const int turn = taken[{planned.level, KindOf(planned.task)}]++;
      turns.emplace_back(std::pair{planned.level, turn}, std::move(planned));
    }
    std::stable_sort(turns.begin(), turns.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<PlannedTask> sorted;
    for (auto& [key, planned] : turns) sorted.push_back(std::move(planned));
    return sorted;
  }

 private:
  // Parts of the edge of a large product, in eighths.
  struct GridShape {
    int m, n, k, level;
  };
  static constexpr std::array<GridShape, 21> kGrid = {{
      {8, 8, 8, 0},  {4, 4, 4, 0},  {2, 2, 2, 0},   // cubes
      {8, 4, 4, 1},  {4, 8, 4, 1},  {4, 4, 8, 1},   // tokens, output, input
      {1, 1, 1, 1},  {16, 4, 4, 1}, {1, 8, 8, 1},   // few tokens
      {8, 4, 14, 2}, {8, 14, 4, 2}, {8, 12, 4, 2},  // of MLPs and projections of transformers
      {2, 8, 8, 2},  {8, 2, 8, 2},  {8, 8, 2, 2},  {8, 28, 8, 2},  {8, 8, 1, 3},
      {8, 1, 8, 3},  {3, 5, 7, 3},  {5, 5, 5, 3},  {16, 16, 2, 3},
  }};
  static std::int64_t Part(std::int64_t edge, int eighths) { return edge * eighths / 8; }

  struct Flavour {
    CollectiveKind op;
    bool in_place;
    int level;
  };
  // As frameworks call them first: DDP reduces in place, FSDP gathers and scatters between buffers.
  static constexpr std::array<Flavour, 8> kFlavours = {{
      {CollectiveKind::kAllReduce, true, 0},
      {CollectiveKind::kAllGather, false, 0},
      {CollectiveKind::kReduceScatter, false, 0},
      {CollectiveKind::kAllToAll, false, 1},
      {CollectiveKind::kSendRecv, false, 1},
      {CollectiveKind::kAllReduce, false, 3},
      {CollectiveKind::kAllGather, true, 3},
      {CollectiveKind::kReduceScatter, true, 3},
  }};

  void Add(MeasureTask task, int level) {
    if (Wants(request_, KindOf(task))) plan_.push_back({std::move(task), level});
  }

  void JobGemms() {
    int number = 0;
    for (const GemmTask& gemm : request_.gemms) {
      Add(gemm, number < kJobTopShapes ? 0 : number < kJobNextShapes ? 1 : 2);
      ++number;
    }
  }

  std::vector<std::int64_t> MessageSizes(std::int64_t factor) const {
    const std::int64_t most = request_.max_bytes > 0 ? request_.max_bytes : limits_.message_bytes;
    const std::int64_t least =
        request_.min_bytes > 0 ? request_.min_bytes : std::min(kSmallestMessage, most);
    return Sizes(least, most, factor);
  }

  // Large ones: beside a short one nothing is seen.
  std::vector<std::int64_t> LoadMessages() const {
    const auto sizes = MessageSizes(4);
    std::vector<std::int64_t> large(sizes.rbegin(), sizes.rend());
    if (large.size() > 2) large.resize(2);
    return large;
  }

  std::vector<int> LoadSms() const {
    if (!request_.load_sms.empty()) return request_.load_sms;
    std::vector<int> loads;
    for (int sms = std::min(2, limits_.sms); sms <= std::max(1, limits_.sms / 2); sms *= 2) {
      loads.push_back(sms);
    }
    return loads;
  }

  const PlanRequest& request_;
  const DeviceLimits& limits_;
  int ranks_;
  std::vector<std::string> types_;
  std::vector<PlannedTask> plan_;
};

}  // namespace

std::vector<int> CoarseToFine(std::size_t count) {
  std::vector<int> levels(count, 0);
  // Gaps between points that have their level, halved until nothing is left.
  struct Gap {
    std::size_t begin, end;
    int level;
  };
  std::vector<Gap> gaps;
  if (count > 2) gaps.push_back({0, count - 1, 1});
  while (!gaps.empty()) {
    const Gap gap = gaps.back();
    gaps.pop_back();
    if (gap.end - gap.begin < 2) continue;
    const std::size_t middle = (gap.begin + gap.end) / 2;
    levels[middle] = gap.level;
    gaps.push_back({gap.begin, middle, gap.level + 1});
    gaps.push_back({middle, gap.end, gap.level + 1});
  }
  return levels;
}

std::vector<PlannedTask> MakePlan(const PlanRequest& request, const DeviceLimits& limits,
                                  int ranks) {
  PlanBuilder builder(request, limits, ranks);
  builder.Launches();
  builder.Gemms();
  builder.MemoryKernels();
  builder.Attention();
  builder.Collectives();
  builder.Interference();
  return std::move(builder).Sorted();
}

}  // namespace stepsim::measure
