#include "tools/calibrate/cuda/cuda_backend.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>

#include "tools/calibrate/cuda/check.h"
#include "tools/calibrate/cuda/cuda_tasks.h"
#include "tools/calibrate/cuda/interference.h"
#include "tools/calibrate/cuda/nccl_group.h"
#include "tools/calibrate/cuda/nvml.h"

namespace stepsim::measure {
namespace {

// 13000 -> "13.0"
std::string CudaVersion(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

int ChooseDevice(const Peers& peers) {
  int count = 0;
  CheckCuda(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  // A launcher may show each process its own GPU only.
  const int device = count == 1 ? 0 : peers.local_rank();
  if (device >= count) {
    throw MeasureError(
        fmt::format("rank {} is process {} on its node, which has {} GPUs; allowed: "
                    "one process per GPU",
                    peers.rank(), peers.local_rank() + 1, count));
  }
  CheckCuda(cudaSetDevice(device), "cudaSetDevice");
  return device;
}

std::string PciBusId(int device) {
  char id[32] = {};
  CheckCuda(cudaDeviceGetPCIBusId(id, sizeof id, device), "cudaDeviceGetPCIBusId");
  return id;
}

class CudaBackend : public Backend {
 public:
  explicit CudaBackend(Peers& peers)
      : peers_(peers),
        device_(ChooseDevice(peers)),
        nvml_(Nvml::Open(PciBusId(device_))),
        communicators_(peers) {
    CheckCuda(cudaGetDeviceProperties(&properties_, device_), "cudaGetDeviceProperties");
  }

  DeviceFacts Facts() const override {
    int runtime = 0, driver = 0;
    CheckCuda(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
    CheckCuda(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
    DeviceFacts facts;
    facts.backend = "cuda";
    facts.device = properties_.name;
    facts.libraries = {{"cudart", CudaVersion(runtime)},
                       {"cuda_driver_api", CudaVersion(driver)},
                       {"cublaslt", std::to_string(cublasLtGetVersion())},
                       {"nccl", NcclVersion()}};
    facts.clocks["sms"] = properties_.multiProcessorCount;
    if (nvml_ == nullptr) return facts;
    facts.driver = nvml_->DriverVersion();
    const GpuState state = nvml_->Read();
    const auto add = [&](const char* name, const std::optional<double>& value) {
      if (value) facts.clocks[name] = *value;
    };
    add("sm_mhz", state.sm_mhz);
    add("sm_max_mhz", state.sm_max_mhz);
    add("memory_mhz", state.memory_mhz);
    add("power_watt", state.power_watt);
    add("celsius", state.celsius);
    return facts;
  }

  DeviceLimits Limits() const override {
    DeviceLimits limits;
    limits.sms = properties_.multiProcessorCount;
    limits.dtypes = {"bf16", "fp16", "tf32"};
    if (properties_.major * 10 + properties_.minor >= 89)
      limits.dtypes.insert(limits.dtypes.begin() + 2, "fp8");
    limits.has_cta_limit = true;
    return limits;
  }

  std::unique_ptr<Prepared> Prepare(const MeasureTask& task) override {
    return std::visit([this](const auto& t) { return Make(t); }, task);
  }

  std::string Disturbance() override {
    if (nvml_ == nullptr) return "";
    const GpuState state = nvml_->Read();
    const std::string text = SlowdownText(state.slowed_by);
    if (text.empty()) return "";
    return fmt::format("throttled: {} ({:.0f} of {:.0f} MHz, {:.0f} W, {:.0f} C)", text,
                       state.sm_mhz.value_or(0), state.sm_max_mhz.value_or(0),
                       state.power_watt.value_or(0), state.celsius.value_or(0));
  }

 private:
  std::unique_ptr<Prepared> Make(const LaunchTask& task) { return PrepareCudaLaunch(task); }
  std::unique_ptr<Prepared> Make(const GemmTask& task) { return PrepareCudaGemm(handle_, task); }
  std::unique_ptr<Prepared> Make(const MemoryTask& task) { return PrepareCudaMemory(task); }
  std::unique_ptr<Prepared> Make(const AttentionTask& task) {
    return PrepareCudaAttention(handle_, task);
  }
  std::unique_ptr<Prepared> Make(const CollectiveTask& task) {
    return PrepareNcclCollective(communicators_, task);
  }
  std::unique_ptr<Prepared> Make(const InterferenceTask& task) {
    return PrepareCudaInterference(handle_, communicators_, peers_, task);
  }

  Peers& peers_;
  int device_;
  std::unique_ptr<Nvml> nvml_;
  cudaDeviceProp properties_{};
  LtHandle handle_;
  Communicators communicators_;
};

}  // namespace

std::string MissingCuda() {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) {
    return "no NVIDIA driver is installed here (libcuda.so.1 cannot be opened): --backend cuda "
           "needs "
           "an NVIDIA GPU with its driver; --backend mpi measures CPUs";
  }
  dlclose(driver);
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaSuccess && count > 0) return "";
  return fmt::format(
      "the NVIDIA driver finds no GPU that can be used: cudaGetDeviceCount returned "
      "{} ({}): {}; --backend mpi measures CPUs",
      static_cast<int>(code), cudaGetErrorName(code), cudaGetErrorString(code));
}

std::unique_ptr<Backend> OpenCudaBackend(Peers& peers) {
  return std::make_unique<CudaBackend>(peers);
}

}  // namespace stepsim::measure
