#include "sim/report/trace_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>

#include "sim/report/text_buffer.h"

namespace stepsim {
namespace {

constexpr std::array<std::string_view, 5> kReservedWords = {"memcpy", "memset", "sync", "dma",
                                                            "nccl"};
constexpr std::size_t kMostListedRanks = 64;

char ToLower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

bool StartsWithIgnoringCase(std::string_view text, std::string_view lower_case) {
  if (text.size() < lower_case.size()) return false;
  for (std::size_t i = 0; i < lower_case.size(); ++i) {
    if (ToLower(text[i]) != lower_case[i]) return false;
  }
  return true;
}

bool StartsWithReservedWord(std::string_view text) {
  constexpr std::string_view kFirstLetters = "msdnMSDN";
  if (text.empty() || kFirstLetters.find(text[0]) == std::string_view::npos) return false;
  return std::any_of(kReservedWords.begin(), kReservedWords.end(),
                     [text](std::string_view word) { return StartsWithIgnoringCase(text, word); });
}

// "AllReduce_Sum_f32": NCCL names the operation and, where it reduces, the operator and the type.
std::string KernelFunction(const CollectiveWork& work) {
  constexpr std::array<std::string_view, 9> kFunctions = {
      "AllReduce", "AllGather", "ReduceScatter", "SendRecv", "Broadcast",
      "Reduce",    "SendRecv",  "Memcpy PtoP",   "Barrier"};
  constexpr std::array<std::string_view, 7> kTypes = {"f32",    "f32", "bf16", "f16",
                                                      "f8e4m3", "i32", "i64"};
  const std::string_view function = kFunctions[static_cast<std::size_t>(work.op)];
  const bool reduces = work.op == CollectiveOp::kAllReduce ||
                       work.op == CollectiveOp::kReduceScatter || work.op == CollectiveOp::kReduce;
  if (!reduces) return std::string(function);
  return fmt::format("{}_Sum_{}", function, kTypes[static_cast<std::size_t>(work.dtype)]);
}

std::string UpperSuffix(std::string_view text) {
  std::string suffix = text.empty() ? "" : "_";
  for (const char c : text) {
    suffix += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return suffix;
}

}  // namespace

bool NeedsRenaming(std::string_view label) {
  for (std::size_t i = 0; i < label.size(); ++i) {
    if (StartsWithReservedWord(label.substr(i))) return true;
  }
  return false;
}

std::string ComputeKernelName(std::string_view label) {
  std::string name;
  for (std::size_t i = 0; i < label.size(); ++i) {
    name += label[i];
    if (StartsWithReservedWord(label.substr(i))) name += '_';
  }
  return name;
}

std::string CollectiveKernelName(const CollectiveWork& work, const CollectiveChoice& choice) {
  constexpr std::string_view kArguments = "(ncclDevKernelArgsStorage<4096ul>)";
  const std::string function = KernelFunction(work);
  if (work.op == CollectiveOp::kPeerCopy) return function + " (Device -> Device)";
  if (work.op == CollectiveOp::kBarrier) return "symmetric_memory_barrier";
  // NCCL runs every point-to-point call in one kernel, whatever the algorithm.
  if (function == "SendRecv") return fmt::format("ncclDevKernel_SendRecv{}", kArguments);
  return fmt::format("ncclDevKernel_{}{}{}{}", function, UpperSuffix(choice.algorithm),
                     UpperSuffix(choice.protocol), kArguments);
}

std::string OpaqueTransferName(std::string_view label) { return fmt::format("nccl:{}", label); }

std::string_view ProfilerCollectiveName(CollectiveOp op) {
  constexpr std::array<std::string_view, 9> kNames = {
      "allreduce",  "_allgather_base", "_reduce_scatter_base",
      "all_to_all", "broadcast",       "reduce",
      "send_recv",  "copy_",           "barrier"};
  return kNames[static_cast<std::size_t>(op)];
}

std::string_view ProfilerDTypeName(DType dtype) {
  constexpr std::array<std::string_view, 7> kNames = {"Float",         "Float", "BFloat16", "Half",
                                                      "Float8_e4m3fn", "Int",   "Long"};
  return kNames[static_cast<std::size_t>(dtype)];
}

MessageElements ElementsOf(const CollectiveWork& work, std::int64_t group_size) {
  const std::int64_t all = work.bytes.value / ElementSize(work.dtype).value;
  const std::int64_t share = all / std::max<std::int64_t>(1, group_size);
  if (work.op == CollectiveOp::kAllGather) return {share, all};
  if (work.op == CollectiveOp::kReduceScatter) return {all, share};
  return {all, all};
}

std::string GroupRanks(const ProcessGroup& group) {
  const std::vector<std::int32_t>& ranks = group.ranks;
  if (ranks.size() <= kMostListedRanks) return fmt::format("[{}]", fmt::join(ranks, ", "));
  return fmt::format("[{}, {}, {}, ..., {}]", ranks[0], ranks[1], ranks[2], ranks.back());
}

std::string CollectiveArguments(const CollectiveWork& work, const ProcessGroup& group) {
  const auto group_size = static_cast<std::int64_t>(group.ranks.size());
  const MessageElements elements = ElementsOf(work, group_size);
  return fmt::format(
      R"(,"Collective name":"{}","In msg nelems":{},"Out msg nelems":{},"Group size":{},)"
      R"("dtype":"{}","Process Group Name":{},"Process Group Description":{},)"
      R"("Process Group Ranks":"{}","bytes":{})",
      ProfilerCollectiveName(work.op), elements.in, elements.out, group_size,
      ProfilerDTypeName(work.dtype), QuoteJson(group.name), QuoteJson(group.description),
      GroupRanks(group), work.bytes.value);
}

}  // namespace stepsim
