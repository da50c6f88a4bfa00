#ifdef __linux__
#include <malloc.h>
#endif
#include <sys/ioctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>
#include <system_error>
#include <vector>

#include "tools/stepsim/cli.h"

namespace {

std::size_t TerminalWidth() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

// Graphs and timelines of one size come and go with every job that is tried: what they took stays
// with the process, or a sixth of a sweep goes into page faults.
void KeepFreedMemory() {
#ifdef __GLIBC__
  constexpr int kKept = 256 << 20;
  mallopt(M_TRIM_THRESHOLD, kKept);
  mallopt(M_MMAP_THRESHOLD, kKept);
#endif
}

}  // namespace

int main(int argc, char** argv) {
  KeepFreedMemory();
  std::ios::sync_with_stdio(false);
  std::signal(SIGXFSZ, SIG_IGN);  // a file too large is an error with a message, not a death
  std::error_code ignored;
  const std::string executable = std::filesystem::read_symlink("/proc/self/exe", ignored).string();
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const bool is_terminal = isatty(STDOUT_FILENO) != 0;
  const bool use_colour =
      stepsim::WantsColour(is_terminal, std::getenv("NO_COLOR"), std::getenv("TERM"));
  return stepsim::RunCli(
      arguments, {std::cin, std::cout, std::cerr, use_colour, is_terminal ? TerminalWidth() : 0,
                  executable.empty() ? argv[0] : executable, isatty(STDERR_FILENO) != 0});
}
