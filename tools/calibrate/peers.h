// Who measures with us, and how do we agree? Small numbers and texts between the processes; what is
// measured goes through NCCL or MPI.
#pragma once

#include <memory>
#include <string>

namespace stepsim::measure {

class Peers {
 public:
  virtual ~Peers() = default;
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  int local_rank() const { return local_rank_; }
  int nodes() const { return nodes_; }

  // All ranks call it; throws MeasureError when one of them has ended or does not answer in time.
  virtual double Max(double value) = 0;
  virtual std::string FromFirst(const std::string& text) = 0;  // rank 0's text

  // Which rank has ended, as a sentence; "" while all are there. May be called by another thread.
  virtual std::string Lost() { return ""; }
  // This rank gives up: the others must not wait for it. May end the process with `message`.
  virtual void Abandon(const std::string& /*message*/) {}
  // The last call: peers that end from now on are not lost.
  virtual void Finish() {}

 protected:
  int rank_ = 0, ranks_ = 1, local_rank_ = 0, nodes_ = 1;
};

// One process.
class AlonePeers : public Peers {
 public:
  double Max(double value) override { return value; }
  std::string FromFirst(const std::string& text) override { return text; }
};

}  // namespace stepsim::measure
