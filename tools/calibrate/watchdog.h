// What if a call never returns because a peer is gone? A thread looks after the others and the
// time, and ends the process with a message. (A rank that waits inside NCCL or MPI cannot look
// itself.)
//
//   Watchdog watchdog([&] { return peers.Lost(); }, 120, die);
//   watchdog.Pat();   // something has been achieved
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace stepsim::measure {

class Watchdog {
 public:
  // `on_trouble` is called once, by the thread, with what `lost` says or how long nothing happened.
  Watchdog(std::function<std::string()> lost, double patience_s,
           std::function<void(const std::string&)> on_trouble);
  ~Watchdog();
  void Pat();

 private:
  using Clock = std::chrono::steady_clock;
  void Watch();
  std::string Trouble();

  std::function<std::string()> lost_;
  double patience_s_;
  std::function<void(const std::string&)> on_trouble_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool is_ended_ = false;
  Clock::time_point pat_ = Clock::now();
  std::thread thread_;  // the last member: it uses the others
};

}  // namespace stepsim::measure
