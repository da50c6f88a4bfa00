#include "models/trace/trace_data.h"

#include <limits>
#include <utility>

namespace stepsim {

bool operator<(TraceMoment a, TraceMoment b) { return a.ns != b.ns ? a.ns < b.ns : a.ps < b.ps; }

Duration Difference(TraceMoment later, TraceMoment earlier) {
  constexpr std::int64_t kPerNs = 1000;
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / kPerNs - 1;
  // Of two numbers of opposite signs the difference may not fit.
  const long double far = static_cast<long double>(later.ns) - static_cast<long double>(earlier.ns);
  if (far > static_cast<long double>(kMost)) return Duration::max();
  if (far < -static_cast<long double>(kMost)) return -Duration::max();
  return Duration((later.ns - earlier.ns) * kPerNs + (later.ps - earlier.ps));
}

std::uint32_t NameTable::Index(std::string_view text) {
  const auto [known, is_new] =
      index_of_.try_emplace(std::string(text), static_cast<std::uint32_t>(names_.size()));
  if (is_new) names_.push_back(known->first);
  return known->second;
}

std::uint32_t TraceData::ThreadIndex(std::string_view process, std::string_view thread) {
  const TraceThread key{names.Index(process), names.Index(thread)};
  const std::uint64_t bits = (std::uint64_t{key.process} << 32) | key.name;
  const auto [known, is_new] =
      thread_index_.try_emplace(bits, static_cast<std::uint32_t>(threads.size()));
  if (is_new) threads.push_back(key);
  return known->second;
}

}  // namespace stepsim
