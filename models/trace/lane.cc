#include "models/trace/lane.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <utility>

#include "models/trace/lane_calls.h"
#include "models/trace/lane_context.h"

namespace stepsim {
namespace {

constexpr std::int64_t kPicosecondsPerDay = std::int64_t{86'400} * 1'000'000'000'000;
// What lies further from the median than this has lost its clock.
constexpr Duration kFarthest{20 * kPicosecondsPerDay};

// Process and device.
using DeviceKey = std::pair<std::uint32_t, std::int32_t>;

TraceMoment MedianBegin(const std::vector<const DeviceSpan*>& spans) {
  std::vector<TraceMoment> begins;
  for (const DeviceSpan* span : spans) begins.push_back(span->begin);
  const auto middle = begins.begin() + static_cast<std::ptrdiff_t>(begins.size() / 2);
  std::nth_element(begins.begin(), middle, begins.end());
  return *middle;
}

// The processes of a file that are no host processes: where devices are.
std::set<std::uint32_t> DeviceProcesses(const TraceData& data) {
  std::set<std::uint32_t> processes;
  for (const DeviceSpan& span : data.spans) processes.insert(span.process);
  return processes;
}

class LaneMaker {
 public:
  LaneMaker(const TraceData& data, const TraceOptions& options, const StepNames& step_names,
            const std::set<std::uint32_t>& processes)
      : data_(data), options_(options), step_names_(step_names), processes_(processes) {}

  Lane Make(const std::vector<const DeviceSpan*>& spans) {
    process_ = spans.front()->process;
    lane_.file = data_.file;
    lane_.device = data_.device_name;
    lane_.is_host_only = data_.is_host_only;
    lane_.rank = data_.rank;
    lane_.world_size = data_.world_size;
    for (const auto& [process, label] : data_.process_labels) {
      if (process == process_) TakeRankOf(label);
    }
    median_ = MedianBegin(spans);
    std::vector<const DeviceSpan*> near = WithoutFar(spans);
    lane_.base = median_;
    for (const DeviceSpan* span : near) lane_.base = std::min(lane_.base, span->begin);
    AddMarks();
    LaneContext context(data_, lane_.base, process_, processes_);
    for (const DeviceSpan* span : near) AddSpan(*span, context);
    if (data_.is_host_only) KeepOutermost();
    std::stable_sort(lane_.spans.begin(), lane_.spans.end(), [](const auto& a, const auto& b) {
      return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
    });
    CountLaunches();
    AssignSteps();
    return std::move(lane_);
  }

 private:
  // "rank 3, pp 1 (stands for 8 ranks)"
  void TakeRankOf(const std::string& label) {
    constexpr std::string_view kRank = "rank ";
    if (label.rfind(kRank, 0) != 0) return;
    std::int64_t rank = 0;
    std::size_t i = kRank.size();
    for (; i < label.size() && label[i] >= '0' && label[i] <= '9' && rank < 1'000'000; ++i) {
      rank = 10 * rank + (label[i] - '0');
    }
    if (i > kRank.size()) lane_.rank = rank;
  }

  bool IsFar(TraceMoment moment) const {
    const Duration distance = Difference(moment, median_);
    return distance > kFarthest || distance < -kFarthest;
  }

  std::vector<const DeviceSpan*> WithoutFar(const std::vector<const DeviceSpan*>& spans) {
    std::vector<const DeviceSpan*> near;
    for (const DeviceSpan* span : spans) {
      if (!IsFar(span->begin) && span->length < kFarthest) near.push_back(span);
    }
    if (near.size() < spans.size()) {
      lane_.warnings.push_back(
          fmt::format("{} of {} spans lie more than 20 days from the others or are longer, and are "
                      "left out",
                      spans.size() - near.size(), spans.size()));
    }
    return near;
  }

  SimTime OnClock(TraceMoment moment) const {
    return kStepBegin + std::clamp(Difference(moment, lane_.base), -2 * kFarthest, 2 * kFarthest);
  }

  void AddSpan(const DeviceSpan& raw, LaneContext& context) {
    LaneSpan span;
    span.begin = OnClock(raw.begin);
    span.end = span.begin + raw.length;
    span.name = NameOf(raw.name);
    span.stream = StreamOf(raw.stream);
    const MessageFacts* message = raw.message == kNoIndex ? nullptr : &data_.messages[raw.message];
    span.kind = KindOf(raw, message);
    const LaunchCall* launch = context.LaunchOf(raw);
    if (launch != nullptr) span.launch = OnClock(launch->begin);
    span.phase = raw.phase != 0xFF ? static_cast<Phase>(raw.phase)
                                   : context.PhaseOf(raw, launch, span.is_communication());
    if (span.is_communication()) {
      span.call = static_cast<std::uint32_t>(lane_.calls.size());
      const LaneContext::Surroundings around = context.Around(launch);
      lane_.calls.push_back(MakeCall(data_, options_.sites,
                                     {.kernel = data_.names[raw.name],
                                      .message = message,
                                      .called_by = around.message,
                                      .annotation = around.annotation,
                                      .phase = span.phase}));
    }
    lane_.spans.push_back(span);
  }

  KernelKind KindOf(const DeviceSpan& raw, const MessageFacts* message) {
    if (raw.kind == SpanKind::kCopy || raw.kind == SpanKind::kFill) {
      return {KernelClass::kCopy, "CUDA", 0};
    }
    const auto [known, is_new] = kinds_.try_emplace(raw.name);
    if (is_new) known->second = ClassifyKernel(data_.names[raw.name]);
    KernelKind kind = known->second;
    // What carries the arguments of a collective is one, whatever its name.
    if (message != nullptr && CollectiveOf(message->collective)) {
      kind.kernel_class = KernelClass::kCommunication;
    } else if (kind.kernel_class == KernelClass::kCopy) {
      kind.kernel_class = KernelClass::kElementwise;  // a kernel that copies is one that computes
    }
    return kind;
  }

  std::uint32_t NameOf(std::uint32_t raw) {
    const auto [known, is_new] =
        names_.try_emplace(raw, static_cast<std::uint32_t>(lane_.names.size()));
    if (is_new) lane_.names.push_back(data_.names[raw]);
    return known->second;
  }

  std::uint32_t StreamOf(std::int64_t raw) {
    const auto [known, is_new] =
        streams_.try_emplace(raw, static_cast<std::uint32_t>(lane_.streams.size()));
    if (is_new) {
      lane_.streams.push_back(data_.is_host_only ? fmt::format("thread {}", raw)
                                                 : fmt::format("stream {}", raw));
    }
    return known->second;
  }

  // Operators call operators: the outermost ones tile their thread.
  void KeepOutermost() {
    std::sort(lane_.spans.begin(), lane_.spans.end(), [](const LaneSpan& a, const LaneSpan& b) {
      return std::tie(a.stream, a.begin, b.end) < std::tie(b.stream, b.begin, a.end);
    });
    std::vector<LaneSpan> kept;
    for (const LaneSpan& span : lane_.spans) {
      const bool is_inside = !kept.empty() && kept.back().stream == span.stream &&
                             span.begin < kept.back().end && !span.is_communication();
      if (!is_inside) kept.push_back(span);
    }
    lane_.spans = std::move(kept);
  }

  void CountLaunches() {
    std::size_t kernels = 0, known = 0;
    for (const LaneSpan& span : lane_.spans) {
      if (span.is_copy()) continue;
      ++kernels;
      if (span.launch) ++known;
    }
    lane_.has_launches = !data_.is_host_only && 2 * known > kernels;
  }

  // Annotations of another device's process mark no steps of this one.
  bool IsOurs(std::uint32_t thread) const {
    const std::uint32_t process = data_.threads[thread].process;
    return process == process_ || processes_.count(process) == 0;
  }

  void AddMarks() {
    struct Candidate {
      std::size_t row;
      StepMark mark;
      bool has_number;
    };
    std::vector<Candidate> candidates;
    std::size_t best = std::numeric_limits<std::size_t>::max();
    for (const Annotation& annotation : data_.annotations) {
      if (!IsOurs(annotation.thread) || IsFar(annotation.begin)) continue;
      const auto match = step_names_.Find(data_.names[annotation.name]);
      if (!match) continue;
      best = std::min(best, match->row);
      const SimTime begin = OnClock(annotation.begin);
      candidates.push_back({match->row,
                            {match->number.value_or(0), begin, begin + annotation.length},
                            match->number.has_value()});
    }
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const auto& a, const auto& b) { return a.mark.begin < b.mark.begin; });
    bool is_numbered = true;
    for (const Candidate& candidate : candidates) {
      if (candidate.row != best) continue;
      is_numbered = is_numbered && candidate.has_number;
      AddMark(candidate.mark);
    }
    Number(is_numbered);
  }

  // The same step marked on a second thread lies inside the first mark.
  void AddMark(const StepMark& mark) {
    if (!lane_.marks.empty() && mark.begin < lane_.marks.back().end) return;
    lane_.marks.push_back(mark);
  }

  void Number(bool is_numbered) {
    bool is_rising = true;
    for (std::size_t i = 1; i < lane_.marks.size(); ++i) {
      is_rising = is_rising && lane_.marks[i].number > lane_.marks[i - 1].number;
    }
    if (is_numbered && is_rising) return;
    if (is_numbered) {
      lane_.warnings.emplace_back(
          "the numbers of its steps repeat or fall: counted from 0 instead");
    }
    for (std::size_t i = 0; i < lane_.marks.size(); ++i) {
      lane_.marks[i].number = static_cast<std::int64_t>(i);
    }
  }

  // The step that launched it; without launches, that during which it began.
  void AssignSteps() {
    for (LaneSpan& span : lane_.spans) {
      const SimTime time = lane_.has_launches && span.launch ? *span.launch : span.begin;
      const auto next =
          std::upper_bound(lane_.marks.begin(), lane_.marks.end(), time,
                           [](SimTime t, const StepMark& mark) { return t < mark.begin; });
      span.step = static_cast<std::int32_t>(next - lane_.marks.begin()) - 1;
    }
  }

  const TraceData& data_;
  const TraceOptions& options_;
  const StepNames& step_names_;
  const std::set<std::uint32_t>& processes_;
  std::uint32_t process_ = 0;
  TraceMoment median_;
  std::map<std::uint32_t, KernelKind> kinds_;
  std::map<std::uint32_t, std::uint32_t> names_;
  std::map<std::int64_t, std::uint32_t> streams_;
  Lane lane_;
};

}  // namespace

std::vector<Lane> MakeLanes(const TraceData& data, const TraceOptions& options) {
  std::map<DeviceKey, std::vector<const DeviceSpan*>> devices;
  for (const DeviceSpan& span : data.spans) {
    devices[{span.process, span.device}].push_back(&span);
  }
  // A device that only receives copies belongs to somebody else's run.
  const auto has_kernels = [](const auto& device) {
    return std::any_of(device.second.begin(), device.second.end(), [](const DeviceSpan* span) {
      return span->kind == SpanKind::kKernel || span->kind == SpanKind::kOperator;
    });
  };
  const bool any = std::any_of(devices.begin(), devices.end(), has_kernels);
  const StepNames step_names(options.step_pattern);
  const std::set<std::uint32_t> processes = DeviceProcesses(data);
  std::vector<Lane> lanes;
  for (const auto& device : devices) {
    if (any && !has_kernels(device)) continue;
    lanes.push_back(LaneMaker(data, options, step_names, processes).Make(device.second));
    if (lanes.size() > 1)
      lanes.back().rank = lanes.back().rank == data.rank ? -1 : lanes.back().rank;
  }
  if (lanes.size() > 1 && lanes.front().rank == data.rank) lanes.front().rank = -1;
  if (!lanes.empty()) {
    lanes.front().warnings.insert(lanes.front().warnings.begin(), data.warnings.begin(),
                                  data.warnings.end());
  }
  return lanes;
}

}  // namespace stepsim
