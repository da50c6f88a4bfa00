// How do processes agree without MPI? Rank 0 listens, the others connect: one star of sockets for
// numbers and short texts.
//
//   TcpPeers peers(context, 29501, 120);
//   double slowest = peers.Max(seconds);
#pragma once

#include <string>
#include <vector>

#include "tools/calibrate/launch_context.h"
#include "tools/calibrate/peers.h"

namespace stepsim::measure {

// An open file descriptor.
class Socket {
 public:
  explicit Socket(int fd = -1) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Socket& operator=(Socket&& other) noexcept;
  ~Socket();
  int fd() const { return fd_; }

 private:
  int fd_;
};

class TcpPeers : public Peers {
 public:
  // Waits until all ranks are there; `patience_s` bounds this and every later wait. Throws
  // MeasureError.
  TcpPeers(const LaunchContext& context, int port, double patience_s);

  double Max(double value) override;
  std::string FromFirst(const std::string& text) override;
  std::string Lost() override;

 private:
  struct Peer {
    Socket socket;
    int rank = 0;
    std::string host;
  };

  void AcceptAll(int port);
  bool Greet(Socket socket);  // false: this is none of ours
  void Connect(const std::string& address, int port);
  void Send(const Peer& peer, const std::string& text) const;
  std::string Receive(const Peer& peer) const;
  [[noreturn]] void Fail(const Peer& peer, const std::string& what) const;

  double patience_s_;
  std::vector<Peer> peers_;  // rank 0: all others by rank; others: rank 0
};

}  // namespace stepsim::measure
