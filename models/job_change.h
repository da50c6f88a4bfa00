// One change of a job that somebody might make: what several tables of advice have in common.
#pragma once

#include <span>
#include <string_view>

#include "models/spec/job.h"

namespace stepsim {

struct JobChange {
  // As --set takes them, blanks between: "plan.zero.stage=3". Empty: the change is a risk.
  std::string_view settings;
  bool (*applies)(const JobSpec&);
  void (*make)(JobSpec&);
};

// Those of costly_settings.cc, and those of memory_advice.cc.
std::span<const JobChange> CostlyChanges();
std::span<const JobChange> MemoryChanges();

}  // namespace stepsim
