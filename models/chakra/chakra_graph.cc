#include "models/chakra/chakra_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <queue>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "sim/base/diagnostics.h"
#include "sim/base/units.h"
#include "sim/graph/task_graph_builder.h"

namespace stepsim {
namespace {

// What CollectiveCommType's numbers mean here. The site is what such a collective is mostly for:
// a trace does not say it.
struct CollectiveRow {
  std::int64_t type;
  std::string_view name;
  std::optional<CollectiveOp> op;
  Site site = Site::kNone;
};
constexpr std::array kCollectives = {
    CollectiveRow{0, "ALL_REDUCE", CollectiveOp::kAllReduce, Site::kGradientReduce},
    CollectiveRow{1, "REDUCE", CollectiveOp::kReduce, Site::kGradientReduce},
    CollectiveRow{2, "ALL_GATHER", CollectiveOp::kAllGather, Site::kParameterGather},
    CollectiveRow{3, "GATHER", std::nullopt},
    CollectiveRow{4, "SCATTER", std::nullopt},
    CollectiveRow{5, "BROADCAST", CollectiveOp::kBroadcast, Site::kParameterGather},
    CollectiveRow{6, "ALL_TO_ALL", CollectiveOp::kAllToAll, Site::kExpertParallel},
    CollectiveRow{7, "REDUCE_SCATTER", CollectiveOp::kReduceScatter, Site::kGradientReduce},
    CollectiveRow{8, "REDUCE_SCATTER_BLOCK", CollectiveOp::kReduceScatter, Site::kGradientReduce},
    CollectiveRow{9, "BARRIER", CollectiveOp::kBarrier, Site::kOptimizer},
};

Place PlaceOf(const ChakraTrace& trace) { return {trace.file, 0, 0}; }

std::string NameOf(const ChakraNode& node) {
  return fmt::format("node {} ({})", node.id, node.name.empty() ? ToString(node.kind) : node.name);
}

// A rank's nodes, what they wait for first; of those that could be next, the one recorded first.
// Throws ConfigError when nodes wait for each other.
std::vector<std::size_t> IssueOrder(const ChakraTrace& trace) {
  const std::vector<ChakraNode>& nodes = trace.nodes;
  std::unordered_map<std::uint64_t, std::size_t> index_of;
  for (std::size_t i = 0; i < nodes.size(); ++i) index_of[nodes[i].id] = i;
  std::vector<std::size_t> missing(nodes.size());
  std::vector<std::vector<std::size_t>> next(nodes.size());
  using Candidate = std::tuple<std::uint64_t, std::uint64_t, std::size_t>;  // start, id, index
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> ready;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    missing[i] = nodes[i].after.size();
    for (const std::uint64_t before : nodes[i].after) next[index_of.at(before)].push_back(i);
    if (missing[i] == 0) ready.emplace(nodes[i].start_us, nodes[i].id, i);
  }
  std::vector<std::size_t> order;
  while (!ready.empty()) {
    const std::size_t i = std::get<2>(ready.top());
    ready.pop();
    order.push_back(i);
    for (const std::size_t after : next[i]) {
      if (--missing[after] == 0) ready.emplace(nodes[after].start_us, nodes[after].id, after);
    }
  }
  if (order.size() == nodes.size()) return order;
  const auto stuck =
      std::find_if(missing.begin(), missing.end(), [](std::size_t m) { return m > 0; });
  throw ConfigError(PlaceOf(trace),
                    fmt::format("{}: waits for itself by way of others, allowed: an order in which "
                                "every node comes after those it depends on",
                                NameOf(nodes[static_cast<std::size_t>(stuck - missing.begin())])));
}

// Calls of a group, or of a pair in one direction, that meet: the first of each rank, the second,
// ...
struct Channel {
  GroupId group{};
  std::vector<RendezvousId> meetings;
  std::vector<std::pair<CollectiveWork, std::string>> works;  // with who called it first
};

class ChakraBuilder {
 public:
  ChakraBuilder(std::span<const ChakraTrace> traces, const ClusterSpec& cluster,
                const ChakraOptions& options)
      : traces_(traces), options_(options) {
    step_.job.hardware = cluster.hardware;
    step_.job.nodes = cluster.nodes;
    step_.job.gpus_per_node = cluster.gpus_per_node;
    step_.job.collectives = cluster.collectives;
    step_.job.precision.compute = options.dtype;
    ranks_ = cluster.ranks();
  }

  ChakraStep Build() {
    CheckRanks();
    for (std::size_t r = 0; r < traces_.size(); ++r) AddRank(static_cast<std::int32_t>(r));
    diagnostics_.ThrowIfAny();
    Say();
    step_.graph = std::move(graph_).Build();
    return std::move(step_);
  }

 private:
  void CheckRanks() {
    const auto count = static_cast<std::int64_t>(traces_.size());
    if (count > ranks_) {
      diagnostics_.Add({}, fmt::format("found traces of {} ranks, allowed: up to the cluster's {} "
                                       "(--nodes, --gpus-per-node)",
                                       count, ranks_));
    }
    for (const auto& [name, ranks] : options_.groups) {
      for (const std::int32_t rank : ranks) {
        if (rank < ranks_) continue;
        diagnostics_.Add({}, fmt::format("group '{}': found rank {}, allowed: ranks below the "
                                         "cluster's {}",
                                         name, rank, ranks_));
        break;
      }
    }
    diagnostics_.ThrowIfAny();
  }

  void AddRank(std::int32_t global_rank) {
    const ChakraTrace& trace = traces_[static_cast<std::size_t>(global_rank)];
    trace_ = &trace;
    global_rank_ = global_rank;
    rank_ = graph_.AddRank({.global_rank = global_rank});
    streams_.clear();
    tasks_.clear();
    calls_.clear();
    for (const std::size_t i : IssueOrder(trace)) AddNode(trace.nodes[i]);
  }

  StreamId Stream(const std::string& name) {
    const auto [it, is_new] = streams_.try_emplace(name);
    if (is_new) it->second = graph_.AddStream(rank_, name);
    return it->second;
  }

  void AddNode(const ChakraNode& node) {
    const std::optional<TaskId> task = TaskOf(node);
    std::vector<TaskId>& last = tasks_[node.id];
    if (!task) {  // an instant: who waits for it waits for what it waits for
      for (const std::uint64_t before : node.after) {
        last.insert(last.end(), tasks_[before].begin(), tasks_[before].end());
      }
      std::sort(last.begin(), last.end());
      last.erase(std::unique(last.begin(), last.end()), last.end());
      return;
    }
    for (const std::uint64_t before : node.after) {
      for (const TaskId t : tasks_[before]) graph_.AddDependency(t, *task);
    }
    last = {*task};
  }

  // nullopt: nothing is done.
  std::optional<TaskId> TaskOf(const ChakraNode& node) {
    switch (node.kind) {
      case ChakraKind::kCollective:
        return CollectiveTask(node);
      case ChakraKind::kSend:
      case ChakraKind::kReceive:
        return PeerTask(node);
      case ChakraKind::kCompute:
        return node.is_host ? HostTask(node) : KernelTask(node);
      case ChakraKind::kMemoryLoad:
      case ChakraKind::kMemoryStore:
        return KernelTask(node);
      case ChakraKind::kInvalid:
      case ChakraKind::kMetadata:
      case ChakraKind::kStorage:
      case ChakraKind::kBatch:
      case ChakraKind::kCheckpoint:
        break;
    }
    if (node.kind != ChakraKind::kMetadata) ++instants_;
    return std::nullopt;
  }

  TaskId Add(const Work& work, const ChakraNode& node, Site site, StreamId stream) {
    const std::string name = node.name.empty() ? std::string(ToString(node.kind)) : node.name;
    return graph_.AddTask(graph_.AddWork(work), graph_.AddLabel({name, site, Phase::kOther}),
                          stream);
  }

  std::optional<TaskId> HostTask(const ChakraNode& node) {
    if (node.duration_us == 0) return std::nullopt;
    HostWork work;
    work.measured = Recorded(node);
    return Add(work, node, Site::kNone, Stream("host"));
  }

  std::optional<TaskId> KernelTask(const ChakraNode& node) {
    const bool is_modelled = node.flops > 0 || node.bytes > 0;
    const bool is_recorded = node.duration_us > 0 && (options_.keeps_durations || !is_modelled);
    if (!is_recorded && !is_modelled) return std::nullopt;
    ++(is_recorded ? recorded_ : modelled_);
    ComputeWork work;
    work.compute_class = node.flops > 0 ? ComputeClass::kGemm : ComputeClass::kMemory;
    work.dtype = work.output = options_.dtype;
    work.flops = Flops{static_cast<double>(std::max<std::int64_t>(node.flops, 0))};
    work.bytes = Bytes{std::max<std::int64_t>(node.bytes, 0)};
    if (is_recorded) work.measured = Recorded(node);
    return Add(work, node, Site::kNone,
               Stream(node.stream >= 0 ? fmt::format("stream {}", node.stream) : "compute"));
  }

  static std::int64_t Recorded(const ChakraNode& node) {
    return DurationFromSeconds(static_cast<double>(node.duration_us) * 1e-6).count();
  }

  // ---- Transfers ----

  std::optional<TaskId> CollectiveTask(const ChakraNode& node) {
    const auto row =
        std::find_if(kCollectives.begin(), kCollectives.end(),
                     [&](const CollectiveRow& r) { return r.type == node.collective; });
    if (row == kCollectives.end() || !row->op) {
      Problem(node, fmt::format("found comm_type {}, allowed: {}",
                                row == kCollectives.end() ? fmt::format("{}", node.collective)
                                                          : std::string(row->name),
                                AllowedCollectives()));
      return std::nullopt;
    }
    const std::vector<std::int32_t> ranks = RanksOf(node.group);
    if (!std::binary_search(ranks.begin(), ranks.end(), global_rank_)) {
      Problem(node, fmt::format("rank {} calls a collective of group '{}', which it is not in",
                                global_rank_, node.group));
      return std::nullopt;
    }
    const std::string name = node.group.empty() ? "all" : node.group;
    Channel& channel = ChannelOf("group " + name, name, ranks);
    CollectiveWork work;
    work.op = *row->op;
    work.dtype = options_.dtype;
    // comm_size is what a rank puts in; nccl-tests counts what an all_gather gives.
    const bool is_part = work.op == CollectiveOp::kAllGather;
    work.bytes =
        Bytes{node.transfer_bytes * (is_part ? static_cast<std::int64_t>(ranks.size()) : 1)};
    work.group = channel.group;
    return Meet(node, work, row->site, channel, "group " + name);
  }

  std::optional<TaskId> PeerTask(const ChakraNode& node) {
    if (node.peer < 0 || node.peer >= ranks_ || node.peer == global_rank_) {
      Problem(node,
              fmt::format("found peer {}, allowed: another rank below {}", node.peer, ranks_));
      return std::nullopt;
    }
    const auto peer = static_cast<std::int32_t>(node.peer);
    const bool sends = node.kind == ChakraKind::kSend;
    const std::int32_t from = sends ? global_rank_ : peer, to = sends ? peer : global_rank_;
    const std::string name = fmt::format("{} to {} tag {}", from, to, node.tag);
    Channel& channel = ChannelOf(name, fmt::format("{}-{}", std::min(from, to), std::max(from, to)),
                                 {std::min(from, to), std::max(from, to)});
    CollectiveWork work;
    work.op = CollectiveOp::kSendRecv;
    work.dtype = options_.dtype;
    work.bytes = Bytes{node.transfer_bytes};
    work.group = channel.group;
    work.sender = from;
    return Meet(node, work, Site::kPipelineTransfer, channel, fmt::format("{} to {}", from, to));
  }

  std::vector<std::int32_t> RanksOf(const std::string& group) const {
    const auto known = options_.groups.find(group);
    if (known != options_.groups.end()) return known->second;
    std::vector<std::int32_t> all(static_cast<std::size_t>(ranks_));
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int32_t>(i);
    return all;
  }

  Channel& ChannelOf(const std::string& key, const std::string& name,
                     const std::vector<std::int32_t>& ranks) {
    const auto [it, is_new] = channels_.try_emplace(key);
    if (is_new) {
      const auto [group, is_new_group] = groups_.try_emplace(ranks);
      if (is_new_group) group->second = graph_.AddGroup({name, "of the trace", ranks});
      it->second.group = group->second;
    }
    return it->second;
  }

  // The n-th call of a rank meets the n-th of the others.
  std::optional<TaskId> Meet(const ChakraNode& node, const CollectiveWork& work, Site site,
                             Channel& channel, const std::string& stream) {
    const std::size_t call = calls_[&channel]++;
    const std::string who = fmt::format("{}: {}", trace_->file, NameOf(node));
    if (call == channel.works.size()) {
      channel.works.emplace_back(work, who);
      channel.meetings.push_back(graph_.AddRendezvous());
    } else if (channel.works[call].first != work) {
      Problem(node, fmt::format("call {} of {} is {} of {} here, but {} of {} in {}", call + 1,
                                stream, ToString(work.op), FormatBytes(work.bytes),
                                ToString(channel.works[call].first.op),
                                FormatBytes(channel.works[call].first.bytes),
                                channel.works[call].second));
      return std::nullopt;
    }
    const TaskId task = Add(work, node, site, Stream(stream));
    graph_.Join(channel.meetings[call], task);
    return task;
  }

  static std::string AllowedCollectives() {
    std::string names;
    for (const CollectiveRow& row : kCollectives) {
      if (row.op) names += fmt::format("{}{} ({})", names.empty() ? "" : ", ", row.type, row.name);
    }
    return names;
  }

  void Problem(const ChakraNode& node, const std::string& what) {
    diagnostics_.Add(PlaceOf(*trace_), fmt::format("{}: {}", NameOf(node), what));
    constexpr std::size_t kMost = 20;
    if (diagnostics_.list().size() >= kMost) diagnostics_.ThrowIfAny();
  }

  void Say() {
    if (recorded_ > 0) {
      step_.notes.push_back(
          fmt::format("{} kernels take as long as recorded, whatever the hardware", recorded_));
    }
    if (modelled_ > 0) {
      step_.notes.push_back(
          fmt::format("{} kernels are priced by num_ops and tensor_size", modelled_));
    }
    if (instants_ > 0) {
      step_.warnings.push_back(fmt::format(
          "{} nodes of storage, batches and unknown kinds take no time here", instants_));
    }
    const auto count = static_cast<std::int64_t>(traces_.size());
    if (count < ranks_) {
      step_.notes.push_back(fmt::format(
          "traces of {} of {} ranks: the others are taken to be as early as these", count, ranks_));
    }
  }

  std::span<const ChakraTrace> traces_;
  const ChakraOptions& options_;
  std::int64_t ranks_ = 1;
  TaskGraphBuilder graph_;
  ChakraStep step_;
  Diagnostics diagnostics_;
  std::map<std::string, Channel> channels_;
  std::map<std::vector<std::int32_t>, GroupId> groups_;
  std::size_t recorded_ = 0, modelled_ = 0, instants_ = 0;
  // Of the rank that is being added.
  const ChakraTrace* trace_ = nullptr;
  std::int32_t global_rank_ = 0;
  RankId rank_{};
  std::map<std::string, StreamId> streams_;
  std::unordered_map<std::uint64_t, std::vector<TaskId>>
      tasks_;  // what a node's followers wait for
  std::map<const Channel*, std::size_t> calls_;
};

}  // namespace

ChakraStep BuildChakraStep(std::span<const ChakraTrace> traces, const ClusterSpec& cluster,
                           const ChakraOptions& options) {
  return ChakraBuilder(traces, cluster, options).Build();
}

}  // namespace stepsim
