// The format that Perfetto shows and Holistic Trace Analysis reads. One process per rank, one
// thread per stream, times in microseconds from the begin of the reported step:
//
//   {"ph":"X","cat":"kernel","name":"layer0.fwd","pid":1,"tid":1,"ts":0.000000,"dur":12.500000,
//    "args":{"stream":1,"device":0,"correlation":1,"phase":"forward", ...}}
//
// Readers count every kernel of a file. So only the reported step is written, and tasks that reach
// into it from outside are cut at its ends.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "sim/metrics/segments.h"
#include "sim/report/text_buffer.h"
#include "sim/report/trace_memory.h"
#include "sim/report/trace_names.h"
#include "sim/report/trace_tracks.h"
#include "sim/report/writer.h"

namespace stepsim {
namespace {

using Track = TraceTracks::Track;

constexpr Duration kNanosecond{1000};  // what Perfetto resolves

class TraceWriter {
 public:
  TraceWriter(const Result& result, const Sink& sink);

  void Write();

 private:
  // What the slices of equal works share.
  struct WorkText {
    std::string quoted_name;  // of a collective
    std::string arguments;    // ,"bytes":...
    bool is_known = false;
  };
  // Can a label be written as it is, or does it need an escape or contain a reserved word?
  enum class NameKind : std::uint8_t { kUnknown, kPlain, kOther };
  // Of the communication bytes in flight.
  struct Change {
    Duration time{};
    std::int64_t bytes = 0;
  };

  void WriteHead();
  void WriteTail();
  void WriteRankMetadata(RankId rank);
  void WriteThreadName(const Track& track, std::string_view name, int sort_index);
  void WriteStepAnnotation(RankId rank);
  void WriteTask(TaskId task);
  void WriteHostSlice(TaskId task, const Track& track);
  TaskId LaunchedBy(TaskId task) const;  // kNoId: it launches nothing
  void WriteComputeSlice(TaskId task, const Track& track);
  void WriteTransferSlice(TaskId task, const Track& track);
  void WriteWaitSlice(TaskId task, const Track& track, Duration transfer_start);
  void WriteFlow(TaskId transfer, const Track& track);
  void WriteExposed(RankId rank, const RankTasks& tasks);
  void WriteBytesInFlight(RankId rank);

  // `text` is a literal or a string.
  template <class Text>
  void BeginEvent(const Text& text) {
    if (has_events_) text_.Put(",\n");
    has_events_ = true;
    text_.Put(text);
  }
  void PutKernelName(LabelId id, const std::string& name);
  void PutSpan(const Track& track, Duration begin, Duration end);
  void PutKernelArguments(TaskId task, const Track& track);
  void PutCause(TaskId task);
  const WorkText& TextOf(WorkId work);
  void FindLastDependencies();

  bool HasAccount() const { return view_ != TraceView::kNccl; }
  bool IsShown(TaskId task) const;
  Duration FromStepBegin(SimTime time) const;
  static std::int64_t Correlation(TaskId task) {
    return static_cast<std::int64_t>(Index(task)) + 1;  // 0 means "none" to readers
  }
  Duration Begin(TaskId task) const { return FromStepBegin(timeline_.start[task]); }
  Duration End(TaskId task) const { return FromStepBegin(timeline_.end[task]); }

  const TaskGraph& graph_;
  const Timeline& timeline_;
  const StepReport& report_;
  const TraceView view_;
  const Interval window_;
  TextBuffer text_;
  const TraceTracks tracks_;
  bool has_events_ = false;
  IdVector<TaskId, TaskId> last_dependency_;  // of transfers; kNoId when there is none
  IdVector<WorkId, WorkText> work_texts_;     // filled on demand
  std::vector<NameKind> name_kinds_;          // by label, filled on demand
  std::map<std::pair<RankId, GroupId>, std::int64_t> sequence_numbers_;
  IdVector<RankId, std::vector<Change>> changes_;
};

TraceWriter::TraceWriter(const Result& result, const Sink& sink)
    : graph_(result.graph),
      timeline_(result.timeline),
      report_(result.report),
      view_(result.trace_view),
      window_{result.report.window.begin, result.report.window.end},
      text_(sink),
      tracks_(result.graph),
      work_texts_(result.graph.work_count()),
      changes_(result.graph.rank_count()) {}

void TraceWriter::Write() {
  FindLastDependencies();
  WriteHead();
  for (const RankId rank : AllIds<RankId>(graph_.rank_count())) {
    WriteRankMetadata(rank);
    WriteStepAnnotation(rank);
  }
  for (const TaskId task : AllIds<TaskId>(graph_.task_count())) WriteTask(task);
  const std::vector<RankTasks> tasks = TasksByRank(graph_);
  const MemoryReplay memory(graph_, timeline_);
  for (const RankId rank : AllIds<RankId>(graph_.rank_count())) {
    if (HasAccount()) WriteExposed(rank, tasks[Index(rank)]);
    WriteBytesInFlight(rank);
    WriteMemoryCounter(
        graph_, memory, rank, tracks_.Pid(rank), report_.window,
        [this](std::string_view text) { BeginEvent(text); }, &text_);
  }
  WriteTail();
}

// A reader that takes one file per rank finds the rank here.
void TraceWriter::WriteHead() {
  text_.Put("{\"schemaVersion\":1,\n");
  if (graph_.rank_count() == 1) {
    text_.Put(
        fmt::format("\"distributedInfo\":{{\"backend\":\"nccl\",\"rank\":{},\"world_size\":{}}},\n",
                    graph_.rank_info(RankId{0}).global_rank, report_.context.gpus));
  }
  text_.Put(fmt::format("\"otherData\":{{\"producer\":\"stepsim\",\"job\":{}}},\n",
                        QuoteJson(report_.context.job)));
  text_.Put("\"displayTimeUnit\":\"ms\",\n\"traceEvents\":[\n");
}

void TraceWriter::WriteTail() {
  text_.Put("\n]}\n");
  text_.Flush();
}

void TraceWriter::WriteRankMetadata(RankId rank) {
  const RankInfo& info = graph_.rank_info(rank);
  const std::string place = info.name.empty() ? "" : fmt::format(", {}", info.name);
  const std::string folded =
      info.stands_for > 1 ? fmt::format(" (stands for {} ranks)", info.stands_for) : "";
  BeginEvent(fmt::format(R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":{}}}}})",
                         tracks_.Pid(rank),
                         QuoteJson(fmt::format("rank {}{}{}", info.global_rank, place, folded))));
  BeginEvent(fmt::format(
      R"({{"ph":"M","name":"process_sort_index","pid":{0},"args":{{"sort_index":{0}}}}})",
      tracks_.Pid(rank)));
  // From top to bottom: step, exposed, host, then the streams by number.
  constexpr int kStepIndex = -3;
  constexpr int kExposedIndex = -2;
  constexpr int kHostIndex = -1;
  WriteThreadName(tracks_.StepTrack(rank), "step", kStepIndex);
  if (HasAccount()) WriteThreadName(tracks_.ExposedTrack(rank), "exposed", kExposedIndex);
  for (const StreamId stream : AllIds<StreamId>(graph_.stream_count())) {
    const Track& track = tracks_.Of(stream);
    if (graph_.stream(stream).rank != rank || !track.is_used) continue;
    const std::string& name = graph_.stream(stream).name;
    WriteThreadName(track, track.is_host ? name : fmt::format("stream {} {}", track.tid, name),
                    track.is_host ? kHostIndex : track.tid);
  }
}

void TraceWriter::WriteThreadName(const Track& track, std::string_view name, int sort_index) {
  BeginEvent(
      fmt::format(R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":{}}}}})",
                  track.pid, track.tid, QuoteJson(name)));
  BeginEvent(fmt::format(
      R"({{"ph":"M","name":"thread_sort_index","pid":{},"tid":{},"args":{{"sort_index":{}}}}})",
      track.pid, track.tid, sort_index));
}

// One only: readers drop the last of several steps.
void TraceWriter::WriteStepAnnotation(RankId rank) {
  BeginEvent(R"({"ph":"X","cat":"user_annotation","name":"ProfilerStep#0",)");
  PutSpan(tracks_.StepTrack(rank), Duration::zero(), window_.end - window_.begin);
  text_.Put("}");
}

void TraceWriter::WriteTask(TaskId task) {
  const TaskKind kind = graph_.kind(task);
  const Track& track = tracks_.Of(task);
  if (kind == TaskKind::kTransfer) return WriteTransferSlice(task, track);
  if (!IsShown(task)) return;
  if (kind == TaskKind::kHost) return WriteHostSlice(task, track);
  WriteComputeSlice(task, track);
}

// Without args.stream: a reader would take it for a kernel. A launch carries the correlation of the
// kernel that waits for it, by which readers pair the two.
void TraceWriter::WriteHostSlice(TaskId task, const Track& track) {
  const TaskId launched = LaunchedBy(task);
  if (launched == kNoId<TaskId>) {
    BeginEvent(R"({"ph":"X","cat":"cpu_op","name":)");
    text_.PutQuoted(graph_.label(task).name);
    text_.Put(",");
    PutSpan(track, Begin(task), End(task));
    text_.Put("}");
    return;
  }
  BeginEvent(R"({"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel",)");
  PutSpan(track, Begin(task), End(task));
  text_.Put(",\"args\":{\"correlation\":");
  text_.PutInteger(Correlation(launched));
  text_.Put(",\"launches\":");
  text_.PutQuoted(graph_.label(launched).name);
  text_.Put("}}");
}

TaskId TraceWriter::LaunchedBy(TaskId task) const {
  const auto* work = std::get_if<HostWork>(&graph_.work(task));
  if (work == nullptr || work->launches + work->collective_calls == 0) return kNoId<TaskId>;
  for (const Edge edge : graph_.successors(task)) {
    if (!edge.is_stream_order()) return edge.to();
  }
  return kNoId<TaskId>;
}

// What a kernel waited for is said where it is not its predecessor on the stream: that one is seen.
void TraceWriter::WriteComputeSlice(TaskId task, const Track& track) {
  BeginEvent(R"({"ph":"X","cat":"kernel","name":)");
  PutKernelName(graph_.label_id(task), graph_.label(task).name);
  text_.Put(",");
  PutSpan(track, Begin(task), End(task));
  PutKernelArguments(task, track);
  if (timeline_.bound_by[task].bound() == Bound::kDependency) PutCause(task);
  text_.Put(TextOf(graph_.work_id(task)).arguments);
  text_.Put("}}");
}

void TraceWriter::WriteTransferSlice(TaskId task, const Track& track) {
  const Label& label = graph_.label(task);
  const auto* work = std::get_if<CollectiveWork>(&graph_.work(task));
  // Calls before the reported step count too.
  const std::int64_t sequence =
      work == nullptr ? 0 : sequence_numbers_[{graph_.rank(task), work->group}]++;
  if (!IsShown(task)) return;
  const Duration transfer_start = FromStepBegin(TransferStart(graph_, timeline_, task));
  const bool waits_apart = view_ == TraceView::kTransfer && transfer_start > Begin(task);
  if (waits_apart) WriteWaitSlice(task, track, transfer_start);
  BeginEvent(R"({"ph":"X","cat":"kernel","name":)");
  text_.Put(work == nullptr ? QuoteJson(OpaqueTransferName(label.name))
                            : TextOf(graph_.work_id(task)).quoted_name);
  text_.Put(",");
  PutSpan(track, waits_apart ? transfer_start : Begin(task), End(task));
  PutKernelArguments(task, track);
  PutCause(task);
  text_.Put(",\"label\":");
  text_.PutQuoted(label.name);
  text_.Put(",\"site\":\"");
  text_.Put(ToString(label.site));
  text_.Put("\",\"transfer_start\":");
  text_.PutMicroseconds(transfer_start);
  if (work != nullptr) {
    text_.Put(",\"Seq\":");
    text_.PutInteger(sequence);
    text_.Put(TextOf(graph_.work_id(task)).arguments);
    std::vector<Change>& changes = changes_[graph_.rank(task)];
    changes.push_back({transfer_start, work->bytes.value});
    changes.push_back({End(task), -work->bytes.value});
  }
  text_.Put("}}");
  WriteFlow(task, track);
}

// Without args.stream: readers count what runs on a stream.
void TraceWriter::WriteWaitSlice(TaskId task, const Track& track, Duration transfer_start) {
  BeginEvent(R"({"ph":"X","cat":"wait","name":"wait",)");
  PutSpan(track, Begin(task), transfer_start);
  text_.Put(",\"args\":{\"for\":");
  text_.PutQuoted(graph_.label(task).name);
  text_.Put("}}");
}

// An arrow from the task that made the data ready. Both ends lie one nanosecond inside their
// slices, so that a viewer does not take the neighbouring slice.
void TraceWriter::WriteFlow(TaskId transfer, const Track& track) {
  const TaskId source = last_dependency_[transfer];
  if (source == kNoId<TaskId> || !IsShown(source)) return;
  BeginEvent(R"({"ph":"s","cat":"flow","name":"ready","id":)");
  text_.PutInteger(static_cast<std::int64_t>(Index(transfer)));
  text_.Put(",");
  text_.Put(tracks_.Of(source).place);
  text_.PutMicroseconds(std::max(Begin(source), End(source) - kNanosecond));
  text_.Put("}");
  BeginEvent(R"({"ph":"f","bp":"e","cat":"flow","name":"ready","id":)");
  text_.PutInteger(static_cast<std::int64_t>(Index(transfer)));
  text_.Put(",");
  text_.Put(track.place);
  text_.PutMicroseconds(std::min(Begin(transfer) + kNanosecond, End(transfer)));
  text_.Put("}");
}

// What the track "exposed" shows of a segment; "": nothing.
std::string_view SegmentName(const Segment& segment) {
  switch (segment.state) {
    case RankState::kExposed:
      return ToString(segment.site);
    case RankState::kPeerWait:
      return "peer_wait";
    case RankState::kBubble:
      return "bubble";
    default:
      return "";
  }
}

void TraceWriter::WriteExposed(RankId rank, const RankTasks& tasks) {
  const Track track = tracks_.ExposedTrack(rank);
  std::vector<Segment> segments;
  for (const Segment& segment : SplitRank(graph_, timeline_, tasks)) {
    const Interval part = Clip({segment.begin, segment.end}, window_);
    if (part.begin >= part.end || SegmentName(segment).empty()) continue;
    const bool continues = !segments.empty() && segments.back().end == part.begin &&
                           segments.back().state == segment.state &&
                           segments.back().site == segment.site;
    if (continues) {
      segments.back().end = part.end;
    } else {
      segments.push_back({part.begin, part.end, segment.state, segment.site, segment.task});
    }
  }
  for (const Segment& segment : segments) {
    BeginEvent(R"({"ph":"X","cat":"exposed","name":")");
    text_.Put(SegmentName(segment));
    text_.Put("\",");
    PutSpan(track, FromStepBegin(segment.begin), FromStepBegin(segment.end));
    text_.Put("}");
  }
}

void TraceWriter::WriteBytesInFlight(RankId rank) {
  std::vector<Change>& changes = changes_[rank];
  std::sort(changes.begin(), changes.end(),
            [](const Change& a, const Change& b) { return a.time < b.time; });
  const std::string head = fmt::format(
      R"({{"ph":"C","name":"communication in flight","pid":{},"ts":)", tracks_.Pid(rank));
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    bytes += changes[i].bytes;
    const bool is_last_of_moment =
        i + 1 == changes.size() || changes[i + 1].time != changes[i].time;
    if (!is_last_of_moment) continue;
    BeginEvent(head);
    text_.PutMicroseconds(changes[i].time);
    text_.Put(",\"args\":{\"bytes\":");
    text_.PutInteger(bytes);
    text_.Put("}}");
  }
}

void TraceWriter::PutKernelName(LabelId id, const std::string& name) {
  if (name_kinds_.size() <= Index(id)) name_kinds_.resize(2 * Index(id) + 1, NameKind::kUnknown);
  NameKind& kind = name_kinds_[Index(id)];
  if (kind == NameKind::kUnknown) {
    kind = IsPlainJson(name) && !NeedsRenaming(name) ? NameKind::kPlain : NameKind::kOther;
  }
  if (kind == NameKind::kOther) return text_.PutQuoted(ComputeKernelName(name));
  text_.Put("\"");
  text_.Put(name);
  text_.Put("\"");
}

void TraceWriter::PutSpan(const Track& track, Duration begin, Duration end) {
  text_.Put(track.place);
  text_.PutMicroseconds(begin);
  text_.Put(",\"dur\":");
  text_.PutMicroseconds(end - begin);
}

void TraceWriter::PutKernelArguments(TaskId task, const Track& track) {
  constexpr std::array<std::string_view, 4> kPhases = {
      R"(,"phase":"forward")", R"(,"phase":"backward")", R"(,"phase":"optimizer")",
      R"(,"phase":"other")"};
  text_.Put(",\"args\":{");
  text_.Put(track.arguments);
  text_.PutInteger(Correlation(task));
  text_.Put(kPhases[static_cast<std::size_t>(graph_.label(task).phase)]);
  const std::int32_t microstep = graph_.position(task).microstep;
  if (microstep == 0) return;
  text_.Put(",\"microstep\":");
  text_.PutInteger(microstep);
}

void TraceWriter::PutCause(TaskId task) {
  const BoundBy cause = timeline_.bound_by[task];
  switch (cause.bound()) {
    case Bound::kBegin:
      return text_.Put(R"(,"bound_by":"begin")");
    case Bound::kDependency:
      text_.Put(R"(,"bound_by":"dependency","after":)");
      break;
    case Bound::kStreamOrder:
      text_.Put(R"(,"bound_by":"stream_order","after":)");
      break;
  }
  text_.PutInteger(Correlation(cause.task()));
}

const TraceWriter::WorkText& TraceWriter::TextOf(WorkId id) {
  WorkText& text = work_texts_[id];
  if (text.is_known) return text;
  text.is_known = true;
  const Work& work = graph_.work(id);
  if (const auto* compute = std::get_if<ComputeWork>(&work)) {
    text.arguments =
        fmt::format(R"(,"flops":{:.0f},"bytes":{})", compute->flops.value, compute->bytes.value);
  } else if (const auto* collective = std::get_if<CollectiveWork>(&work)) {
    const CollectiveChoice choice =
        Index(id) < report_.choices.size() ? report_.choices[id] : CollectiveChoice{};
    text.quoted_name = QuoteJson(CollectiveKernelName(*collective, choice));
    text.arguments = CollectiveArguments(*collective, graph_.group(collective->group));
  }
  return text;
}

// Only transfers are asked about, and only what made their data: not the launch by the host. Of
// equal ends the task added last wins: the last gradient.
void TraceWriter::FindLastDependencies() {
  last_dependency_ = IdVector<TaskId, TaskId>(graph_.task_count(), kNoId<TaskId>);
  for (const TaskId task : AllIds<TaskId>(graph_.task_count())) {
    if (graph_.kind(task) == TaskKind::kHost) continue;
    for (const Edge edge : graph_.successors(task)) {
      if (edge.is_stream_order() || graph_.kind(edge.to()) != TaskKind::kTransfer) continue;
      TaskId& last = last_dependency_[edge.to()];
      if (last == kNoId<TaskId> || timeline_.end[last] <= timeline_.end[task]) last = task;
    }
  }
}

bool TraceWriter::IsShown(TaskId task) const {
  const SimTime start = timeline_.start[task];
  const SimTime end = timeline_.end[task];
  if (start == end) return start >= window_.begin && start <= window_.end;
  return start < window_.end && end > window_.begin;
}

Duration TraceWriter::FromStepBegin(SimTime time) const {
  return std::clamp(time, window_.begin, window_.end) - window_.begin;
}

}  // namespace

void WriteChromeTrace(const Result& result, const Sink& sink) { TraceWriter(result, sink).Write(); }

}  // namespace stepsim
