// PyTorch DistributedDataParallel, hook by hook: models/README.md,
// "DDP".
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "models/parallel/ddp_buckets.h"
#include "models/parallel/strategy.h"
#include "models/workload/kernel_work.h"

namespace stepsim {
namespace {

constexpr std::int64_t kBroadcastChunk = std::int64_t{250} << 20;  // buffers go out in such pieces

// A bucket on its way through one backward pass.
struct BucketState {
  std::size_t missing = 0;  // gradients that have not arrived
  StreamEvent reduced;      // what the end of backward waits for
};

std::string BucketName(const Bucket& bucket, std::size_t index, std::size_t count,
                       const Workload& workload) {
  const auto parameter = [&](std::int32_t i) -> const ParameterTensor& {
    return workload.parameters[static_cast<std::size_t>(i)];
  };
  const std::int32_t largest = *std::max_element(
      bucket.parameters.begin(), bucket.parameters.end(),
      [&](std::int32_t a, std::int32_t b) { return parameter(a).bytes() < parameter(b).bytes(); });
  std::string name = fmt::format("bucket {}/{} ({}", index + 1, count, parameter(largest).name);
  if (bucket.parameters.size() > 1) name += fmt::format(" +{}", bucket.parameters.size() - 1);
  return name + ")";
}

class Ddp : public Strategy {
 public:
  Ddp(const StrategyContext& context, bool of_experts)
      : plan_(context.job.plan.ddp),
        workload_(context.workload),
        group_(of_experts ? context.experts.all : context.dense.all),
        nccl_(context.rank.AddStream(of_experts ? "nccl edp" : "nccl dp")),
        of_experts_(of_experts),
        buckets_(PlanBuckets(plan_, workload_, of_experts)),
        states_(buckets_.size()),
        bucket_of_(workload_.parameters.size()) {
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      for (const std::int32_t p : buckets_[b].parameters) {
        bucket_of_[static_cast<std::size_t>(p)] = b;
      }
      names_.push_back(BucketName(buckets_[b], b, buckets_.size(), workload_));
    }
    threads_.push_back(nccl_);
    if (context.job.collectives.model == CollectiveModel::kGloo) {
      for (std::int64_t i = 1; i < context.job.collectives.gloo_threads; ++i) {
        threads_.push_back(
            context.rank.AddStream(fmt::format("gloo {} {}", of_experts ? "edp" : "dp", i + 1)));
      }
    }
    if (plan_.comm_hook != CommHook::kNone) hook_ = context.rank.AddStream("comm hook");
  }

  // Buffers follow rank 0 before the forward; a forward after a no_sync forward skips this.
  void BeforeForward(const Moment& moment, std::int32_t unit) override {
    if (unit != 0 || !plan_.broadcast_buffers || of_experts_) return;
    if (plan_.no_sync && !moment.is_first_microstep) return;
    RankProgram& rank = moment.rank;
    for (std::int64_t left = workload_.buffers.value; left > 0; left -= kBroadcastChunk) {
      rank.Wait(nccl_, rank.Record(rank.compute()));
      const CollectiveWork broadcast{CollectiveOp::kBroadcast, DType::kFp32,
                                     Bytes{std::min(left, kBroadcastChunk)}, group_};
      rank.LaunchCollective(nccl_, broadcast, "broadcast buffers", Site::kParameterGather);
      rank.Wait(rank.compute(), rank.Record(nccl_));
    }
  }

  // With find_unused_parameters the host walks the autograd graph after every synced forward.
  void AfterForward(const Moment& moment, std::int32_t unit) override {
    const bool is_last = unit + 1 == static_cast<std::int32_t>(workload_.units.size());
    if (!is_last || !Reduces(moment)) return;
    ResetBuckets();
    if (!LooksForUnused()) return;
    const auto nodes = static_cast<std::int32_t>(workload_.parameters.size());
    moment.rank.RunOnHost(HostWork{.graph_nodes = nodes}, "find unused parameters");
  }

  void GradientReady(const Moment& moment, std::int32_t parameter) override {
    if (!Reduces(moment) || DelaysToTheEnd() || !IsOwn(parameter)) return;
    CopyIntoBucket(moment.rank, parameter);
    --states_[bucket_of_[static_cast<std::size_t>(parameter)]].missing;
    LaunchReadyBuckets(moment.rank);
  }

  void AfterLastBackward(const Moment& moment) override {
    if (!Reduces(moment)) return;
    RankProgram& rank = moment.rank;
    if (DelaysToTheEnd()) {
      ReduceUsageMap(rank);
      for (std::size_t b = 0; b < buckets_.size(); ++b) {
        for (const std::int32_t p : buckets_[b].parameters) CopyIntoBucket(rank, p);
        states_[b].missing = 0;
      }
      LaunchReadyBuckets(rank);
    }
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      rank.Wait(rank.compute(), states_[b].reduced);
      if (plan_.gradient_as_bucket_view) continue;  // .grad is the bucket
      for (const std::int32_t p : buckets_[b].parameters) {
        rank.Launch(rank.compute(), CopyOf(p), "copy_back " + NameOf(p));
      }
    }
    rank.Wait(rank.compute(), usage_map_);
  }

 private:
  bool IsOwn(std::int32_t p) const {
    return workload_.parameters[static_cast<std::size_t>(p)].is_expert == of_experts_;
  }
  bool Reduces(const Moment& moment) const { return !plan_.no_sync || moment.is_last_microstep; }
  // The first iteration of a static graph records how often each hook fires and reduces nothing
  // before the end of backward.
  bool DelaysToTheEnd() const {
    return plan_.static_graph && plan_.iteration == TrainingIteration::kFirst;
  }
  bool LooksForUnused() const { return plan_.find_unused_parameters && !plan_.static_graph; }
  const std::string& NameOf(std::int32_t p) const {
    return workload_.parameters[static_cast<std::size_t>(p)].name;
  }
  ComputeWork CopyOf(std::int32_t p) const {
    const Bytes bytes = workload_.parameters[static_cast<std::size_t>(p)].bytes();
    return CopyWork(bytes, bytes);
  }

  void ResetBuckets() {
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      states_[b] = {buckets_[b].parameters.size(), {}};
    }
    next_ = 0;
  }

  // One small kernel per gradient. It is paid with gradient_as_bucket_view too: zero_grad has
  // dropped the alias (set_to_none), or the division happens in place, which moves as many bytes.
  void CopyIntoBucket(RankProgram& rank, std::int32_t p) {
    rank.Launch(rank.compute(), CopyOf(p), "scale_copy " + NameOf(p));
  }

  // Strictly in index order: a complete bucket waits for those before it. The usage map follows the
  // last one.
  void LaunchReadyBuckets(RankProgram& rank) {
    if (next_ == buckets_.size()) return;
    for (; next_ < buckets_.size() && states_[next_].missing == 0; ++next_) {
      const StreamId thread = threads_[next_ % threads_.size()];
      states_[next_].reduced = Reduce(rank, thread, buckets_[next_], names_[next_]);
    }
    if (next_ == buckets_.size() && LooksForUnused()) ReduceUsageMap(rank);
  }

  StreamEvent Reduce(RankProgram& rank, StreamId thread, const Bucket& bucket,
                     const std::string& name) {
    const DType wire = WireType(bucket.dtype);
    const std::int64_t elements = bucket.bytes.value / ElementSize(bucket.dtype).value;
    TaskId compressed = kNoId<TaskId>;
    if (plan_.comm_hook != CommHook::kNone) {
      compressed = rank.Launch(rank.compute(), CompressWork(bucket.dtype, wire, elements),
                               "compress " + name);
    }
    // The collective sees everything that the compute stream holds at this moment.
    rank.Wait(thread, rank.Record(rank.compute()));
    rank.LaunchCollective(thread, {CollectiveOp::kAllReduce, wire, SizeOf(wire, elements), group_},
                          "all_reduce " + name, Site::kGradientReduce);
    // A gradient that already has the type of the wire is reduced in place.
    if (wire == bucket.dtype) return rank.Record(thread);
    const TaskId decompressed =
        Decompress(rank, thread, CastWork(wire, bucket.dtype, elements), name);
    rank.graph().AddMemoryEvent(compressed, /*at_end=*/false, "compressed_buckets",
                                SizeOf(wire, elements));
    rank.graph().AddMemoryEvent(decompressed, /*at_end=*/true, "compressed_buckets",
                                Bytes{} - SizeOf(wire, elements));
    return rank.Record(hook_);
  }

  // The hook casts where it has to, then divides in place by the number of replicas.
  static ComputeWork CompressWork(DType gradient, DType wire, std::int64_t elements) {
    ComputeWork work = CastWork(wire, wire, elements);
    if (wire == gradient) return work;
    work.bytes += CastWork(gradient, wire, elements).bytes;
    work.kernels = 2;
    return work;
  }

  // Follows the collective on the future's stream. It belongs to no phase of the network: nothing
  // can hide behind it.
  TaskId Decompress(RankProgram& rank, StreamId thread, const ComputeWork& cast,
                    const std::string& name) {
    rank.Wait(hook_, rank.Record(thread));
    const Phase phase = rank.phase();
    rank.SetPhase(Phase::kOther);
    const TaskId task = rank.Launch(hook_, cast, "decompress " + name);
    rank.SetPhase(phase);
    return task;
  }

  DType WireType(DType gradient) const {
    switch (plan_.comm_hook) {
      case CommHook::kFp16Compress:
        return DType::kFp16;
      case CommHook::kBf16Compress:
        return DType::kBf16;
      case CommHook::kNone:
        break;
    }
    return gradient;
  }

  // "Who used what": one int32 per parameter.
  void ReduceUsageMap(RankProgram& rank) {
    const auto parameters = static_cast<std::int64_t>(workload_.parameters.size());
    rank.Wait(nccl_, rank.Record(rank.compute()));
    rank.LaunchCollective(
        nccl_, {CollectiveOp::kAllReduce, DType::kInt32, SizeOf(DType::kInt32, parameters), group_},
        "all_reduce usage map", Site::kGradientReduce);
    usage_map_ = rank.Record(nccl_);
  }

  const DdpPlan& plan_;
  const Workload& workload_;
  GroupId group_;
  StreamId nccl_;
  // Of the process group: NCCL's stream, or the threads of gloo, which take the buckets in turn.
  std::vector<StreamId> threads_;
  const bool of_experts_;
  StreamId hook_ = kNoId<StreamId>;
  std::vector<Bucket> buckets_;         // in launch order
  std::vector<BucketState> states_;     // of the current backward
  std::vector<std::size_t> bucket_of_;  // parameter -> bucket
  std::vector<std::string> names_;
  std::size_t next_ = 0;  // the bucket to launch next
  StreamEvent usage_map_;
};

// Experts that are dealt out are a module of their own, with a process group of its own.
class DdpWithExperts : public Strategy {
 public:
  explicit DdpWithExperts(const StrategyContext& context)
      : dense_(context, /*of_experts=*/false), experts_(context, /*of_experts=*/true) {}

  void BeforeForward(const Moment& moment, std::int32_t unit) override {
    dense_.BeforeForward(moment, unit);
  }
  void AfterForward(const Moment& moment, std::int32_t unit) override {
    dense_.AfterForward(moment, unit);
    experts_.AfterForward(moment, unit);
  }
  void GradientReady(const Moment& moment, std::int32_t parameter) override {
    dense_.GradientReady(moment, parameter);
    experts_.GradientReady(moment, parameter);
  }
  void AfterLastBackward(const Moment& moment) override {
    dense_.AfterLastBackward(moment);
    experts_.AfterLastBackward(moment);
  }

 private:
  Ddp dense_, experts_;
};

}  // namespace

std::unique_ptr<Strategy> MakeDdp(const StrategyContext& context) {
  if (context.job.plan.has_expert_mesh()) return std::make_unique<DdpWithExperts>(context);
  return std::make_unique<Ddp>(context, /*of_experts=*/false);
}

}  // namespace stepsim
