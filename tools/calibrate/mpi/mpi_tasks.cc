#include "tools/calibrate/mpi/mpi_tasks.h"

#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tools/calibrate/mpi/cpu_kernels.h"
#include "tools/calibrate/mpi/cpu_tasks.h"

namespace stepsim::measure {
namespace {

int RanksOfWorld() {
  int ranks = 1;
  CheckMpi(MPI_Comm_size(MPI_COMM_WORLD, &ranks), "MPI_Comm_size");
  return ranks;
}

// Elements of the larger buffer, a multiple of the ranks.
int CountOf(const CollectiveTask& task, int ranks) {
  const std::int64_t part = task.bytes / static_cast<std::int64_t>(sizeof(float)) / ranks;
  if (part < 1 || part * ranks > std::numeric_limits<int>::max()) {
    throw CannotMeasure(fmt::format(
        "found {} bytes, allowed with MPI on {} ranks: from {} to {}", task.bytes, ranks,
        ranks * static_cast<int>(sizeof(float)),
        std::int64_t{std::numeric_limits<int>::max()} * static_cast<std::int64_t>(sizeof(float))));
  }
  return static_cast<int>(part) * ranks;
}

class Collective : public Prepared {
 public:
  explicit Collective(const CollectiveTask& task)
      : task_(task),
        ranks_(RanksOfWorld()),
        count_(CountOf(task, ranks_)),
        from_(RandomNumbers(static_cast<std::size_t>(count_), 1)),
        to_(static_cast<std::size_t>(count_)) {
    CheckMpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
  }

  Sample Take(int inner) override {
    CheckMpi(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    const double begin = WallSeconds();
    for (int i = 0; i < inner; ++i) Call();
    return {(WallSeconds() - begin) / inner};
  }

 private:
  const void* In() const { return task_.in_place ? MPI_IN_PLACE : from_.data(); }

  void Call() {
    const MPI_Comm world = MPI_COMM_WORLD;
    const int part = count_ / ranks_;
    switch (task_.op) {
      case CollectiveKind::kAllReduce:
        CheckMpi(MPI_Allreduce(In(), to_.data(), count_, MPI_FLOAT, MPI_MAX, world),
                 "MPI_Allreduce");
        break;
      case CollectiveKind::kAllGather:
        CheckMpi(MPI_Allgather(In(), part, MPI_FLOAT, to_.data(), part, MPI_FLOAT, world),
                 "MPI_Allgather");
        break;
      case CollectiveKind::kReduceScatter:
        CheckMpi(MPI_Reduce_scatter_block(In(), to_.data(), part, MPI_FLOAT, MPI_MAX, world),
                 "MPI_Reduce_scatter_block");
        break;
      case CollectiveKind::kAllToAll:
        CheckMpi(MPI_Alltoall(In(), part, MPI_FLOAT, to_.data(), part, MPI_FLOAT, world),
                 "MPI_Alltoall");
        break;
      case CollectiveKind::kSendRecv: {
        constexpr int kTag = 1;
        const int next = (rank_ + 1) % ranks_, before = (rank_ + ranks_ - 1) % ranks_;
        CheckMpi(MPI_Sendrecv(from_.data(), count_, MPI_FLOAT, next, kTag, to_.data(), count_,
                              MPI_FLOAT, before, kTag, world, MPI_STATUS_IGNORE),
                 "MPI_Sendrecv");
        break;
      }
    }
  }

  CollectiveTask task_;
  int rank_ = 0, ranks_;
  int count_;
  std::vector<float> from_, to_;
};

// A product beside MPI_Iallreduce. Polled: MPI_Test after every product, until the collective is
// done. Not polled: as many products as fill the collective's time alone, then MPI_Wait.
class Beside : public Prepared {
 public:
  Beside(const GemmTask& compute, const CollectiveLoad& load)
      : gemm_(MakeGemm(compute)),
        load_(load),
        count_(CountOf(load.collective, RanksOfWorld())),
        to_(RandomNumbers(static_cast<std::size_t>(count_), 1)) {
    if (load.collective.op != CollectiveKind::kAllReduce) {
      throw CannotMeasure("allowed beside a product with MPI: all_reduce");
    }
  }

  Sample Take(int inner) override {
    Synchronize();
    double begin = WallSeconds();
    for (int i = 0; i < inner; ++i) gemm_->Run();
    const double compute_alone = (WallSeconds() - begin) / inner;
    Synchronize();
    begin = WallSeconds();
    MPI_Request request = Start();
    CheckMpi(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
    const double alone = WallSeconds() - begin;
    Synchronize();
    begin = WallSeconds();
    request = Start();
    const int products =
        load_.is_polled.value_or(true) ? RunPolled(&request) : RunAtLeast(alone / compute_alone);
    const double compute_beside = (WallSeconds() - begin) / products;
    CheckMpi(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");  // at once, if it is done
    return {compute_alone, compute_beside, alone, WallSeconds() - begin};
  }

 private:
  static void Synchronize() { CheckMpi(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier"); }

  MPI_Request Start() {
    MPI_Request request = MPI_REQUEST_NULL;
    const void* in = load_.collective.in_place ? MPI_IN_PLACE : from_.data();
    CheckMpi(MPI_Iallreduce(in, to_.data(), count_, MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD, &request),
             "MPI_Iallreduce");
    return request;
  }

  int RunPolled(MPI_Request* request) {
    int products = 0;
    for (int is_done = 0; is_done == 0; ++products) {
      gemm_->Run();
      CheckMpi(MPI_Test(request, &is_done, MPI_STATUS_IGNORE), "MPI_Test");
    }
    return products;
  }

  int RunAtLeast(double ratio) {
    constexpr double kMostProducts = 10000;
    const int products = static_cast<int>(std::clamp(std::ceil(ratio), 1.0, kMostProducts));
    for (int i = 0; i < products; ++i) gemm_->Run();
    return products;
  }

  std::unique_ptr<GemmWork> gemm_;
  CollectiveLoad load_;
  int count_;
  std::vector<float> from_, to_;
};

}  // namespace

void CheckMpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw MeasureError(fmt::format("{} returned {}: {}", call, code, text));
}

std::unique_ptr<Prepared> PrepareMpiCollective(const CollectiveTask& task) {
  return std::make_unique<Collective>(task);
}

std::unique_ptr<Prepared> PrepareMpiBeside(const GemmTask& compute, const CollectiveLoad& load) {
  return std::make_unique<Beside>(compute, load);
}

}  // namespace stepsim::measure
