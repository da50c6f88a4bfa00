// Which clock does the GPU run at, and what slows it down? NVIDIA's management library, opened at
// run time and only read.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace stepsim::measure {

struct GpuState {
  std::optional<double> sm_mhz, sm_max_mhz, memory_mhz, power_watt, celsius;
  unsigned long long slowed_by = 0;  // NVML's bits
};

class Nvml {
 public:
  // nullptr where the library or the device is not to be had: then nothing is recorded.
  static std::unique_ptr<Nvml> Open(const std::string& pci_bus_id);
  ~Nvml();
  GpuState Read() const;
  std::string DriverVersion() const;

 private:
  struct Functions;
  Nvml(std::unique_ptr<Functions> functions, void* device);
  std::unique_ptr<Functions> functions_;
  void* device_;
};

// "power cap, thermal slowdown"; "" when no bit means that the clock is held down.
std::string SlowdownText(unsigned long long bits);

}  // namespace stepsim::measure
