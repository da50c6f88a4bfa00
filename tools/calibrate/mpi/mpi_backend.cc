#include "tools/calibrate/mpi/mpi_backend.h"

#include <fmt/format.h>
#include <mpi.h>
#include <sys/utsname.h>

#include <algorithm>
#include <fstream>
#include <thread>

#include "tools/calibrate/mpi/cpu_kernels.h"
#include "tools/calibrate/mpi/cpu_tasks.h"
#include "tools/calibrate/mpi/mpi_peers.h"
#include "tools/calibrate/mpi/mpi_tasks.h"

namespace stepsim::measure {
namespace {

// The first value of a key of /proc/cpuinfo.
std::string CpuInfo(const std::string& key) {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    const std::size_t colon = line.find(':');
    if (line.rfind(key, 0) == 0 && colon != std::string::npos && colon + 2 <= line.size()) {
      return line.substr(colon + 2);
    }
  }
  return "";
}

std::string Kernel() {
  utsname name{};
  return uname(&name) == 0 ? fmt::format("{} {}", name.sysname, name.release) : "";
}

class MpiBackend : public Backend {
 public:
  explicit MpiBackend(Peers& peers) : peers_(peers) {
    int is_running = 0;
    CheckMpi(MPI_Initialized(&is_running), "MPI_Initialized");
    if (peers.ranks() > 1 && is_running == 0) {
      throw MeasureError(
          "the mpi backend on several ranks needs mpirun or an srun with MPI; "
          "torchrun cannot start it");
    }
  }

  DeviceFacts Facts() const override {
    DeviceFacts facts;
    facts.backend = "mpi";
    facts.device = CpuInfo("model name");
    if (facts.device.empty()) facts.device = "CPU";
    facts.driver = Kernel();
    facts.libraries = {{"mpi", MpiVersion()}, {"eigen", EigenVersion()}};
    const std::string mhz = CpuInfo("cpu MHz");
    if (!mhz.empty()) facts.clocks["cpu_mhz"] = std::strtod(mhz.c_str(), nullptr);
    return facts;
  }

  DeviceLimits Limits() const override {
    DeviceLimits limits;
    limits.sms = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    limits.dtypes = {"fp32"};  // fp64 on request: no network trains in it
    limits.gemm_edge = 256;
    limits.memory_kernel_bytes = 1 << 26;
    limits.message_bytes = 1 << 24;
    limits.attention_sequence = 256;
    limits.attention_heads = 2;
    limits.has_polling = true;
    return limits;
  }

  std::unique_ptr<Prepared> Prepare(const MeasureTask& task) override {
    try {
      return std::visit([this](const auto& t) { return Make(t); }, task);
    } catch (const std::bad_alloc&) {
      throw CannotMeasure("needs more memory than there is");
    }
  }

 private:
  std::unique_ptr<Prepared> Make(const LaunchTask& task) const { return PrepareLaunch(task); }
  std::unique_ptr<Prepared> Make(const GemmTask& task) const { return PrepareGemm(task); }
  std::unique_ptr<Prepared> Make(const MemoryTask& task) const { return PrepareMemory(task); }
  std::unique_ptr<Prepared> Make(const AttentionTask& task) const { return PrepareAttention(task); }
  std::unique_ptr<Prepared> Make(const CollectiveTask& task) const {
    NeedRanks();
    return PrepareMpiCollective(task);
  }
  std::unique_ptr<Prepared> Make(const InterferenceTask& task) const {
    if (const auto* copy = std::get_if<CopyLoad>(&task.beside)) {
      return PrepareCopyBeside(task.compute, *copy);
    }
    NeedRanks();
    return PrepareMpiBeside(task.compute, std::get<CollectiveLoad>(task.beside));
  }
  void NeedRanks() const {
    if (peers_.ranks() < 2) throw CannotMeasure("needs two ranks");
  }

  Peers& peers_;
};

}  // namespace

std::unique_ptr<Backend> OpenMpiBackend(Peers& peers) {
  return std::make_unique<MpiBackend>(peers);
}

}  // namespace stepsim::measure
