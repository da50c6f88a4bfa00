#include "tools/calibrate/cuda/nvml.h"

#include <dlfcn.h>

#include <array>

namespace stepsim::measure {
namespace {

// Values of NVML's public interface.
constexpr unsigned kSmClock = 1, kMemoryClock = 2;
constexpr unsigned kGpuTemperature = 0;
constexpr int kSuccess = 0;
constexpr unsigned kVersionLength = 80;

struct Reason {
  unsigned long long bit;
  const char* text;
};
constexpr std::array<Reason, 7> kReasons = {{
    {0x2, "clocks set by the user"},
    {0x4, "power cap"},
    {0x8, "hardware slowdown"},
    {0x10, "sync boost"},
    {0x20, "software thermal slowdown"},
    {0x40, "hardware thermal slowdown"},
    {0x80, "hardware power brake"},
}};

constexpr double kMilli = 1e-3;

}  // namespace

struct Nvml::Functions {
  void* library = nullptr;
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*handle)(const char*, void**) = nullptr;
  int (*clock)(void*, unsigned, unsigned*) = nullptr;
  int (*max_clock)(void*, unsigned, unsigned*) = nullptr;
  int (*reasons)(void*, unsigned long long*) = nullptr;
  int (*power)(void*, unsigned*) = nullptr;
  int (*temperature)(void*, unsigned, unsigned*) = nullptr;
  int (*driver)(char*, unsigned) = nullptr;

  template <class Function>
  bool Find(const char* name, Function* function) {
    *function = reinterpret_cast<Function>(dlsym(library, name));
    return *function != nullptr;
  }
  bool FindAll() {
    return Find("nvmlInit_v2", &init) && Find("nvmlShutdown", &shutdown) &&
           Find("nvmlDeviceGetHandleByPciBusId_v2", &handle) &&
           Find("nvmlDeviceGetClockInfo", &clock) &&
           Find("nvmlDeviceGetMaxClockInfo", &max_clock) &&
           Find("nvmlDeviceGetCurrentClocksThrottleReasons", &reasons) &&
           Find("nvmlDeviceGetPowerUsage", &power) &&
           Find("nvmlDeviceGetTemperature", &temperature) &&
           Find("nvmlSystemGetDriverVersion", &driver);
  }
  ~Functions() {
    if (library != nullptr) dlclose(library);
  }
};

std::unique_ptr<Nvml> Nvml::Open(const std::string& pci_bus_id) {
  auto functions = std::make_unique<Functions>();
  functions->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (functions->library == nullptr || !functions->FindAll()) return nullptr;
  if (functions->init() != kSuccess) return nullptr;
  void* device = nullptr;
  if (functions->handle(pci_bus_id.c_str(), &device) != kSuccess) {
    functions->shutdown();
    return nullptr;
  }
  return std::unique_ptr<Nvml>(new Nvml(std::move(functions), device));
}

Nvml::Nvml(std::unique_ptr<Functions> functions, void* device)
    : functions_(std::move(functions)), device_(device) {}

Nvml::~Nvml() { functions_->shutdown(); }

GpuState Nvml::Read() const {
  GpuState state;
  const auto number = [](int code, unsigned value, double scale) {
    return code == kSuccess ? std::optional<double>(value * scale) : std::nullopt;
  };
  unsigned value = 0;
  int code = functions_->clock(device_, kSmClock, &value);
  state.sm_mhz = number(code, value, 1);
  code = functions_->max_clock(device_, kSmClock, &value);
  state.sm_max_mhz = number(code, value, 1);
  code = functions_->clock(device_, kMemoryClock, &value);
  state.memory_mhz = number(code, value, 1);
  code = functions_->power(device_, &value);
  state.power_watt = number(code, value, kMilli);
  code = functions_->temperature(device_, kGpuTemperature, &value);
  state.celsius = number(code, value, 1);
  if (functions_->reasons(device_, &state.slowed_by) != kSuccess) state.slowed_by = 0;
  return state;
}

std::string Nvml::DriverVersion() const {
  char text[kVersionLength] = {};
  return functions_->driver(text, kVersionLength) == kSuccess ? text : "";
}

std::string SlowdownText(unsigned long long bits) {
  std::string text;
  for (const Reason& reason : kReasons) {
    if ((bits & reason.bit) == 0) continue;
    text += text.empty() ? reason.text : std::string(", ") + reason.text;
  }
  return text;
}

}  // namespace stepsim::measure
