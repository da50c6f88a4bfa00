#include "models/trace/match_lanes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "sim/base/units.h"

namespace stepsim {
namespace {

// Group, is it point to point?, step (with a sequence number: none), number.
using CallKey = std::tuple<std::string, bool, std::int64_t, std::int64_t>;

bool IsPointToPoint(const LaneCall& call) { return call.op == CollectiveOp::kSendRecv; }

// The calls of a lane by key. Doubtful ones (a number that comes twice) are left out.
std::map<CallKey, std::size_t> KeysOf(const Lane& lane) {
  std::map<CallKey, std::size_t> keys;
  std::map<CallKey, std::int64_t> counts;  // of calls without a number
  std::vector<CallKey> doubtful;
  for (std::size_t i = 0; i < lane.spans.size(); ++i) {
    const LaneSpan& span = lane.spans[i];
    if (!span.is_communication()) continue;
    const LaneCall& call = lane.calls[span.call];
    const bool is_pair = call.group_size == 2;
    if (IsPointToPoint(call) && call.sequence < 0 && !is_pair) continue;
    const std::int64_t step =
        span.step < 0 ? -1 : lane.marks[static_cast<std::size_t>(span.step)].number;
    CallKey key{call.group_key, IsPointToPoint(call), -2, call.sequence};
    if (call.sequence < 0) {
      std::get<2>(key) = step;
      std::get<3>(key) = counts[key]++;
    }
    if (!keys.emplace(key, i).second) doubtful.push_back(key);
  }
  for (const CallKey& key : doubtful) keys.erase(key);
  return keys;
}

// In an exchange of all with all each rank may send another amount.
bool IsSameCall(const LaneCall& a, const LaneCall& b) {
  if (a.op != b.op || a.dtype != b.dtype) return false;
  return a.bytes == b.bytes || a.op == CollectiveOp::kAllToAll;
}

template <class T>
T Median(std::vector<T> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

class Matcher {
 public:
  explicit Matcher(const std::vector<Lane>& lanes) : lanes_(lanes) {}

  MatchedLanes Match() {
    CollectCandidates();
    Align();
    KeepThoseThatOverlap();
    return std::move(matched_);
  }

 private:
  const LaneSpan& Span(const std::pair<std::size_t, std::size_t>& member) const {
    return lanes_[member.first].spans[member.second];
  }
  const LaneCall& Call(const std::pair<std::size_t, std::size_t>& member) const {
    return lanes_[member.first].calls[Span(member).call];
  }

  void CollectCandidates() {
    std::map<CallKey, LaneMeeting> by_key;
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
      for (const auto& [key, span] : KeysOf(lanes_[lane])) by_key[key].emplace_back(lane, span);
    }
    for (auto& entry : by_key) {
      LaneMeeting& meeting = entry.second;
      if (meeting.size() < 2) continue;
      const bool is_one = std::all_of(meeting.begin(), meeting.end(), [&](const auto& member) {
        return IsSameCall(Call(member), Call(meeting.front()));
      });
      if (is_one) {
        candidates_.push_back(std::move(meeting));
      } else {
        ++different_;
      }
    }
  }

  // Breadth first over pairs of lanes that share collectives, from the first lane on.
  void Align() {
    std::vector<std::optional<Duration>> offsets(lanes_.size());
    for (std::size_t root = 0; root < lanes_.size(); ++root) {
      if (offsets[root]) continue;
      offsets[root] = BySteps(root);
      if (root > 0) unaligned_.push_back(root);
      bool has_changed = true;
      while (has_changed) has_changed = AlignNeighbours(&offsets);
    }
    for (const auto& offset : offsets) matched_.offsets.push_back(*offset);
  }

  bool AlignNeighbours(std::vector<std::optional<Duration>>* offsets) {
    std::vector<std::vector<Duration>> found(lanes_.size());
    for (const LaneMeeting& meeting : candidates_) {
      const auto known = std::find_if(meeting.begin(), meeting.end(), [&](const auto& member) {
        return (*offsets)[member.first].has_value();
      });
      if (known == meeting.end()) continue;
      const SimTime end = Span(*known).end + *(*offsets)[known->first];
      for (const auto& member : meeting) {
        if (!(*offsets)[member.first]) found[member.first].push_back(end - Span(member).end);
      }
    }
    bool has_changed = false;
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
      if (found[lane].empty()) continue;
      (*offsets)[lane] = Median(std::move(found[lane]));
      has_changed = true;
    }
    return has_changed;
  }

  // Without a common collective: by the begin of the first step that both have.
  Duration BySteps(std::size_t lane) const {
    for (const StepMark& first : lanes_.front().marks) {
      for (const StepMark& mark : lanes_[lane].marks) {
        if (mark.number == first.number) return first.begin - mark.begin;
      }
    }
    return Duration::zero();
  }

  // Members of one call are all resident when it ends.
  void KeepThoseThatOverlap() {
    std::vector<Duration> distances;
    std::size_t apart = 0;
    for (LaneMeeting& meeting : candidates_) {
      SimTime last_begin = SimTime::min(), first_end = SimTime::max(), last_end = SimTime::min();
      for (const auto& member : meeting) {
        const Duration offset = matched_.offsets[member.first];
        last_begin = std::max(last_begin, Span(member).begin + offset);
        first_end = std::min(first_end, Span(member).end + offset);
        last_end = std::max(last_end, Span(member).end + offset);
      }
      if (last_begin > first_end) {
        ++apart;
        continue;
      }
      distances.push_back(last_end - first_end);
      matched_.meetings.push_back(std::move(meeting));
    }
    if (!distances.empty()) matched_.residual = Median(std::move(distances));
    Warn(apart);
  }

  void Warn(std::size_t apart) {
    if (different_ > 0) {
      matched_.warnings.push_back(fmt::format(
          "{} calls have one place in the order of their group but differ in operation or size "
          "between ranks: not matched",
          different_));
    }
    if (apart > 0) {
      matched_.warnings.push_back(fmt::format(
          "{} calls of equal place do not overlap in time between ranks: not matched", apart));
    }
    for (const std::size_t lane : unaligned_) {
      matched_.warnings.push_back(fmt::format(
          "{}: no collective in common with the other traces; its clock is set by the begin of a "
          "common step, and no waiting for peers is known",
          lanes_[lane].file));
    }
  }

  const std::vector<Lane>& lanes_;
  std::vector<LaneMeeting> candidates_;
  std::vector<std::size_t> unaligned_;
  std::size_t different_ = 0;
  MatchedLanes matched_;
};

}  // namespace

MatchedLanes MatchLanes(const std::vector<Lane>& lanes) { return Matcher(lanes).Match(); }

}  // namespace stepsim
