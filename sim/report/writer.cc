#include "sim/report/writer.h"

#include <array>

namespace stepsim {
namespace {

constexpr std::array kWriters = {
    Writer{".trace.json.gz", "Chrome trace, gzipped: Perfetto and Holistic Trace Analysis read it",
           WriteChromeTrace, true},
    Writer{".trace.json", "Chrome trace: Perfetto, chrome://tracing, Holistic Trace Analysis",
           WriteChromeTrace},
    Writer{".json", "the whole result, schema stepsim.result/1: times in seconds, sizes in bytes",
           WriteResultJson},
    Writer{".csv", "one row per metric: metric,value,unit", WriteCsv},
    Writer{".md", "the summary as Markdown tables, for a ticket or a pull request", WriteMarkdown},
};

}  // namespace

std::span<const Writer> Writers() { return kWriters; }

const Writer* FindWriter(std::string_view file_name) {
  for (const Writer& writer : kWriters) {
    if (file_name.ends_with(writer.suffix)) return &writer;
  }
  return nullptr;
}

}  // namespace stepsim
