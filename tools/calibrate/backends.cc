#include "tools/calibrate/backends.h"

#include <array>

#ifdef STEPSIM_HAS_CUDA
#include "tools/calibrate/cuda/cuda_backend.h"
#endif
#ifdef STEPSIM_HAS_MPI
#include "tools/calibrate/mpi/mpi_backend.h"
#include "tools/calibrate/mpi/mpi_peers.h"
#endif

namespace stepsim::measure {
namespace {

#ifndef STEPSIM_HAS_CUDA
std::string MissingCuda() {
  return "this stepsim-calibrate was built without CUDA: install the CUDA toolkit and NCCL and "
         "build "
         "it again, or take --backend mpi, which measures CPUs";
}
std::unique_ptr<Backend> OpenCudaBackend(Peers&) { throw MeasureError(MissingCuda()); }
#endif

#ifdef STEPSIM_HAS_MPI
std::string MissingMpi() { return ""; }
#else
std::string MissingMpi() {
  return "this stepsim-calibrate was built without MPI: install libopenmpi-dev and build it again";
}
std::unique_ptr<Backend> OpenMpiBackend(Peers&) { throw MeasureError(MissingMpi()); }
#endif

constexpr std::array kBackends = {
    BackendRow{"cuda", "NVIDIA GPUs: cuBLASLt, NCCL", MissingCuda, OpenCudaBackend},
    BackendRow{"mpi", "CPUs: Eigen, MPI", MissingMpi, OpenMpiBackend},
};

}  // namespace

std::span<const BackendRow> Backends() { return kBackends; }

#ifdef STEPSIM_HAS_MPI
bool HasMpi() { return true; }
std::unique_ptr<Peers> OpenMpiPeers() { return MakeMpiPeers(); }
#else
bool HasMpi() { return false; }
std::unique_ptr<Peers> OpenMpiPeers() { throw MeasureError(MissingMpi()); }
#endif

}  // namespace stepsim::measure
