// What belongs to a measurement on the device: memory, streams, events. Freed when they go.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace stepsim::measure {

// Device memory, filled with random numbers or zeros before anything is timed.
class DeviceMemory {
 public:
  // Throws CannotMeasure when so much is not free.
  explicit DeviceMemory(std::size_t bytes);
  DeviceMemory(DeviceMemory&& other) noexcept : data_(other.data_), bytes_(other.bytes_) {
    other.data_ = nullptr;
  }
  DeviceMemory& operator=(DeviceMemory&&) = delete;
  ~DeviceMemory();
  char* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  char* data_ = nullptr;
  std::size_t bytes_;
};

enum class Urgency { kUsual, kFirst };  // kFirst: its kernels get free SMs before others

class Stream {
 public:
  explicit Stream(Urgency urgency = Urgency::kUsual);
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream();
  cudaStream_t get() const { return stream_; }
  void Synchronize() const;

 private:
  cudaStream_t stream_ = nullptr;
};

class Event {
 public:
  Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event();
  cudaEvent_t get() const { return event_; }
  void Record(const Stream& stream) const;
  bool IsDone() const;
  void Wait() const;  // of the host

 private:
  cudaEvent_t event_ = nullptr;
};

// From one event to a later one; negative when the order is the other way round.
double SecondsBetween(const Event& begin, const Event& end);

int DeviceAttribute(cudaDeviceAttr attribute);  // of the current device

// How many sets of buffers of this size rotate, so that none is in the L2 cache when its turn
// comes.
std::size_t SetsBeyondCache(std::size_t bytes_of_one);

}  // namespace stepsim::measure
