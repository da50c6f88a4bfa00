#include "models/trace/kineto_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "models/trace/event_fields.h"
#include "models/trace/event_scanner.h"
#include "models/trace/kineto_event.h"
#include "sim/base/diagnostics.h"
#include "sim/graph/site.h"

namespace stepsim {
namespace {

enum class Mode { kDevice, kHost };

// Of events that could not be used.
struct Losses {
  std::size_t broken = 0, times = 0;
};

std::optional<std::uint8_t> PhaseOf(std::string_view name) {
  for (const Phase phase : {Phase::kForward, Phase::kBackward, Phase::kOptimizer, Phase::kOther}) {
    if (ToString(phase) == name) return static_cast<std::uint8_t>(phase);
  }
  return std::nullopt;
}

std::int64_t WholeOr(std::string_view text, std::int64_t otherwise) {
  return ParseWhole(text).value_or(otherwise);
}

// What the arguments of one event say.
struct Arguments {
  std::optional<std::int64_t> device, stream, correlation, bytes;
  std::optional<std::uint8_t> phase;
  std::string_view shapes, type;  // "Input Dims" and the first "Input type"
  MessageFacts message;
  bool has_message = false;
};

struct MessageRow {
  std::string_view key;
  std::string MessageFacts::*text;
  std::int64_t MessageFacts::*number;
  bool makes_message;  // its presence says that this is a collective
};
constexpr std::array kMessageRows = {
    MessageRow{"Collective name", &MessageFacts::collective, nullptr, true},
    MessageRow{"collective name", &MessageFacts::collective, nullptr, true},
    MessageRow{"dtype", &MessageFacts::dtype, nullptr, false},
    MessageRow{"Process Group Name", &MessageFacts::group_name, nullptr, false},
    MessageRow{"Process Group Description", &MessageFacts::group_description, nullptr, false},
    MessageRow{"Process Group Ranks", &MessageFacts::group_ranks, nullptr, false},
    MessageRow{"In msg nelems", nullptr, &MessageFacts::in_elements, false},
    MessageRow{"Out msg nelems", nullptr, &MessageFacts::out_elements, false},
    MessageRow{"Group size", nullptr, &MessageFacts::group_size, false},
    MessageRow{"Seq", nullptr, &MessageFacts::sequence, false},
    MessageRow{"site", &MessageFacts::site, nullptr, false},
    MessageRow{"label", &MessageFacts::label, nullptr, false},
};

void TakeMessageField(const EventFields& field, Arguments* arguments) {
  for (const MessageRow& row : kMessageRows) {
    if (row.key != field.key()) continue;
    MessageFacts& message = arguments->message;
    if (row.text != nullptr) message.*row.text = UnescapeJson(field.value());
    if (row.number != nullptr) message.*row.number = WholeOr(field.value(), message.*row.number);
    arguments->has_message = arguments->has_message || row.makes_message;
    return;
  }
}

// `["float", "Scalar"]` -> float
std::string_view FirstQuoted(std::string_view text) {
  const std::size_t begin = text.find('"');
  if (begin == std::string_view::npos) return {};
  const std::size_t end = text.find('"', begin + 1);
  return end == std::string_view::npos ? std::string_view()
                                       : text.substr(begin + 1, end - begin - 1);
}

Arguments ParseArguments(std::string_view object) {
  Arguments arguments;
  EventFields field(object);
  while (field.Next()) {
    const std::string_view key = field.key();
    if (key == "stream") {
      arguments.stream = ParseWhole(field.value());
    } else if (key == "device") {
      arguments.device = ParseWhole(field.value());
    } else if (key == "correlation") {
      arguments.correlation = ParseWhole(field.value());
    } else if (key == "bytes") {
      arguments.bytes = ParseWhole(field.value());
    } else if (key == "phase") {
      arguments.phase = PhaseOf(field.value());
    } else if (key == "Input Dims") {
      arguments.shapes = field.value();
    } else if (key == "Input type") {
      arguments.type = FirstQuoted(field.value());
    } else {
      TakeMessageField(field, &arguments);
    }
  }
  return arguments;
}

class DocumentReader {
 public:
  DocumentReader(std::string file, Mode mode) : mode_(mode) {
    data_.file = std::move(file);
    data_.source = "Chrome trace";
    data_.is_host_only = mode == Mode::kHost;
  }

  void TakeMember(std::string_view key, std::string_view value) {
    if (key == "deviceProperties") {
      // The first device that is named.
      const std::size_t name = value.find("\"name\"");
      if (name != std::string_view::npos) {
        data_.device_name = UnescapeJson(FirstQuoted(value.substr(name + 6)));
      }
    }
    if (key != "distributedInfo") return;
    EventFields field(value);
    while (field.Next()) {
      if (field.key() == "rank") data_.rank = WholeOr(field.value(), -1);
      if (field.key() == "world_size") data_.world_size = WholeOr(field.value(), 0);
    }
  }

  void TakeEvent(std::string_view text) {
    ++events_;
    const KinetoEvent event = ReadKinetoEvent(text, mode_ == Mode::kHost);
    if (event.is_broken) ++losses_.broken;
    switch (event.what) {
      case EventClass::kNothing:
        return;
      case EventClass::kMetadata:
        return TakeMetadata(event);
      default:
        break;
    }
    const std::optional<TraceMoment> begin = ParseMoment(event.ts);
    const std::optional<Duration> length = ParseLength(event.dur);
    if (!begin || !length) {
      ++losses_.times;
      return;
    }
    TakeTimed(event, *begin, *length);
  }

  bool has_spans() const { return !data_.spans.empty(); }
  std::size_t events() const { return events_; }

  TraceData Finish(bool is_truncated, const std::string& problem) {
    if (is_truncated) {
      data_.warnings.push_back(
          fmt::format("{}the trace ends in the middle: {} events are used, what follows is lost",
                      problem.empty() ? "" : problem + ": ", events_));
    } else if (!problem.empty()) {
      data_.warnings.push_back(problem + ": what follows is lost");
    }
    if (losses_.broken > 0) {
      data_.warnings.push_back(
          fmt::format("{} of {} events are no valid JSON and are left out or used in part",
                      losses_.broken, events_));
    }
    if (losses_.times > 0) {
      data_.warnings.push_back(fmt::format(
          "{} events have no usable time (missing, negative, not finite or beyond 292 years) and "
          "are left out",
          losses_.times));
    }
    return std::move(data_);
  }

 private:
  void TakeMetadata(const KinetoEvent& event) {
    if (event.name != "process_name") return;
    EventFields field(event.args);
    while (field.Next()) {
      if (field.key() != "name") continue;
      data_.process_labels.emplace_back(data_.names.Index(event.pid), UnescapeJson(field.value()));
    }
  }

  void TakeTimed(const KinetoEvent& event, TraceMoment begin, Duration length) {
    switch (event.what) {
      case EventClass::kKernel:
        return TakeSpan(event, SpanKind::kKernel, begin, length);
      case EventClass::kCopy:
        return TakeSpan(event, SpanKind::kCopy, begin, length);
      case EventClass::kFill:
        return TakeSpan(event, SpanKind::kFill, begin, length);
      case EventClass::kHostOperator:
        return TakeHostSpan(event, SpanKind::kOperator, begin, length);
      case EventClass::kHostCollective:
        return TakeHostSpan(event, SpanKind::kKernel, begin, length);
      case EventClass::kRuntime:
        return TakeLaunch(event, begin, length);
      case EventClass::kBackward:
        data_.backward.push_back({begin, length, data_.ThreadIndex(event.pid, event.tid)});
        return;
      default:
        return TakeAnnotation(event, begin, length);
    }
  }

  void TakeSpan(const KinetoEvent& event, SpanKind kind, TraceMoment begin, Duration length) {
    Arguments arguments = ParseArguments(event.args);
    DeviceSpan span;
    span.kind = kind;
    span.begin = begin;
    span.length = length;
    span.name = NameIndex(event.name);
    span.process = data_.names.Index(event.pid);
    const std::int64_t device = arguments.device.value_or(WholeOr(event.pid, 0));
    span.device = static_cast<std::int32_t>(
        std::clamp<std::int64_t>(device, 0, std::numeric_limits<std::int32_t>::max()));
    // A thread that is no number stands for a stream all the same.
    span.stream = arguments.stream.value_or(
        WholeOr(event.tid, std::int64_t{1'000'000} + data_.names.Index(event.tid)));
    span.correlation = arguments.correlation.value_or(-1);
    span.bytes = arguments.bytes.value_or(-1);
    span.phase = arguments.phase.value_or(span.phase);
    if (arguments.has_message) {
      arguments.message.bytes = span.bytes;
      span.message = AddMessage(std::move(arguments.message));
    }
    data_.spans.push_back(span);
  }

  void TakeHostSpan(const KinetoEvent& event, SpanKind kind, TraceMoment begin, Duration length) {
    DeviceSpan span;
    span.kind = kind;
    span.begin = begin;
    span.length = length;
    span.name = NameIndex(event.name);
    span.process = data_.names.Index(event.pid);
    span.stream = data_.ThreadIndex(event.pid, event.tid);
    if (kind == SpanKind::kKernel) span.message = AddMessage(CallMessage(event));
    data_.spans.push_back(span);
  }

  void TakeLaunch(const KinetoEvent& event, TraceMoment begin, Duration length) {
    const std::optional<std::int64_t> correlation = ParseArguments(event.args).correlation;
    if (!correlation) return;
    data_.launches.push_back(
        {begin, length, *correlation, data_.ThreadIndex(event.pid, event.tid)});
  }

  void TakeAnnotation(const KinetoEvent& event, TraceMoment begin, Duration length) {
    Annotation annotation;
    annotation.begin = begin;
    annotation.length = length;
    annotation.name = NameIndex(event.name);
    annotation.thread = data_.ThreadIndex(event.pid, event.tid);
    if (event.is_call) {
      MessageFacts message = CallMessage(event);
      if (!message.collective.empty()) annotation.message = AddMessage(std::move(message));
    }
    data_.annotations.push_back(annotation);
  }

  // Of a call on the host: by its arguments, or by its name and the shapes of its inputs.
  MessageFacts CallMessage(const KinetoEvent& event) {
    Arguments arguments = ParseArguments(event.args);
    MessageFacts message = std::move(arguments.message);
    if (message.collective.empty() && event.name.find(':') != std::string_view::npos) {
      message.collective = UnescapeJson(event.name);
    }
    if (message.in_elements < 0 && !arguments.shapes.empty()) {
      const std::int64_t elements = CountElements(arguments.shapes);
      if (elements > 0) message.in_elements = elements;
      if (message.dtype.empty()) message.dtype = UnescapeJson(arguments.type);
    }
    return message;
  }

  std::uint32_t NameIndex(std::string_view name) {
    constexpr std::size_t kLongestName = 512;
    return data_.names.Index(UnescapeJson(name.substr(0, kLongestName)));
  }

  std::uint32_t AddMessage(MessageFacts message) {
    data_.messages.push_back(std::move(message));
    return static_cast<std::uint32_t>(data_.messages.size() - 1);
  }

  Mode mode_;
  TraceData data_;
  Losses losses_;
  std::size_t events_ = 0;
};

struct Pass {
  std::vector<TraceData> documents;
  std::size_t events = 0;
  std::string problem;  // why the file ended early
};

std::string NoTrace(const EventScanner& scanner) {
  const std::string& head = scanner.head();
  if (scanner.bytes_read() == 0) return "the file is empty";
  if (head.rfind("PK", 0) == 0) return "this is a zip archive: unpack it first";
  return "this is no trace: expected a Chrome trace (JSON that begins with '{' or '[', plain or "
         "gzipped) or an Nsight Systems export (.sqlite; of a .nsys-rep: nsys export --type "
         "sqlite)";
}

Pass ReadAll(const std::string& file, const OpenSource& open, Mode mode) {
  const std::unique_ptr<ByteSource> source = open();
  EventScanner scanner(*source);
  Pass pass;
  std::optional<DocumentReader> document;
  while (true) {
    const EventScanner::Item item = scanner.Next();
    if (item == EventScanner::Item::kEnd) break;
    if (item == EventScanner::Item::kNoJson) {
      if (pass.events == 0) throw ConfigError({file, 0, 0}, NoTrace(scanner));
      if (!pass.documents.empty()) {
        pass.documents.back().warnings.push_back("behind the trace stands something that is none");
      }
      break;
    }
    if (!document) document.emplace(file, mode);
    if (item == EventScanner::Item::kEvent) document->TakeEvent(scanner.text());
    if (item == EventScanner::Item::kMember) document->TakeMember(scanner.key(), scanner.text());
    if (item != EventScanner::Item::kDocumentEnd) continue;
    pass.events += document->events();
    if (document->has_spans()) {
      pass.documents.push_back(document->Finish(scanner.is_truncated(), source->problem()));
    }
    document.reset();
  }
  if (scanner.bytes_read() == 0 && source->problem().empty()) {
    throw ConfigError({file, 0, 0}, NoTrace(scanner));
  }
  pass.problem = source->problem();
  return pass;
}

}  // namespace

std::vector<TraceData> ReadKineto(const std::string& file, const OpenSource& open) {
  Pass pass = ReadAll(file, open, Mode::kDevice);
  if (pass.documents.empty()) pass = ReadAll(file, open, Mode::kHost);
  if (pass.documents.empty()) {
    const std::string why =
        pass.events == 0
            ? "holds no events: expected a traceEvents array"
            : fmt::format("none of its {} events is a kernel, a copy or an operator", pass.events);
    throw ConfigError({file, 0, 0},
                      pass.problem.empty() ? why : fmt::format("{}; {}", why, pass.problem));
  }
  return std::move(pass.documents);
}

}  // namespace stepsim
