#include "models/trace/kineto_event.h"

#include <array>
#include <cctype>

#include "models/trace/event_fields.h"

namespace stepsim {
namespace {

enum class Category { kOther, kKernel, kCopy, kFill, kRuntime, kAnnotation, kOperator };

struct CategoryRow {
  std::string_view name;  // case is ignored
  Category category;
};
constexpr std::array kCategories = {
    CategoryRow{"kernel", Category::kKernel},
    CategoryRow{"gpu_memcpy", Category::kCopy},
    CategoryRow{"memcpy", Category::kCopy},
    CategoryRow{"gpu_memset", Category::kFill},
    CategoryRow{"memset", Category::kFill},
    CategoryRow{"cuda_runtime", Category::kRuntime},
    CategoryRow{"cuda_driver", Category::kRuntime},
    CategoryRow{"hip_runtime", Category::kRuntime},
    CategoryRow{"xpu_runtime", Category::kRuntime},
    CategoryRow{"privateuse1_runtime", Category::kRuntime},
    CategoryRow{"runtime", Category::kRuntime},
    CategoryRow{"user_annotation", Category::kAnnotation},
    CategoryRow{"cpu_op", Category::kOperator},
    CategoryRow{"operator", Category::kOperator},
};

// Namespaces of operators that do no work of their own: they call others, or wait.
constexpr std::array<std::string_view, 6> kWrappers = {
    "autograd::", "torch::", "c10d::", "profiler::", "c10d_functional::", "_c10d_functional::"};
// Backends that run collectives on threads of the host.
constexpr std::array<std::string_view, 3> kHostBackends = {"gloo:", "mpi:", "ucc:"};

bool EqualsIgnoringCase(std::string_view text, std::string_view lower_case) {
  if (text.size() != lower_case.size()) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (std::tolower(static_cast<unsigned char>(text[i])) != lower_case[i]) return false;
  }
  return true;
}

Category CategoryOf(std::string_view name) {
  for (const CategoryRow& row : kCategories) {
    if (EqualsIgnoringCase(name, row.name)) return row.category;
  }
  return Category::kOther;
}

template <class Prefixes>
bool StartsWithOne(std::string_view name, const Prefixes& prefixes) {
  for (const std::string_view prefix : prefixes) {
    if (name.substr(0, prefix.size()) == prefix) return true;
  }
  return false;
}

bool IsBackward(std::string_view name) {
  return name.rfind("autograd::engine::evaluate_function", 0) == 0;
}

// "nccl:all_reduce", "record_param_comms"
bool IsCall(std::string_view name) {
  return name.rfind("nccl:", 0) == 0 || name == "record_param_comms" ||
         StartsWithOne(name, kHostBackends);
}

EventClass OfDeviceRun(Category category, std::string_view name) {
  switch (category) {
    case Category::kKernel:
      return EventClass::kKernel;
    case Category::kCopy:
      return EventClass::kCopy;
    case Category::kFill:
      return EventClass::kFill;
    case Category::kRuntime:
      return EventClass::kRuntime;
    case Category::kAnnotation:
      return EventClass::kAnnotation;
    case Category::kOperator:
      if (IsBackward(name)) return EventClass::kBackward;
      return IsCall(name) ? EventClass::kAnnotation : EventClass::kNothing;
    case Category::kOther:
      break;
  }
  return EventClass::kNothing;
}

// Older profilers give no category.
EventClass OfHostRun(Category category, bool has_category, std::string_view name) {
  if (has_category && category != Category::kOperator && category != Category::kAnnotation) {
    return EventClass::kNothing;
  }
  if (StartsWithOne(name, kHostBackends)) return EventClass::kHostCollective;
  if (category == Category::kAnnotation) return EventClass::kAnnotation;
  if (IsBackward(name)) return EventClass::kBackward;
  if (name.find("::") == std::string_view::npos) return EventClass::kAnnotation;
  return StartsWithOne(name, kWrappers) ? EventClass::kNothing : EventClass::kHostOperator;
}

}  // namespace

KinetoEvent ReadKinetoEvent(std::string_view text, bool is_host_only) {
  KinetoEvent event;
  std::string_view ph, cat;
  bool has_category = false;
  // Most events are operators, and most of those are none that matters: name and category decide.
  const auto is_idle = [&] {
    return !is_host_only && has_category && !event.name.empty() && ph == "X" &&
           OfDeviceRun(CategoryOf(cat), event.name) == EventClass::kNothing;
  };
  EventFields field(text);
  while (field.Next()) {
    const std::string_view key = field.key();
    if (key == "ph") {
      ph = field.value();
      if (ph != "X" && ph != "M") return event;
    } else if (key == "cat") {
      cat = field.value();
      has_category = true;
      if (CategoryOf(cat) == Category::kOther || is_idle()) return event;
    } else if (key == "name") {
      event.name = field.value();
      if (is_idle()) return event;
    } else if (key == "pid") {
      event.pid = field.value();
    } else if (key == "tid") {
      event.tid = field.value();
    } else if (key == "ts") {
      event.ts = field.value();
    } else if (key == "dur") {
      event.dur = field.value();
    } else if (key == "args" && field.is_object()) {
      event.args = field.value();
    }
  }
  event.is_broken = field.is_broken();
  if (ph == "M") {
    event.what = EventClass::kMetadata;
  } else if (ph == "X") {
    const Category category = CategoryOf(cat);
    event.what = is_host_only ? OfHostRun(category, has_category, event.name)
                              : OfDeviceRun(category, event.name);
    event.is_call = IsCall(event.name);
  }
  return event;
}

}  // namespace stepsim
