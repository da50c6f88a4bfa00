#include "tools/calibrate/cuda/cuda_tasks.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <vector>

#include "tools/calibrate/cuda/check.h"
#include "tools/calibrate/cuda/kernels.h"
#include "tools/calibrate/cuda/timer.h"

namespace stepsim::measure {
namespace {

constexpr std::size_t kElement = 2;  // bf16, of everything but matrix products

class Launches : public Prepared {
 public:
  explicit Launches(LaunchOp op) : op_(op) {}

  Sample Take(int inner) override {
    switch (op_) {
      case LaunchOp::kKernelLaunch:
        return {HostSeconds(inner) / inner};
      case LaunchOp::kEmptyKernel:
        return {EmptySeconds(inner) / inner};
      case LaunchOp::kEventHandover:
        break;
    }
    // What a hop costs more than the same kernels one behind the other on one stream.
    const double more = (HopSeconds(inner) - EmptySeconds(2 * inner)) / (2.0 * inner);
    constexpr double kLeast = 1e-9;  // less than events can tell
    return {std::max(more, kLeast)};
  }

 private:
  // The queue holds more launches than a sample has: the host never waits for the device.
  double HostSeconds(int inner) const {
    one_.Synchronize();
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < inner; ++i) CheckCuda(LaunchEmpty(one_.get()), "empty kernel");
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    one_.Synchronize();
    return seconds.count();
  }

  double EmptySeconds(int count) const {
    return StreamTimer(one_).Time(count,
                                  [this] { CheckCuda(LaunchEmpty(one_.get()), "empty kernel"); });
  }

  double HopSeconds(int inner) const {
    constexpr int kCalls = 6;
    const auto there_and_back = [this] {
      Hop(one_, two_, there_);
      Hop(two_, one_, back_);
    };
    return StreamTimer(one_).Time(inner, there_and_back, kCalls);
  }

  static void Hop(const Stream& from, const Stream& to, const Event& event) {
    CheckCuda(LaunchEmpty(from.get()), "empty kernel");
    event.Record(from);
    CheckCuda(cudaStreamWaitEvent(to.get(), event.get(), 0), "cudaStreamWaitEvent");
  }

  LaunchOp op_;
  Stream one_, two_;
  Event there_, back_;
};

class Gemm : public Prepared {
 public:
  Gemm(const LtHandle& handle, const GemmTask& task) : gemm_(handle, task) {}
  Sample Take(int inner) override {
    return {timer_.Time(inner, [this] { gemm_.Enqueue(stream_); }) / inner};
  }

 private:
  Stream stream_;
  StreamTimer timer_{stream_};
  LtGemm gemm_;
};

class Memory : public Prepared {
 public:
  explicit Memory(const MemoryTask& task) : op_(task.op) {
    constexpr std::size_t kMultiple = kNormWidth * kElement;
    const std::size_t tensors = task.op == MemoryOp::kAdd ? 3 : 2;
    bytes_ = static_cast<std::size_t>(task.bytes) / tensors;
    if (bytes_ == 0 || static_cast<std::size_t>(task.bytes) % (tensors * kMultiple) != 0) {
      throw CannotMeasure(fmt::format("found {} bytes, allowed: a multiple of {}", task.bytes,
                                      tensors * kMultiple));
    }
    const std::size_t sets = SetsBeyondCache(bytes_ * tensors);
    for (std::size_t i = 0; i < sets * tensors; ++i) {
      tensors_.emplace_back(bytes_);
      CheckCuda(FillRandom(tensors_.back().data(), bytes_ / kElement, Pattern::kBf16,
                           static_cast<std::uint32_t>(i), stream_.get()),
                "fill kernel");
    }
    stream_.Synchronize();
  }

  Sample Take(int inner) override {
    return {timer_.Time(inner, [this] { Enqueue(); }) / inner};
  }

 private:
  void* Next() { return tensors_[next_++ % tensors_.size()].data(); }

  void Enqueue() {
    void *const a = Next(), *const b = Next();
    switch (op_) {
      case MemoryOp::kCopy:
        return CheckCuda(CopyTensor(a, b, bytes_, stream_.get()), "copy kernel");
      case MemoryOp::kNorm:
        return CheckCuda(NormRows(a, b, bytes_ / (kNormWidth * kElement), stream_.get()),
                         "norm kernel");
      case MemoryOp::kAdd:
        return CheckCuda(AddTensors(a, b, Next(), bytes_, stream_.get()), "add kernel");
    }
  }

  MemoryOp op_;
  std::size_t bytes_ = 0;  // of one tensor
  Stream stream_;
  StreamTimer timer_{stream_};
  std::vector<DeviceMemory> tensors_;
  std::size_t next_ = 0;
};

// S^T = K Q^T, softmax over the keys, O^T = V^T P^T: two products per head and a kernel between.
class Attention : public Prepared {
 public:
  Attention(const LtHandle& handle, const AttentionTask& task)
      : task_(task),
        heads_(task.batch * task.heads),
        scores_(handle, {task.sequence, task.sequence, task.head_dim, heads_, true, task.dtype}),
        output_(handle, {task.head_dim, task.sequence, task.sequence, heads_, false, task.dtype}),
        q_(Operand()),
        k_(Operand()),
        v_(Operand()),
        o_(Operand()),
        s_(Area(task.sequence) * kElement) {
    std::uint32_t seed = 0;
    for (const DeviceMemory* operand : {&q_, &k_, &v_}) {
      CheckCuda(
          FillRandom(operand->data(), Area(task.head_dim), Pattern::kBf16, ++seed, stream_.get()),
          "fill kernel");
    }
    stream_.Synchronize();
  }

  Sample Take(int inner) override {
    return {timer_.Time(inner, [this] { Enqueue(); }) / inner};
  }
  std::map<std::string, std::string> Facts() const override {
    return {{"implementation", "gemm_softmax"}};
  }

 private:
  std::size_t Area(std::int64_t columns) const {
    return static_cast<std::size_t>(heads_) * static_cast<std::size_t>(task_.sequence) *
           static_cast<std::size_t>(columns);
  }
  DeviceMemory Operand() const { return DeviceMemory(Area(task_.head_dim) * kElement); }

  void Enqueue() {
    scores_.Enqueue(k_.data(), q_.data(), s_.data(), stream_);
    const auto tokens = static_cast<int>(task_.sequence);
    CheckCuda(SoftmaxRows(s_.data(), Area(1), tokens, tokens, task_.causal, stream_.get()),
              "softmax kernel");
    output_.Enqueue(v_.data(), s_.data(), o_.data(), stream_);
  }

  AttentionTask task_;
  std::int64_t heads_;
  LtProduct scores_, output_;
  Stream stream_;
  StreamTimer timer_{stream_};
  DeviceMemory q_, k_, v_, o_, s_;
};

}  // namespace

std::unique_ptr<Prepared> PrepareCudaLaunch(const LaunchTask& task) {
  return std::make_unique<Launches>(task.op);
}

std::unique_ptr<Prepared> PrepareCudaGemm(const LtHandle& handle, const GemmTask& task) {
  return std::make_unique<Gemm>(handle, task);
}

std::unique_ptr<Prepared> PrepareCudaMemory(const MemoryTask& task) {
  return std::make_unique<Memory>(task);
}

std::unique_ptr<Prepared> PrepareCudaAttention(const LtHandle& handle, const AttentionTask& task) {
  if (task.dtype != "bf16") {
    throw CannotMeasure(fmt::format("found type {}, allowed on a GPU: bf16", task.dtype));
  }
  const double rows =
      static_cast<double>(task.batch * task.heads) * static_cast<double>(task.sequence);
  if (rows > std::numeric_limits<int>::max() || task.batch * task.heads > 65535) {
    throw CannotMeasure("has more rows of scores than one kernel takes");
  }
  return std::make_unique<Attention>(handle, task);
}

}  // namespace stepsim::measure
