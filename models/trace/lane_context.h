// Who launched a kernel, from where? Calls by correlation, annotations around them, and the part of
// the step to which the launching thread had come.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <vector>

#include "models/trace/trace_data.h"
#include "sim/graph/site.h"
#include "sim/metrics/intervals.h"

namespace stepsim {

class LaneContext {
 public:
  LaneContext(const TraceData& data, TraceMoment base, std::uint32_t process,
              const std::set<std::uint32_t>& device_processes);

  // nullptr: not known. Of several calls with one correlation, the last that began before.
  const LaunchCall* LaunchOf(const DeviceSpan& span) const;

  struct Surroundings {
    const MessageFacts* message = nullptr;  // of the collective call around the launch
    std::string_view annotation;            // the innermost other one
  };
  Surroundings Around(const LaunchCall* launch) const;

  Phase PhaseOf(const DeviceSpan& span, const LaunchCall* launch, bool is_communication) const;

 private:
  struct Named {
    Interval time;
    const Annotation* annotation = nullptr;
  };
  SimTime OnClock(TraceMoment moment) const;
  void AddAnnotations(std::uint32_t process, const std::set<std::uint32_t>& device_processes);
  void AddBackward();

  const TraceData& data_;
  TraceMoment base_;
  std::vector<const LaunchCall*> launches_;                   // by correlation, then begin
  std::map<std::uint32_t, std::vector<Named>> around_;        // by thread, by begin
  std::map<std::uint32_t, std::vector<Interval>> backward_;   // by thread, unions
  std::vector<Interval> any_backward_, optimizer_, forward_;  // on any thread, by annotations too
  std::set<std::uint32_t> autograd_threads_;                  // that do nothing else
};

}  // namespace stepsim
