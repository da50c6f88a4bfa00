#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>
#include <system_error>
#include <vector>

#include "tools/calibrate/command.h"

namespace {

// Set by the first Ctrl-C; the second one ends the process as usual.
volatile std::sig_atomic_t interrupted = 0;

void Interrupt(int signal) {
  interrupted = 1;
  std::signal(signal, SIG_DFL);
}

// The folder of the tree or installation that the program belongs to.
std::string ConfigFolder(const std::string& executable) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  for (fs::path folder = fs::path(executable).parent_path(); !folder.empty();
       folder = folder.parent_path()) {
    for (const char* candidate : {"configs", "share/stepsim/configs"}) {
      if (fs::is_directory(folder / candidate / "hardware", ignored)) {
        return (folder / candidate).string();
      }
    }
    if (folder == folder.parent_path()) break;
  }
  return STEPSIM_CONFIG_FOLDER;
}

// The measuring thread may be inside a call that never returns.
[[noreturn]] void Die(const std::string& message) {
  std::cerr << "\nerror: " << message << std::endl;
  std::_Exit(stepsim::measure::kExitFailed);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace stepsim::measure;  // NOLINT(google-build-using-namespace)
  std::signal(SIGINT, Interrupt);
  std::signal(SIGTERM, Interrupt);
  std::signal(SIGXFSZ, SIG_IGN);  // a file too large is an error with a message, not a death
  std::error_code ignored;
  const std::string executable = std::filesystem::read_symlink("/proc/self/exe", ignored).string();
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  return RunCalibrate(arguments, {std::cout, std::cerr, isatty(STDERR_FILENO) != 0, executable,
                                  ConfigFolder(executable), Backends(), ProcessEnvironment(),
                                  [] { return interrupted != 0; }, Die});
}
