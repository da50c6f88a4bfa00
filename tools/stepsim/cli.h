// Who asks, and how does the answer reach them? The command line as a function, so that tests run
// it in process: arguments and streams in, exit status out.
//
//   RunCli({"run", "job.yaml", "--export", "-"}, streams)  ->  0
//
// Exit status: 0 success, 1 internal error or a file that cannot be written, 2 the input is wrong,
// 3 the job cannot run, 4 a check the user asked for failed.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <string>
#include <vector>

namespace stepsim {

struct CliStreams {
  std::istream& in;
  std::ostream& out;
  std::ostream& err;
  bool use_colour = false;         // on `out`
  std::size_t terminal_width = 0;  // columns of `out`; 0: no terminal
  std::string executable;  // path of the running program, to find configs/ beside it; may be ""
  bool is_error_terminal = false;  // `err`
};

// A terminal gets colour unless NO_COLOR (https://no-color.org) is set or TERM says it has none.
// Both are values of the environment; null when not set.
bool WantsColour(bool is_terminal, const char* no_color, const char* term);

inline constexpr int kExitSuccess = 0;
inline constexpr int kExitInternal = 1;
inline constexpr int kExitInput = 2;
inline constexpr int kExitCannotRun = 3;
inline constexpr int kExitCheckFailed = 4;

int RunCli(const std::vector<std::string>& arguments, const CliStreams& streams);

}  // namespace stepsim
