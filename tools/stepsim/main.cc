#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <string>
#include <system_error>
#include <vector>

#include "tools/stepsim/cli.h"

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  std::error_code ignored;
  const std::string executable = std::filesystem::read_symlink("/proc/self/exe", ignored).string();
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  return stepsim::RunCli(arguments, {std::cin, std::cout, std::cerr, isatty(STDOUT_FILENO) != 0,
                                     executable.empty() ? argv[0] : executable});
}
