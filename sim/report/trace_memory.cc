#include "sim/report/trace_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "sim/report/trace_names.h"

namespace stepsim {
namespace {

// ,"activations": for each category that the rank uses at some time; "" for the others.
std::vector<std::string> UsedCategories(const TaskGraph& graph, const MemoryReplay& replay,
                                        RankId rank) {
  std::vector<std::string> keys(graph.memory_categories().size());
  std::string separator;
  std::vector<char> is_used(keys.size());
  replay.Visit(rank, [&](const MemoryMoment& moment) {
    if (moment.event != nullptr) {
      is_used[moment.event->category] = 1;
      return;
    }
    for (std::size_t c = 0; c < keys.size(); ++c) is_used[c] = moment.now[c].value > 0 ? 1 : 0;
  });
  for (std::size_t c = 0; c < keys.size(); ++c) {
    if (is_used[c] == 0) continue;
    keys[c] = fmt::format("{}{}:", separator, QuoteJson(graph.memory_categories()[c]));
    separator = ",";
  }
  return keys;
}

}  // namespace

void WriteMemoryCounter(const TaskGraph& graph, const MemoryReplay& replay, RankId rank,
                        std::int32_t pid, const Window& window,
                        const std::function<void(std::string_view)>& begin_event,
                        TextBuffer* text) {
  const std::vector<std::string> keys = UsedCategories(graph, replay, rank);
  if (std::all_of(keys.begin(), keys.end(), [](const std::string& key) { return key.empty(); })) {
    return;
  }
  const std::string head = fmt::format(R"({{"ph":"C","name":"memory","pid":{},"ts":)", pid);
  std::vector<Bytes> before;  // what is there when the window begins
  const auto write = [&](Duration time, const std::vector<Bytes>& now) {
    begin_event(head);
    text->PutMicroseconds(time);
    text->Put(",\"args\":{");
    for (std::size_t c = 0; c < keys.size(); ++c) {
      if (keys[c].empty()) continue;
      text->Put(std::string_view(keys[c]));
      text->PutInteger(now[c].value);
    }
    text->Put("}}");
  };
  replay.Visit(rank, [&](const MemoryMoment& moment) {
    if (!moment.is_last_of_time || moment.time > window.end) return;
    if (moment.time <= window.begin) {
      before = moment.now;
      return;
    }
    if (!before.empty()) {
      write(Duration::zero(), before);
      before.clear();
    }
    write(moment.time - window.begin, moment.now);
  });
  if (!before.empty()) write(Duration::zero(), before);
}

}  // namespace stepsim
