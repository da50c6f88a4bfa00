// How are collectives run? One communicator over all ranks per limit of CTAs.
#pragma once

#include <nccl.h>

#include <map>
#include <memory>

#include "tools/calibrate/backend.h"
#include "tools/calibrate/cuda/resources.h"
#include "tools/calibrate/peers.h"

namespace stepsim::measure {

std::string NcclVersion();  // of the library that runs: "2.28.9"

class Communicator {
 public:
  Communicator(Peers& peers, int max_ctas);  // all ranks; blocks until they are there
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  ~Communicator();

  ncclComm_t get() const { return comm_; }
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  // Waits for what was enqueued before `event`; ends the communicator and throws MeasureError when
  // NCCL reports an error meanwhile.
  void Await(const Event& event);

 private:
  void Abort();

  ncclComm_t comm_ = nullptr;
  int rank_, ranks_;
  int exceptions_;  // in flight when it was made
};

class Communicators {
 public:
  explicit Communicators(Peers& peers) : peers_(peers) {}
  Communicator& WithLimit(int max_ctas);  // all ranks in the same order

 private:
  Peers& peers_;
  std::map<int, std::unique_ptr<Communicator>> all_;
};

// One collective with buffers of its own.
class NcclCall {
 public:
  NcclCall(Communicator& communicator, const CollectiveTask& task);  // throws CannotMeasure
  void Enqueue(const Stream& stream) const;

 private:
  void ToAll(const float* from, float* to, const Stream& stream) const;
  void ToNext(const float* from, float* to, const Stream& stream) const;

  Communicator& communicator_;
  CollectiveTask task_;
  std::size_t part_;  // elements of one rank's part
  DeviceMemory send_, receive_;
};

std::unique_ptr<Prepared> PrepareNcclCollective(Communicators& all, const CollectiveTask& task);

}  // namespace stepsim::measure
