// How far is the sweep, and when will it be done?
//
//   on a terminal   [#########...........]  4,512/10,000  1,203/s  ETA 4.6 s      (one line)
//   otherwise       4,512 of 10,000 points, 1,203/s, 4.6 s left                (now and then)
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>

namespace stepsim {

class Progress {
 public:
  struct Options {
    bool is_terminal = false;
    bool is_quiet = false;
    std::function<double()> seconds;  // a clock; since any moment
  };

  // `done` of `total` points were there before. REQUIRES: `out` outlives this object.
  Progress(std::ostream& out, std::uint64_t total, std::uint64_t done, Options options);

  void Advance(std::uint64_t points);
  void Finish();  // the last line, or the bar gone

 private:
  void Show();
  std::string Rate(double elapsed) const;
  std::string Left(double elapsed) const;

  std::ostream& out_;
  const std::uint64_t total_;
  const std::uint64_t before_;
  const Options options_;
  const double begin_;
  std::uint64_t done_;
  double shown_;     // when
  double wait_ = 0;  // until the next line
};

}  // namespace stepsim
