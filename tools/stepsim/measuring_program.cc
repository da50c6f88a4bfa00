#include "tools/stepsim/measuring_program.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <ostream>
#include <string_view>
#include <system_error>
#include <vector>

extern char** environ;

namespace stepsim {
namespace {

namespace fs = std::filesystem;
constexpr const char* kProgram = "stepsim-calibrate";

bool IsProgram(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) && access(path.c_str(), X_OK) == 0;
}

}  // namespace

std::string FindMeasuringProgram(const std::string& executable) {
  const fs::path folder = fs::path(executable).parent_path();
  if (!folder.empty()) {
    for (const fs::path& path : {folder / kProgram, folder / ".." / "calibrate" / kProgram}) {
      if (IsProgram(path)) return path.lexically_normal().string();
    }
  }
  const char* variable = std::getenv("PATH");
  std::string_view rest = variable == nullptr ? "" : variable;
  while (!rest.empty()) {
    const std::size_t colon = std::min(rest.find(':'), rest.size());
    const fs::path path = fs::path(std::string(rest.substr(0, colon))) / kProgram;
    if (colon > 0 && IsProgram(path)) return path.string();
    rest.remove_prefix(std::min(rest.size(), colon + 1));
  }
  return "";
}

void StartMeasuringProgram(const Session& session) {
  const std::string program = FindMeasuringProgram(session.streams.executable);
  if (program.empty()) {
    throw std::runtime_error(fmt::format(
        "calibrate: found no measurements (--measurements, --nccl-tests, --csv, --gemm, --log) and "
        "no program {} beside stepsim or in PATH to make them; it is built with stepsim where a "
        "CUDA toolkit or MPI is installed",
        kProgram));
  }
  std::vector<std::string> words = {program};
  const auto& all = session.arguments;
  const auto command = std::find(all.begin(), all.end(), "calibrate");
  if (command != all.end()) words.insert(words.end(), std::next(command), all.end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  session.streams.out.flush();
  pid_t child = 0;
  const int error =
      posix_spawn(&child, program.c_str(), nullptr, nullptr, arguments.data(), environ);
  if (error != 0) {
    throw std::runtime_error(fmt::format("cannot start {}: {}", program, std::strerror(error)));
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
  if (code != 0) throw ChildFailed(code);
}

}  // namespace stepsim
