#include "models/study/collective_groups.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace stepsim {
namespace {

bool IsDigit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

// The numbers in a name, as written.
std::vector<std::string> NumbersOf(const std::string& name) {
  std::vector<std::string> numbers;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (!IsDigit(name[i])) continue;
    if (i == 0 || !IsDigit(name[i - 1])) numbers.emplace_back();
    numbers.back() += name[i];
  }
  return numbers;
}

// What the names of a group have in common, with each number that differs as a range: from the
// first to the last where they only rise or only fall, else from the least to the largest.
std::string RangeName(const std::vector<const CollectiveReport*>& calls) {
  std::vector<std::vector<std::string>> numbers;  // of each call
  for (const CollectiveReport* call : calls) numbers.push_back(NumbersOf(call->name));
  const auto is_less = [](const std::string& a, const std::string& b) {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
  };
  const std::string& name = calls.front()->name;
  std::string text;
  std::size_t number = 0;
  for (std::size_t i = 0; i < name.size();) {
    if (!IsDigit(name[i])) {
      text += name[i++];
      continue;
    }
    std::vector<std::string> series;
    for (const auto& row : numbers) series.push_back(row[number]);
    i += series.front().size();
    ++number;
    const bool rises = std::is_sorted(series.begin(), series.end(), is_less);
    const bool falls = std::is_sorted(series.rbegin(), series.rend(), is_less);
    const auto [least, largest] = std::minmax_element(series.begin(), series.end(), is_less);
    const std::string from = rises || falls ? series.front() : *least;
    const std::string to = rises || falls ? series.back() : *largest;
    text += from == to ? from : from + ".." + to;
  }
  return text;
}

using Key = std::tuple<std::string, Site, CollectiveOp, std::int64_t, std::string, std::string,
                       std::string, bool>;
// For a notable part of its time, so that a hand-over of a microsecond does not part what is hidden
// from what is not.
bool IsExposed(const CollectiveReport& c) {
  constexpr std::int64_t kNotable = 20;  // a twentieth
  return kNotable * c.exposed > c.exposed + c.hidden;
}

Key KeyOf(const CollectiveReport& c) {
  return {WithoutNumbers(c.name),
          c.site,
          c.op,
          c.bytes.value,
          c.group,
          c.algorithm,
          c.protocol,
          IsExposed(c)};
}

// What a collective on another rank has in common with one of the group.
using Alike = std::tuple<std::string, Site, Phase, std::int64_t>;
Alike AlikeOf(const TaskGraph& graph, TaskId task) {
  const Label& label = graph.label(task);
  const auto* work = std::get_if<CollectiveWork>(&graph.work(task));
  return {WithoutNumbers(label.name), label.site, label.phase,
          work == nullptr ? 0 : work->bytes.value};
}

void Add(const CollectiveReport& call, CollectiveGroup* group) {
  group->exposed += call.exposed_transfer();
  group->hidden += call.hidden;
  group->slowed += call.slowed;
  const bool is_first = group->calls.empty();
  group->least_slack = is_first ? call.slack : std::min(group->least_slack, call.slack);
  group->calls.push_back(&call);
}

// What a call costs; what it waits for other stages counts where nothing else does.
using Cost = std::pair<Duration, Duration>;
Cost CostOf(const CollectiveReport& call) { return {call.exposed_transfer(), call.exposed}; }

// The call that costs most among those of the cause that costs most.
void ChooseLargest(CollectiveGroup* group) {
  std::map<ExposureCause, Cost> by_cause;
  for (const CollectiveReport* call : group->calls) {
    Cost& cost = by_cause[call->cause_kind];
    cost = {cost.first + CostOf(*call).first, cost.second + CostOf(*call).second};
  }
  const auto most =
      std::max_element(by_cause.begin(), by_cause.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  for (const CollectiveReport* call : group->calls) {
    if (call->cause_kind != most->first) continue;
    if (group->largest == nullptr || CostOf(*call) > CostOf(*group->largest)) group->largest = call;
  }
}

}  // namespace

std::string WithoutNumbers(const std::string& name) {
  std::string text;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (!IsDigit(name[i])) {
      text += name[i];
    } else if (i == 0 || !IsDigit(name[i - 1])) {
      text += '#';
    }
  }
  return text;
}

std::vector<CollectiveGroup> GroupCollectives(const StepReport& report) {
  std::vector<CollectiveGroup> groups;
  std::map<Key, std::size_t> known;
  for (const CollectiveReport& call : report.collectives) {  // by start
    const auto [at, is_new] = known.try_emplace(KeyOf(call), groups.size());
    if (is_new) groups.emplace_back();
    Add(call, &groups[at->second]);
  }
  for (CollectiveGroup& group : groups) {
    ChooseLargest(&group);
    group.name = RangeName(group.calls);
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const auto& a, const auto& b) { return a.exposed > b.exposed; });
  return groups;
}

IdVector<TaskId, char> MarkGroup(const TaskGraph& graph, const CollectiveGroup& group) {
  const RankId rank = graph.rank(group.first().task);
  std::set<std::pair<LabelId, std::int32_t>> own;  // label and micro-step: of all steps
  std::set<Alike> alike;
  for (const CollectiveReport* call : group.calls) {
    own.insert({graph.label_id(call->task), call->microstep});
    alike.insert(AlikeOf(graph, call->task));
  }
  IdVector<TaskId, char> marked(graph.task_count(), 0);
  std::map<LabelId, bool> is_alike;
  for (const TaskId t : AllIds<TaskId>(graph.task_count())) {
    if (graph.kind(t) != TaskKind::kTransfer) continue;
    if (graph.rank(t) == rank) {
      marked[t] = own.count({graph.label_id(t), graph.position(t).microstep}) > 0 ? 1 : 0;
      continue;
    }
    const auto [at, is_new] = is_alike.try_emplace(graph.label_id(t), false);
    if (is_new) at->second = alike.count(AlikeOf(graph, t)) > 0;
    marked[t] = at->second ? 1 : 0;
  }
  // A rendezvous vanishes as a whole; the reported rank decides where it takes part.
  for (std::size_t r = 0; r < graph.rendezvous_count(); ++r) {
    const auto members = graph.members(RendezvousId{static_cast<std::uint32_t>(r)});
    char is_marked = 0;
    for (const TaskId t : members) is_marked = std::max(is_marked, marked[t]);
    for (const TaskId t : members) {
      if (graph.rank(t) == rank) is_marked = marked[t];
    }
    for (const TaskId t : members) marked[t] = is_marked;
  }
  return marked;
}

}  // namespace stepsim
