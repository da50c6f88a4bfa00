#include "tools/calibrate/cuda/interference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/calibrate/cuda/check.h"
#include "tools/calibrate/cuda/kernels.h"
#include "tools/calibrate/cuda/timer.h"

namespace stepsim::measure {
namespace {

constexpr int kTries = 4;
constexpr double kLonger = 1.6;  // what must outlast the other one, before it is known how long
constexpr double kProducts = 4;  // the load's time in these: it waits for blocks of one to leave
constexpr double kMostUnits = 4096;

// What runs beside the product, in units.
class Load {
 public:
  virtual ~Load() = default;
  virtual void Enqueue(int units, const Stream& stream) = 0;
  virtual void Await(const Event& event) { event.Wait(); }
};

class CopyOnSmsLoad : public Load {
 public:
  explicit CopyOnSmsLoad(int sms) : sms_(sms), from_(kBuffer), to_(kBuffer) {
    const int all = DeviceAttribute(cudaDevAttrMultiProcessorCount);
    if (sms >= all) {
      throw CannotMeasure(fmt::format("found {} SMs, allowed: fewer than the GPU's {}", sms, all));
    }
    CheckCuda(PrepareCopyOnSms(), "cudaFuncSetAttribute");
  }
  void Enqueue(int units, const Stream& stream) override {
    const auto bytes = kUnit * static_cast<std::size_t>(sms_) * static_cast<std::size_t>(units);
    CheckCuda(CopyOnSms(from_.data(), to_.data(), kBuffer, bytes, sms_, stream.get()),
              "copy kernel on SMs");
  }

 private:
  static constexpr std::size_t kBuffer = 256 << 20;  // larger than any L2 cache
  static constexpr std::size_t kUnit = 16 << 20;     // bytes moved by each SM
  int sms_;
  DeviceMemory from_, to_;
};

class CollectiveLoadOnStream : public Load {
 public:
  CollectiveLoadOnStream(Communicator& communicator, const CollectiveTask& task)
      : communicator_(communicator), call_(communicator, task) {}
  void Enqueue(int units, const Stream& stream) override {
    for (int i = 0; i < units; ++i) call_.Enqueue(stream);
  }
  void Await(const Event& event) override { communicator_.Await(event); }

 private:
  Communicator& communicator_;
  NcclCall call_;
};

// Two measurements: a load that outlasts the products, and products that outlast the load. In each,
// the shorter one runs beside the other from its begin to its end, which the events prove.
class Interference : public Prepared {
 public:
  Interference(const LtHandle& handle, Peers& peers, const GemmTask& compute,
               std::unique_ptr<Load> load)
      : peers_(peers), gemm_(handle, compute), load_(std::move(load)) {}

  // The ranks must enqueue equally many collectives: they agree on every count.
  Sample Take(int inner) override {
    const double compute_alone = Compute(inner);
    const int turns = Agreed(kProducts * compute_alone / LoadAlone(1), 1);
    const double load_alone = LoadAlone(turns) / turns;
    units_ = Agreed(kLonger * compute_alone * inner / load_alone, units_);
    products_ = Agreed(kLonger * load_alone * turns / compute_alone, products_);
    const double compute_beside =
        UntilWhole(&units_, [&](int units) { return ComputeBeside(inner, units); }) / inner;
    const double load_beside =
        UntilWhole(&products_, [&](int products) { return LoadBeside(products, turns); }) / turns;
    return {compute_alone, compute_beside, load_alone, load_beside};
  }

  std::map<std::string, std::string> Facts() const override {
    if (!is_partial_) return {};
    return {{"overlap", "partial"}};
  }

 private:
  struct Overlap {
    double seconds;
    bool is_whole;  // the other one ran all the time
  };

  int Agreed(double ratio, int least) {
    const double wanted = std::clamp(std::ceil(ratio), 1.0, kMostUnits);
    return static_cast<int>(peers_.Max(std::max(wanted, static_cast<double>(least))));
  }

  // Makes the longer one longer until it outlasts the shorter one on every rank.
  template <class Measure>
  double UntilWhole(int* count, const Measure& measure) {
    for (int tries = 1;; ++tries) {
      const Overlap overlap = measure(*count);
      if (peers_.Max(overlap.is_whole ? 0 : 1) == 0) return overlap.seconds;
      if (tries == kTries || *count > kMostUnits / 2) {
        is_partial_ = true;
        return overlap.seconds;
      }
      *count *= 2;
    }
  }

  double Compute(int inner) {
    return StreamTimer(compute_stream_).Time(inner, [this] { gemm_.Enqueue(compute_stream_); }) /
           inner;
  }

  double LoadAlone(int units) {
    HoldFor(units, load_stream_);
    load_begin_.Record(load_stream_);
    load_->Enqueue(units, load_stream_);
    load_end_.Record(load_stream_);
    load_->Await(load_end_);
    return SecondsBetween(load_begin_, load_end_);
  }

  // The load is on the device when the products begin: they are held until it has been enqueued.
  Overlap ComputeBeside(int inner, int units) {
    load_begin_.Record(load_stream_);
    load_->Enqueue(units, load_stream_);
    load_end_.Record(load_stream_);
    HoldFor(inner, compute_stream_);
    compute_begin_.Record(compute_stream_);
    for (int i = 0; i < inner; ++i) gemm_.Enqueue(compute_stream_);
    compute_end_.Record(compute_stream_);
    compute_end_.Wait();
    load_->Await(load_end_);
    return {SecondsBetween(compute_begin_, compute_end_),
            SecondsBetween(load_begin_, compute_begin_) >= 0 &&
                SecondsBetween(compute_end_, load_end_) >= 0};
  }

  Overlap LoadBeside(int products, int units) {
    compute_begin_.Record(compute_stream_);
    for (int i = 0; i < products; ++i) gemm_.Enqueue(compute_stream_);
    compute_end_.Record(compute_stream_);
    HoldFor(1, load_stream_);
    load_begin_.Record(load_stream_);
    load_->Enqueue(units, load_stream_);
    load_end_.Record(load_stream_);
    load_->Await(load_end_);
    compute_end_.Wait();
    return {SecondsBetween(load_begin_, load_end_),
            SecondsBetween(compute_begin_, load_begin_) >= 0 &&
                SecondsBetween(load_end_, compute_end_) >= 0};
  }

  Peers& peers_;
  Stream compute_stream_;
  Stream load_stream_{Urgency::kFirst};  // its blocks take the SMs that products leave
  Event compute_begin_, compute_end_, load_begin_, load_end_;
  LtGemm gemm_;
  std::unique_ptr<Load> load_;
  int units_ = 1, products_ = 1;  // of the longer one; grow as samples need it
  bool is_partial_ = false;
};

}  // namespace

std::unique_ptr<Prepared> PrepareCudaInterference(const LtHandle& handle, Communicators& all,
                                                  Peers& peers, const InterferenceTask& task) {
  std::unique_ptr<Load> load;
  if (const auto* copy = std::get_if<CopyLoad>(&task.beside)) {
    load = std::make_unique<CopyOnSmsLoad>(copy->sms);
  } else {
    const CollectiveTask& collective = std::get<CollectiveLoad>(task.beside).collective;
    load = std::make_unique<CollectiveLoadOnStream>(all.WithLimit(collective.max_ctas), collective);
  }
  return std::make_unique<Interference>(handle, peers, task.compute, std::move(load));
}

}  // namespace stepsim::measure
