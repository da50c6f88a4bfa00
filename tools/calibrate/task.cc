#include "tools/calibrate/task.h"

#include <fmt/format.h>

#include <array>

#include "sim/base/units.h"

namespace stepsim::measure {
namespace {

constexpr std::array<std::string_view, 6> kTaskKinds = {"launch",    "gemm",       "memory",
                                                        "attention", "collective", "interference"};
static_assert(kTaskKinds.size() == std::variant_size_v<MeasureTask>);

struct TypeSize {
  std::string_view name;
  int bytes;
};
constexpr std::array<TypeSize, 6> kTypes = {
    {{"bf16", 2}, {"fp16", 2}, {"fp8", 1}, {"tf32", 4}, {"fp32", 4}, {"fp64", 8}}};

std::string SizeText(std::int64_t bytes) { return FormatMemory(Bytes{bytes}); }

std::string Text(const GemmTask& task) {
  return fmt::format("gemm {}x{}x{} {}", task.m, task.n, task.k, task.dtype);
}
std::string Text(const MemoryTask& task) {
  return fmt::format("memory {} {}", ToString(task.op), SizeText(task.bytes));
}
std::string Text(const AttentionTask& task) {
  return fmt::format("attention {}x{}x{}x{} {}{}", task.batch, task.heads, task.sequence,
                     task.head_dim, task.dtype, task.causal ? " causal" : "");
}
std::string Text(const CollectiveTask& task) {
  return fmt::format("{} {}{}{}", ToString(task.op), SizeText(task.bytes),
                     task.in_place ? " in place" : "",
                     task.max_ctas > 0 ? fmt::format(", at most {} CTAs", task.max_ctas) : "");
}
std::string Text(const LaunchTask& task) { return std::string(ToString(task.op)); }
std::string Text(const CopyLoad& load) { return fmt::format("a copy on {} SMs", load.sms); }
std::string Text(const CollectiveLoad& load) {
  if (!load.is_polled) return Text(load.collective);
  return Text(load.collective) + (*load.is_polled ? ", polled" : ", not polled");
}
std::string Text(const InterferenceTask& task) {
  return Text(task.compute) + " beside " +
         std::visit([](const auto& load) { return Text(load); }, task.beside);
}

}  // namespace

double GemmTask::flops() const {
  return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
}

std::string_view ToString(MemoryOp op) {
  constexpr std::array<std::string_view, 3> kNames = {"copy", "add", "norm"};
  return kNames[static_cast<std::size_t>(op)];
}
std::string_view ToString(CollectiveKind op) {
  constexpr std::array<std::string_view, 5> kNames = {"all_reduce", "all_gather", "reduce_scatter",
                                                      "all_to_all", "send_recv"};
  return kNames[static_cast<std::size_t>(op)];
}
std::string_view ToString(LaunchOp op) {
  constexpr std::array<std::string_view, 3> kNames = {"kernel_launch", "empty_kernel",
                                                      "event_handover"};
  return kNames[static_cast<std::size_t>(op)];
}

std::span<const std::string_view> TaskKinds() { return kTaskKinds; }
std::string_view KindOf(const MeasureTask& task) { return kTaskKinds[task.index()]; }

std::string Describe(const MeasureTask& task) {
  return std::visit([](const auto& t) { return Text(t); }, task);
}

bool IsCollective(const MeasureTask& task) {
  if (std::holds_alternative<CollectiveTask>(task)) return true;
  const auto* interference = std::get_if<InterferenceTask>(&task);
  return interference != nullptr && std::holds_alternative<CollectiveLoad>(interference->beside);
}

std::int64_t PartBytes(const CollectiveTask& task, int ranks) { return task.bytes / ranks; }

std::optional<int> ElementBytes(std::string_view dtype) {
  for (const TypeSize& type : kTypes) {
    if (type.name == dtype) return type.bytes;
  }
  return std::nullopt;
}

}  // namespace stepsim::measure
