// Who asks, and how does the answer reach them? The command line as a function, so that tests run it
// in process: arguments and streams in, exit status out.
//
//   RunCli({"run", "job.yaml", "--export", "-"}, streams)  ->  0
//
// Exit status: 0 success, 1 internal error or a file that cannot be written, 2 the input is wrong,
// 3 the job cannot run, 4 a check the user asked for failed.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace stepsim {

struct CliStreams {
  std::istream& in;
  std::ostream& out;
  std::ostream& err;
  bool out_is_terminal = false;
  std::string executable;  // path of the running program, to find configs/ beside it; may be ""
};

inline constexpr int kExitSuccess = 0;
inline constexpr int kExitInternal = 1;
inline constexpr int kExitInput = 2;
inline constexpr int kExitCannotRun = 3;

int RunCli(const std::vector<std::string>& arguments, const CliStreams& streams);

}  // namespace stepsim
