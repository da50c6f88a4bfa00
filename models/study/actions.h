// What could be done about a slow step? Every change that a user can make without another network
// to train, as a table; models/study/try_actions.h simulates those that apply.
//
// To add one: one row in actions.cc. Rows of models/costly_settings.cc and models/memory_advice.cc
// are candidates too.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/spec/job.h"
#include "models/study/variants.h"

namespace stepsim {

// Where the time lies that an action can win: no more than the step has of it.
enum class Against { kCommunication, kBubble, kHost, kAnything };

inline constexpr std::string_view kBuysHardware = "buys hardware";

struct NextAction {
  std::string_view name;  // "bucket size"
  Against against = Against::kAnything;
  bool (*applies)(const JobSpec&);
  // Each a candidate of its own; the best one speaks for the action.
  std::vector<Changes> (*candidates)(const JobSpec&);
  std::string_view price;  // what it costs beside memory, which is measured: "rounds to bf16"
};

std::span<const NextAction> NextActions();

}  // namespace stepsim
