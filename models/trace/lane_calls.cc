#include "models/trace/lane_calls.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <regex>
#include <string>

namespace stepsim {
namespace {

constexpr std::int64_t kMostBytes = std::int64_t{1} << 60;

// "[0, 1, 2]"; empty for what is abbreviated or no list.
std::vector<std::int32_t> ParseRanks(std::string_view text) {
  std::vector<std::int32_t> ranks;
  if (text.find("...") != std::string_view::npos) return ranks;
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] < '0' || text[i] > '9') {
      ++i;
      continue;
    }
    std::int32_t rank = 0;
    const auto result = std::from_chars(text.data() + i, text.data() + text.size(), rank);
    if (result.ec != std::errc()) return {};
    ranks.push_back(rank);
    i = static_cast<std::size_t>(result.ptr - text.data());
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

std::int64_t Times(std::int64_t a, std::int64_t b) {
  if (a <= 0 || b <= 0) return 0;
  return a > kMostBytes / b ? kMostBytes : a * b;
}

// As nccl-tests counts: the whole buffer of all ranks for gathers and scatters.
std::int64_t BytesOf(const MessageFacts& message, CollectiveOp op, std::int64_t group_size) {
  if (message.bytes > 0) return std::min(message.bytes, kMostBytes);
  const std::int64_t size = ElementBytes(message.dtype);
  const std::int64_t in = Times(message.in_elements, size);
  const std::int64_t out = Times(message.out_elements, size);
  if (op == CollectiveOp::kAllGather) return out > 0 ? out : Times(in, group_size);
  return in > 0 ? in : out;
}

CollectiveOp OpOf(const CallEvidence& evidence) {
  for (const MessageFacts* message : {evidence.message, evidence.called_by}) {
    if (message == nullptr) continue;
    if (const auto op = CollectiveOf(message->collective)) return *op;
  }
  return CollectiveOf(evidence.kernel).value_or(CollectiveOp::kSendRecv);
}

// What either of the two says.
MessageFacts Merged(const CallEvidence& evidence) {
  MessageFacts facts;
  for (const MessageFacts* m : {evidence.message, evidence.called_by}) {
    if (m == nullptr) continue;
    const auto take = [](const std::string& from, std::string* to) {
      if (to->empty()) *to = from;
    };
    take(m->collective, &facts.collective);
    take(m->group_name, &facts.group_name);
    take(m->group_description, &facts.group_description);
    take(m->group_ranks, &facts.group_ranks);
    take(m->site, &facts.site);
    take(m->label, &facts.label);
    if (facts.dtype.empty()) {  // sizes go with their type
      facts.dtype = m->dtype;
      facts.in_elements = m->in_elements;
      facts.out_elements = m->out_elements;
    }
    if (facts.group_size <= 0) facts.group_size = m->group_size;
    if (facts.sequence < 0) facts.sequence = m->sequence;
    if (facts.bytes < 0) facts.bytes = m->bytes;
  }
  return facts;
}

// Patterns are tried on few texts, and those are short.
bool IsOverridden(const std::vector<SiteOverride>& overrides, const std::string& subject,
                  LaneCall* call) {
  for (const SiteOverride& row : overrides) {
    const std::regex pattern(row.pattern, std::regex::icase);
    if (!std::regex_search(subject, pattern)) continue;
    call->site = row.site;
    call->is_guess = false;
    return true;
  }
  return false;
}

bool IsStated(const std::string& site, LaneCall* call) {
  for (std::size_t i = 0; i < kSiteCount; ++i) {
    if (ToString(static_cast<Site>(i)) != site) continue;
    call->site = static_cast<Site>(i);
    return true;
  }
  return false;
}

}  // namespace

LaneCall MakeCall(const TraceData& data, const std::vector<SiteOverride>& overrides,
                  const CallEvidence& evidence) {
  const MessageFacts facts = Merged(evidence);
  LaneCall call;
  call.op = OpOf(evidence);
  call.dtype = DTypeOf(facts.dtype);
  call.ranks = ParseRanks(facts.group_ranks);
  call.group_size =
      facts.group_size > 0 ? facts.group_size : static_cast<std::int64_t>(call.ranks.size());
  const bool is_unnamed = facts.group_name.empty() && call.ranks.empty();
  if (call.group_size == 0 && is_unnamed) call.group_size = data.world_size;
  if (call.group_size != static_cast<std::int64_t>(call.ranks.size())) call.ranks.clear();
  call.bytes = BytesOf(facts, call.op, call.group_size);
  call.sequence = facts.sequence;
  call.group_name = facts.group_name;
  call.group_description = facts.group_description;
  call.group_key = call.ranks.empty() ? fmt::format("{}/{}", facts.group_name, call.group_size)
                                      : fmt::format("{}", fmt::join(call.ranks, ","));
  call.label = facts.label;
  const std::string kernel(evidence.kernel.substr(0, 200));
  const std::string subject = fmt::format(
      "{}\n{}\n{}\n{}\n{}", facts.group_description.substr(0, 100), facts.group_name.substr(0, 100),
      facts.collective.substr(0, 100), evidence.annotation.substr(0, 100), kernel);
  if (IsOverridden(overrides, subject, &call) || IsStated(facts.site, &call)) return call;
  const SiteChoice choice = FindSite({.op = call.op,
                                      .phase = evidence.phase,
                                      .bytes = call.bytes,
                                      .group_size = call.group_size,
                                      .group = facts.group_name,
                                      .description = facts.group_description,
                                      .annotation = evidence.annotation,
                                      .kernel = evidence.kernel});
  call.site = choice.site;
  call.is_guess = choice.is_guess;
  return call;
}

double TraceBusFactor(CollectiveOp op, std::int64_t group_size) {
  if (group_size < 2) return 0;
  const auto n = static_cast<double>(group_size);
  switch (op) {
    case CollectiveOp::kAllReduce:
      return 2 * (n - 1) / n;
    case CollectiveOp::kAllGather:
    case CollectiveOp::kReduceScatter:
    case CollectiveOp::kAllToAll:
      return (n - 1) / n;
    case CollectiveOp::kBroadcast:
    case CollectiveOp::kReduce:
    case CollectiveOp::kSendRecv:
      return 1;
    default:
      return 0;
  }
}

}  // namespace stepsim
