#include "tools/calibrate/mpi/cpu_tasks.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "tools/calibrate/mpi/cpu_kernels.h"

namespace stepsim::measure {
namespace {

constexpr double kMostBytes = 4e9;  // of one task's buffers
constexpr std::size_t kMostCopies = 32;

// How many sets of buffers of this size do not fit into the caches together.
std::size_t CopiesFor(double bytes) {
  if (bytes > kMostBytes) {
    throw CannotMeasure(fmt::format("needs {:.1f} GB of memory, allowed: at most {:.0f} GB",
                                    bytes / 1e9, kMostBytes / 1e9));
  }
  const double copies = std::ceil(static_cast<double>(CacheBytes()) / std::max(bytes, 1.0)) + 1;
  return std::clamp<std::size_t>(static_cast<std::size_t>(copies), 2, kMostCopies);
}

template <class Number>
class TypedGemm : public GemmWork {
 public:
  explicit TypedGemm(const GemmTask& task) : task_(task) {
    const auto elements = [](std::int64_t rows, std::int64_t columns) {
      return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
    };
    const double m = static_cast<double>(task.m), n = static_cast<double>(task.n),
                 k = static_cast<double>(task.k);
    sets_.resize(CopiesFor((m * k + n * k + m * n) * sizeof(Number)));
    for (Set& set : sets_) {
      const auto a = RandomNumbers(elements(task.m, task.k), 1);
      const auto b = RandomNumbers(elements(task.n, task.k), 2);
      set.a.assign(a.begin(), a.end());
      set.b.assign(b.begin(), b.end());
      set.c.resize(elements(task.m, task.n));
    }
  }
  void Run() override {
    Set& set = sets_[next_++ % sets_.size()];
    Multiply(set.a.data(), set.b.data(), set.c.data(), task_.m, task_.n, task_.k);
  }

 private:
  struct Set {
    std::vector<Number> a, b, c;
  };
  GemmTask task_;
  std::vector<Set> sets_;
  std::size_t next_ = 0;
};

// Something that is called again and again.
class Calls : public Prepared {
 public:
  explicit Calls(std::function<void()> call, std::map<std::string, std::string> facts = {})
      : call_(std::move(call)), facts_(std::move(facts)) {}
  Sample Take(int inner) override {
    const double begin = WallSeconds();
    for (int i = 0; i < inner; ++i) call_();
    return {(WallSeconds() - begin) / inner};
  }
  std::map<std::string, std::string> Facts() const override { return facts_; }

 private:
  std::function<void()> call_;
  std::map<std::string, std::string> facts_;
};

struct MemorySet {
  std::vector<float> a, b, c;
};

// A thread that runs what it is given: the CPU's stream.
class Worker {
 public:
  Worker() : thread_([this] { Loop(); }) {}
  ~Worker() {
    Submit([] {});
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      is_ended_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  void Submit(std::function<void()> work) {
    std::unique_lock<std::mutex> lock(mutex_);
    idle_.wait(lock, [this] { return !work_; });
    work_ = std::move(work);
    lock.unlock();
    changed_.notify_one();
  }
  void Wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    idle_.wait(lock, [this] { return !work_; });
  }

 private:
  void Loop() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return work_ || is_ended_; });
      if (!work_) return;
      lock.unlock();
      (*work_)();
      lock.lock();
      work_.reset();
      idle_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_, idle_;
  std::optional<std::function<void()>> work_;
  bool is_ended_ = false;
  std::thread thread_;  // the last member: it uses the others
};

class Launches : public Prepared {
 public:
  explicit Launches(LaunchOp op) : op_(op) {}
  Sample Take(int inner) override {
    double seconds = 0;
    for (int i = 0; i < inner; ++i) {
      const double begin = WallSeconds();
      if (op_ == LaunchOp::kEventHandover) {
        double end_of_one = 0, begin_of_two = 0;
        one_.Submit([&] {
          end_of_one = WallSeconds();
          two_.Submit([&] { begin_of_two = WallSeconds(); });
        });
        one_.Wait();
        two_.Wait();
        seconds += begin_of_two - end_of_one;
      } else {
        one_.Submit([] {});
        if (op_ == LaunchOp::kKernelLaunch) seconds += WallSeconds() - begin;
        one_.Wait();
        if (op_ == LaunchOp::kEmptyKernel) seconds += WallSeconds() - begin;
      }
    }
    return {seconds / inner};
  }

 private:
  LaunchOp op_;
  Worker two_, one_;
};

// Threads that copy as long as they are told to.
class CopyThreads {
 public:
  explicit CopyThreads(int count) {
    for (int i = 0; i < count; ++i) threads_.emplace_back([this] { Copy(); });
  }
  ~CopyThreads() {
    is_ended_ = true;
    for (std::thread& thread : threads_) thread.join();
  }
  long slices() const { return slices_; }

 private:
  static constexpr std::size_t kSlice = 1 << 20;  // bytes
  static constexpr std::size_t kSlices = 32;

  void Copy() {
    const std::vector<char> from(kSlice * kSlices, 1);
    std::vector<char> to(kSlice * kSlices);
    for (std::size_t i = 0; !is_ended_; i = (i + 1) % kSlices) {
      std::memcpy(to.data() + i * kSlice, from.data() + i * kSlice, kSlice);
      ++slices_;
    }
  }

  std::atomic<bool> is_ended_ = false;
  std::atomic<long> slices_ = 0;
  std::vector<std::thread> threads_;
};

class CopyBeside : public Prepared {
 public:
  CopyBeside(const GemmTask& compute, const CopyLoad& load)
      : gemm_(MakeGemm(compute)), threads_(load.sms) {}

  Sample Take(int inner) override {
    const auto [compute_alone, none] = Window(inner, nullptr);
    CopyThreads load(threads_);
    while (load.slices() < 2L * threads_) std::this_thread::yield();  // all are at it
    const double begin = WallSeconds();
    const long before = load.slices();
    while (load.slices() < before + kLeastSlices * threads_) std::this_thread::yield();
    const double copy_alone = PerPass(load.slices() - before, WallSeconds() - begin);
    const auto [compute_beside, copy_beside] = Window(inner, &load);
    return {compute_alone, compute_beside, copy_alone, copy_beside};
  }

 private:
  static constexpr long kLeastSlices = 8;

  double PerPass(long slices, double seconds) const {
    return seconds * threads_ / static_cast<double>(slices);
  }

  // Seconds per product, and per slice of each thread.
  std::pair<double, double> Window(int inner, const CopyThreads* load) {
    const double begin = WallSeconds();
    const long before = load != nullptr ? load->slices() : 0;
    int products = 0;
    long slices = 0;
    do {
      for (int i = 0; i < inner; ++i) gemm_->Run();
      products += inner;
      if (load != nullptr) slices = load->slices() - before;
    } while (load != nullptr && slices < kLeastSlices * threads_);
    const double seconds = WallSeconds() - begin;
    return {seconds / products, slices > 0 ? PerPass(slices, seconds) : 0};
  }

  std::unique_ptr<GemmWork> gemm_;
  int threads_;
};

class Attention {
 public:
  explicit Attention(const AttentionTask& task)
      : task_(task),
        heads_(static_cast<std::size_t>(task.batch * task.heads)),
        tokens_(static_cast<std::size_t>(task.sequence)),
        width_(static_cast<std::size_t>(task.head_dim)),
        q_(RandomNumbers(heads_ * tokens_ * width_, 1)),
        k_(RandomNumbers(heads_ * tokens_ * width_, 2)),
        v_(RandomNumbers(heads_ * tokens_ * width_, 3)),
        out_(heads_ * tokens_ * width_),
        scores_(tokens_ * tokens_) {}

  void Run() {
    const std::int64_t tokens = task_.sequence, width = task_.head_dim;
    for (std::size_t head = 0; head < heads_; ++head) {
      const std::size_t at = head * tokens_ * width_;
      Multiply(q_.data() + at, k_.data() + at, scores_.data(), tokens, tokens, width);
      SoftmaxRows(scores_.data(), tokens_, tokens_, task_.causal);
      // V lies transposed: each row is one of its columns.
      Multiply(scores_.data(), v_.data() + at, out_.data() + at, tokens, width, tokens);
    }
  }

 private:
  AttentionTask task_;
  std::size_t heads_, tokens_, width_;
  std::vector<float> q_, k_, v_, out_, scores_;
};

}  // namespace

std::size_t CacheBytes() {
  constexpr long kAtLeast = 32L << 20;
  const long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
  constexpr long kAtMost = 256L << 20;  // a server's, of which one process has a part
  return static_cast<std::size_t>(std::clamp(cache, kAtLeast, kAtMost));
}

double WallSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::unique_ptr<GemmWork> MakeGemm(const GemmTask& task) {
  if (task.dtype == "fp32") return std::make_unique<TypedGemm<float>>(task);
  if (task.dtype == "fp64") return std::make_unique<TypedGemm<double>>(task);
  throw CannotMeasure(fmt::format("found type {}, allowed on a CPU: fp32, fp64", task.dtype));
}

std::unique_ptr<Prepared> PrepareLaunch(const LaunchTask& task) {
  return std::make_unique<Launches>(task.op);
}

std::unique_ptr<Prepared> PrepareGemm(const GemmTask& task) {
  const std::shared_ptr<GemmWork> gemm = MakeGemm(task);
  return std::make_unique<Calls>([gemm] { gemm->Run(); });
}

std::unique_ptr<Prepared> PrepareMemory(const MemoryTask& task) {
  const bool is_add = task.op == MemoryOp::kAdd;
  const std::size_t count =
      static_cast<std::size_t>(task.bytes) / sizeof(float) / (is_add ? 3 : 2);  // per tensor
  const auto sets =
      std::make_shared<std::vector<MemorySet>>(CopiesFor(static_cast<double>(task.bytes)));
  for (MemorySet& set : *sets) {
    set.a = RandomNumbers(count, 1);
    if (is_add) set.b = RandomNumbers(count, 2);
    set.c.resize(count);
  }
  const MemoryOp op = task.op;
  return std::make_unique<Calls>([sets, op, count, next = std::size_t{0}]() mutable {
    MemorySet& set = (*sets)[next++ % sets->size()];
    constexpr std::size_t kWidth = 1024;
    switch (op) {
      case MemoryOp::kCopy:
        std::memcpy(set.c.data(), set.a.data(), count * sizeof(float));
        break;
      case MemoryOp::kAdd:
        Add(set.a.data(), set.b.data(), set.c.data(), count);
        break;
      case MemoryOp::kNorm:
        NormRows(set.a.data(), set.c.data(), count / kWidth, kWidth);
        break;
    }
  });
}

std::unique_ptr<Prepared> PrepareAttention(const AttentionTask& task) {
  if (task.dtype != "fp32") {
    throw CannotMeasure(fmt::format("found type {}, allowed on a CPU: fp32", task.dtype));
  }
  const double tokens = static_cast<double>(task.sequence);
  CopiesFor(4 * tokens *
            (tokens + 4.0 * static_cast<double>(task.batch * task.heads) *
                          static_cast<double>(task.head_dim)));
  const auto attention = std::make_shared<Attention>(task);
  return std::make_unique<Calls>(
      [attention] { attention->Run(); },
      std::map<std::string, std::string>{{"implementation", "gemm_softmax"}});
}

std::unique_ptr<Prepared> PrepareCopyBeside(const GemmTask& compute, const CopyLoad& load) {
  return std::make_unique<CopyBeside>(compute, load);
}

}  // namespace stepsim::measure
