// How is a result shown? One row per format: a writer is a function from a result to text.
//
// To add a writer: one file with one function, one row in writer.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "sim/graph/task_graph.h"
#include "sim/metrics/step_report.h"
#include "sim/timeline/timeline.h"

namespace stepsim {

// What a trace shows of a collective that is resident and waits.
enum class TraceView : std::uint8_t {
  kBoth,      // kernels as they are resident, and on a track of its own what the account says
  kNccl,      // the kernels alone: a waiting receive is a running kernel, as in a profiler's trace
  kTransfer,  // the wait and the transfer apart, and the account
};

struct Result {
  const TaskGraph& graph;
  const Timeline& timeline;
  const StepReport& report;
  TraceView trace_view = TraceView::kBoth;
};

// Takes the text piece by piece; may throw (disk full), which ends the writing.
using Sink = std::function<void(std::string_view)>;

struct Writer {
  std::string_view suffix;  // ".trace.json"
  std::string_view doc;
  void (*write)(const Result&, const Sink&);
  bool is_gzipped = false;
};

// Longest suffix first: "x.trace.json" is a trace, "x.json" a result.
std::span<const Writer> Writers();
const Writer* FindWriter(std::string_view file_name);  // nullptr when no suffix fits

// The writers, one file each.
void WriteResultJson(const Result&, const Sink&);
void WriteCsv(const Result&, const Sink&);
void WriteMarkdown(const Result&, const Sink&);
void WriteChromeTrace(const Result&, const Sink&);

// The summary on the terminal: about 15 lines of at most `width` columns, more when they are
// narrower (from 72). Colour by ANSI codes when asked for.
inline constexpr std::size_t kSummaryWidth = 110;
std::string TerminalSummary(const StepReport& report, bool use_colour,
                            std::size_t width = kSummaryWidth);

// Writes to a temporary file beside `path` and renames it when complete: the file appears whole or
// not at all. Throws std::runtime_error with one clear line ("cannot write out/x.json: No space
// left on device").
void WriteFileAtomically(const std::string& path, const Writer& writer, const Result& result);
void WriteFileAtomically(const std::string& path, std::string_view text);
void WriteFileAtomically(const std::string& path, const std::function<void(const Sink&)>& write);

}  // namespace stepsim
