#include "tools/sweep/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <string>
#include <utility>

#include "sim/base/units.h"

namespace stepsim {
namespace {

constexpr double kBarWait = 0.1;          // seconds between two pictures of the bar
constexpr double kFirstLineWait = 5;      // and between two lines,
constexpr double kLongestLineWait = 300;  // each time twice as long

std::string Count(std::uint64_t count) {
  std::string digits = fmt::format("{}", count);
  for (std::size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, ",");
  return digits;
}

std::string Time(double seconds) {
  constexpr double kMinute = 60, kHour = 3600;
  if (seconds < kMinute) return fmt::format("{:.1f} s", seconds);
  if (seconds < kHour) return fmt::format("{:.0f} min", seconds / kMinute);
  return fmt::format("{:.1f} h", seconds / kHour);
}

}  // namespace

Progress::Progress(std::ostream& out, std::uint64_t total, std::uint64_t done, Options options)
    : out_(out),
      total_(total),
      before_(done),
      options_(std::move(options)),
      begin_(options_.seconds()),
      done_(done),
      shown_(begin_),
      wait_(options_.is_terminal ? kBarWait : kFirstLineWait) {}

void Progress::Advance(std::uint64_t points) {
  done_ += points;
  if (options_.is_quiet || options_.seconds() - shown_ < wait_) return;
  Show();
  shown_ = options_.seconds();
  if (!options_.is_terminal) wait_ = std::min(wait_ * 2, kLongestLineWait);
}

std::string Progress::Rate(double elapsed) const {
  const double rate = static_cast<double>(done_ - before_) / elapsed;
  return rate >= 10 ? Count(static_cast<std::uint64_t>(rate)) + "/s"
                    : fmt::format("{:.2g}/s", rate);
}

std::string Progress::Left(double elapsed) const {
  const double rate = static_cast<double>(done_ - before_) / elapsed;
  return rate > 0 ? Time(static_cast<double>(total_ - done_) / rate) : "?";
}

void Progress::Show() {
  const double elapsed = options_.seconds() - begin_;
  if (!(elapsed > 0)) return;
  if (!options_.is_terminal) {
    out_ << fmt::format("{} of {} points, {}, {} left\n", Count(done_), Count(total_),
                        Rate(elapsed), Left(elapsed))
         << std::flush;
    return;
  }
  constexpr std::size_t kWidth = 30;
  const std::size_t full = total_ == 0 ? kWidth : static_cast<std::size_t>(done_ * kWidth / total_);
  out_ << fmt::format("\r[{}{}]  {}/{}  {}  ETA {}\033[K", std::string(full, '#'),
                      std::string(kWidth - full, '.'), Count(done_), Count(total_), Rate(elapsed),
                      Left(elapsed))
       << std::flush;
}

void Progress::Finish() {
  if (options_.is_quiet) return;
  if (options_.is_terminal) out_ << "\r\033[K" << std::flush;
}

}  // namespace stepsim
