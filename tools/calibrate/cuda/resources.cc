#include "tools/calibrate/cuda/resources.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/calibrate/backend.h"
#include "tools/calibrate/cuda/check.h"

namespace stepsim::measure {
namespace {

constexpr double kUsable = 0.9;  // of the free memory: libraries take some later
constexpr std::size_t kMostSets = 64;
constexpr std::size_t kCaches = 3;  // so much is moved before a buffer's turn comes again

}  // namespace

DeviceMemory::DeviceMemory(std::size_t bytes) : bytes_(bytes) {
  std::size_t free = 0, total = 0;
  CheckCuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  if (static_cast<double>(bytes) > kUsable * static_cast<double>(free)) {
    throw CannotMeasure(fmt::format("needs {:.1f} GB of device memory, {:.1f} GB are free",
                                    static_cast<double>(bytes) / 1e9,
                                    static_cast<double>(free) / 1e9));
  }
  void* data = nullptr;
  CheckCuda(cudaMalloc(&data, std::max<std::size_t>(bytes, 1)), "cudaMalloc");
  data_ = static_cast<char*>(data);
}

DeviceMemory::~DeviceMemory() { Ignore(cudaFree(data_)); }

Stream::Stream(Urgency urgency) {
  int least = 0, greatest = 0;
  CheckCuda(cudaDeviceGetStreamPriorityRange(&least, &greatest),
            "cudaDeviceGetStreamPriorityRange");
  CheckCuda(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking,
                                         urgency == Urgency::kFirst ? greatest : least),
            "cudaStreamCreateWithPriority");
}

Stream::~Stream() { Ignore(cudaStreamDestroy(stream_)); }

void Stream::Synchronize() const {
  CheckCuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
}

Event::Event() { CheckCuda(cudaEventCreate(&event_), "cudaEventCreate"); }
Event::~Event() { Ignore(cudaEventDestroy(event_)); }

void Event::Record(const Stream& stream) const {
  CheckCuda(cudaEventRecord(event_, stream.get()), "cudaEventRecord");
}

bool Event::IsDone() const {
  const cudaError_t code = cudaEventQuery(event_);
  if (code == cudaErrorNotReady) return false;
  CheckCuda(code, "cudaEventQuery");
  return true;
}

void Event::Wait() const { CheckCuda(cudaEventSynchronize(event_), "cudaEventSynchronize"); }

double SecondsBetween(const Event& begin, const Event& end) {
  float milliseconds = 0;
  CheckCuda(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()), "cudaEventElapsedTime");
  return static_cast<double>(milliseconds) * 1e-3;
}

int DeviceAttribute(cudaDeviceAttr attribute) {
  int device = 0, value = 0;
  CheckCuda(cudaGetDevice(&device), "cudaGetDevice");
  CheckCuda(cudaDeviceGetAttribute(&value, attribute, device), "cudaDeviceGetAttribute");
  return value;
}

std::size_t SetsBeyondCache(std::size_t bytes_of_one) {
  const auto cache = static_cast<std::size_t>(DeviceAttribute(cudaDevAttrL2CacheSize));
  return std::clamp<std::size_t>(kCaches * cache / std::max<std::size_t>(bytes_of_one, 1) + 1, 2,
                                 kMostSets);
}

}  // namespace stepsim::measure
