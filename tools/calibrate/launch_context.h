// How many processes were started, and which one is this? From the environment that torchrun, srun
// and mpirun set.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace stepsim::measure {

enum class Launcher { kNone, kEnvironment, kSlurm, kMpi };

struct LaunchContext {
  Launcher launcher = Launcher::kNone;
  int rank = 0, ranks = 1, local_rank = 0;
  std::string master_address;
  int master_port = 0;
};

using Environment = std::function<std::optional<std::string>(const std::string& name)>;
Environment ProcessEnvironment();

// RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT come first; then an MPI launcher, if this
// program was built with MPI; then SLURM_PROCID with MASTER_ADDR. Throws ConfigError that names the
// variable, what it holds and what is allowed.
LaunchContext ReadLaunchContext(const Environment& environment, bool has_mpi);

}  // namespace stepsim::measure
