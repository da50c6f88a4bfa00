// How far is it? One line that is written over on a terminal, else a line now and then.
//
//   [ 12/143] gemm 8192x8192x8192 bf16   0:14 of 2:00
#pragma once

#include <cstddef>
#include <functional>
#include <iosfwd>
#include <string>

namespace stepsim::measure {

class ProgressLine {
 public:
  struct Options {
    bool is_terminal = false;
    bool is_quiet = false;
    double budget_s = 0;  // 0: none
    std::function<double()> seconds;
  };
  // REQUIRES: `out` outlives this object.
  ProgressLine(std::ostream& out, std::size_t total, Options options);

  void Show(std::size_t number, const std::string& what);
  void Say(const std::string& line);  // something that stays
  void Finish();

 private:
  void Clear();

  std::ostream& out_;
  std::size_t total_;
  Options options_;
  double begin_;
  double shown_ = -1e9;
  std::size_t width_ = 0;  // of what is on the line
};

}  // namespace stepsim::measure
