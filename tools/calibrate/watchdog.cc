#include "tools/calibrate/watchdog.h"

#include <fmt/format.h>

namespace stepsim::measure {
namespace {

constexpr std::chrono::milliseconds kBetweenLooks(200);

}  // namespace

Watchdog::Watchdog(std::function<std::string()> lost, double patience_s,
                   std::function<void(const std::string&)> on_trouble)
    : lost_(std::move(lost)),
      patience_s_(patience_s),
      on_trouble_(std::move(on_trouble)),
      thread_([this] { Watch(); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_ended_ = true;
  }
  ended_.notify_one();
  thread_.join();
}

void Watchdog::Pat() {
  const std::lock_guard<std::mutex> lock(mutex_);
  pat_ = Clock::now();
}

std::string Watchdog::Trouble() {
  std::string lost = lost_();
  if (!lost.empty()) return lost;
  const std::chrono::duration<double> quiet = Clock::now() - pat_;
  if (quiet.count() < patience_s_) return "";
  return fmt::format(
      "nothing has happened for {:.0f} s (--timeout): a rank, the device or the "
      "network hangs",
      quiet.count());
}

void Watchdog::Watch() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!ended_.wait_for(lock, kBetweenLooks, [this] { return is_ended_; })) {
    const std::string trouble = Trouble();
    if (trouble.empty()) continue;
    on_trouble_(trouble);
    return;
  }
}

}  // namespace stepsim::measure
