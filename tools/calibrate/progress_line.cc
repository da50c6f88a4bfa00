#include "tools/calibrate/progress_line.h"

#include <fmt/format.h>

#include <cmath>
#include <ostream>

namespace stepsim::measure {
namespace {

constexpr double kBetweenLines = 5;  // seconds, where nobody watches
constexpr int kMinute = 60;

std::string Clock(double seconds) {
  const auto whole = static_cast<long>(std::floor(seconds));
  return fmt::format("{}:{:02}", whole / kMinute, whole % kMinute);
}

}  // namespace

ProgressLine::ProgressLine(std::ostream& out, std::size_t total, Options options)
    : out_(out), total_(total), options_(std::move(options)), begin_(options_.seconds()) {}

void ProgressLine::Show(std::size_t number, const std::string& what) {
  if (options_.is_quiet) return;
  const double now = options_.seconds();
  if (!options_.is_terminal && now - shown_ < kBetweenLines) return;
  shown_ = now;
  std::string line = fmt::format("[{:>{}}/{}] {}   {}", number + 1, std::to_string(total_).size(),
                                 total_, what, Clock(now - begin_));
  if (options_.budget_s > 0) line += " of " + Clock(options_.budget_s);
  if (!options_.is_terminal) {
    out_ << line << '\n' << std::flush;
    return;
  }
  const std::size_t padding = width_ > line.size() ? width_ - line.size() : 0;
  width_ = line.size();
  out_ << '\r' << line << std::string(padding, ' ') << std::flush;
}

void ProgressLine::Clear() {
  if (width_ > 0) out_ << '\r' << std::string(width_, ' ') << '\r';
  width_ = 0;
}

void ProgressLine::Say(const std::string& line) {
  Clear();
  out_ << line << '\n' << std::flush;
}

void ProgressLine::Finish() {
  Clear();
  out_ << std::flush;
}

}  // namespace stepsim::measure
