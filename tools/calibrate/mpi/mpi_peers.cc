#include "tools/calibrate/mpi/mpi_peers.h"

#include <mpi.h>

#include <exception>
#include <iostream>
#include <vector>

#include "tools/calibrate/mpi/mpi_tasks.h"

namespace stepsim::measure {
namespace {

class MpiPeers : public Peers {
 public:
  MpiPeers() {
    int level = 0;
    CheckMpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level), "MPI_Init_thread");
    CheckMpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    CheckMpi(MPI_Comm_dup(MPI_COMM_WORLD, &control_), "MPI_Comm_dup");
    CheckMpi(MPI_Comm_rank(control_, &rank_), "MPI_Comm_rank");
    CheckMpi(MPI_Comm_size(control_, &ranks_), "MPI_Comm_size");
    MPI_Comm node = MPI_COMM_NULL;
    CheckMpi(MPI_Comm_split_type(control_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &node),
             "MPI_Comm_split_type");
    CheckMpi(MPI_Comm_rank(node, &local_rank_), "MPI_Comm_rank");
    const int is_first = local_rank_ == 0 ? 1 : 0;
    CheckMpi(MPI_Allreduce(&is_first, &nodes_, 1, MPI_INT, MPI_SUM, control_), "MPI_Allreduce");
    CheckMpi(MPI_Comm_free(&node), "MPI_Comm_free");
  }
  MpiPeers(const MpiPeers&) = delete;
  MpiPeers& operator=(const MpiPeers&) = delete;
  ~MpiPeers() override {
    MPI_Comm_free(&control_);
    MPI_Finalize();
  }

  double Max(double value) override {
    double most = 0;
    CheckMpi(MPI_Allreduce(&value, &most, 1, MPI_DOUBLE, MPI_MAX, control_), "MPI_Allreduce");
    return most;
  }

  std::string FromFirst(const std::string& text) override {
    int length = static_cast<int>(text.size());
    CheckMpi(MPI_Bcast(&length, 1, MPI_INT, 0, control_), "MPI_Bcast");
    std::string received = text;
    received.resize(static_cast<std::size_t>(length));
    CheckMpi(MPI_Bcast(received.data(), length, MPI_CHAR, 0, control_), "MPI_Bcast");
    return received;
  }

  void Abandon(const std::string& message) override {
    std::cerr << "error: rank " << rank_ << ": " << message << std::endl;
    MPI_Abort(MPI_COMM_WORLD, 1);  // ends all ranks
  }

  void Finish() override { CheckMpi(MPI_Barrier(control_), "MPI_Barrier"); }

 private:
  MPI_Comm control_ = MPI_COMM_NULL;  // nothing that is measured goes over it
};

}  // namespace

std::string MpiVersion() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string whole(text);
  return whole.substr(0, whole.find_first_of(",\n"));
}

std::unique_ptr<Peers> MakeMpiPeers() { return std::make_unique<MpiPeers>(); }

}  // namespace stepsim::measure
