#include "tools/calibrate/launch_context.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "sim/base/diagnostics.h"
#include "sim/base/units.h"

namespace stepsim::measure {
namespace {

constexpr int kMostRanks = 1 << 20;
constexpr int kDefaultPort = 29500;  // torchrun's
constexpr int kLastPort = 65535;

// What one launcher calls things.
struct Names {
  Launcher launcher;
  const char *rank, *ranks, *local_rank;
};
constexpr Names kTorchrun = {Launcher::kEnvironment, "RANK", "WORLD_SIZE", "LOCAL_RANK"};
constexpr std::array<Names, 3> kMpi = {{
    {Launcher::kMpi, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
    {Launcher::kMpi, "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
    {Launcher::kMpi, "PMIX_RANK", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"},
}};
// Only srun sets the number of tasks of a step: a batch script by itself is one process.
constexpr Names kSlurm = {Launcher::kSlurm, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS",
                          "SLURM_LOCALID"};

class Reader {
 public:
  explicit Reader(const Environment& environment) : environment_(environment) {}

  int Number(const char* name, int otherwise, int least, int most) {
    const auto text = environment_(name);
    if (!text) return otherwise;
    const auto value = ParseInteger(*text);
    if (value && *value >= least && *value <= most) return static_cast<int>(*value);
    problems_.Add({}, fmt::format("{}: found '{}', allowed: a whole number from {} to {}", name,
                                  *text, least, most));
    return otherwise;
  }
  void Add(std::string message) { problems_.Add({}, std::move(message)); }
  void ThrowIfAny() const { problems_.ThrowIfAny(); }

 private:
  const Environment& environment_;
  Diagnostics problems_;
};

LaunchContext Read(const Names& names, const Environment& environment) {
  Reader reader(environment);
  LaunchContext context;
  context.launcher = names.launcher;
  context.ranks = reader.Number(names.ranks, 1, 1, kMostRanks);
  context.rank = reader.Number(names.rank, 0, 0, context.ranks - 1);
  context.local_rank = reader.Number(names.local_rank, context.rank, 0, context.ranks - 1);
  context.master_address = environment("MASTER_ADDR").value_or("");
  context.master_port = reader.Number("MASTER_PORT", kDefaultPort, 1, kLastPort);
  if (context.ranks > 1 && context.launcher != Launcher::kMpi && context.master_address.empty()) {
    reader.Add(
        fmt::format("MASTER_ADDR: not set, but {} says {} processes; allowed: the host name "
                    "of rank 0 (torchrun sets it)",
                    names.ranks, context.ranks));
  }
  reader.ThrowIfAny();
  return context;
}

}  // namespace

Environment ProcessEnvironment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

LaunchContext ReadLaunchContext(const Environment& environment, bool has_mpi) {
  const auto has = [&](const Names& names) {
    return environment(names.rank).has_value() && environment(names.ranks).has_value();
  };
  if (has(kTorchrun)) return Read(kTorchrun, environment);
  const auto mpi = std::find_if(kMpi.begin(), kMpi.end(), has);
  if (mpi != kMpi.end() && has_mpi) return Read(*mpi, environment);
  if (has(kSlurm)) return Read(kSlurm, environment);
  if (mpi == kMpi.end()) return {};
  // Started by mpirun, built without MPI: the same variables, and MASTER_ADDR for the meeting
  // point.
  Names names = *mpi;
  names.launcher = Launcher::kEnvironment;
  return Read(names, environment);
}

}  // namespace stepsim::measure
