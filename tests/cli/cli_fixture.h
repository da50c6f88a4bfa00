// How do tests ask the command line? In process: arguments and files in; exit status, text and
// files out.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tools/stepsim/cli.h"

namespace stepsim::testing {

// Two GPUs sum 1e9 gradients of fp32, all of them behind the last kernel: 2 (n-1)/n x 4 GB at
// 100 GB/s are 40 ms.
inline constexpr const char kOneLayer[] = R"(name: round numbers
model:
  name: one layer
  layers:
    - {name: a, parameters: [{name: a.weight, elements: 1000000000}], forward_flops: 1 TFLOP}
hardware: {base: ideal, gpus_per_node: 2, intra_node: {bandwidth: 100 GB/s, latency: 0 us}}
optimizer: none
contention: off
precision: {compute: bf16, parameters: fp32}
plan: {ddp: {gradient_as_bucket_view: true}}
collectives: {model: alpha_beta}
)";

struct Answer {
  int status = 0;
  std::string out, err;
};

inline Answer Ask(std::vector<std::string> arguments, const std::string& input = "",
                  bool use_colour = false, std::size_t terminal_width = 0) {
  arguments.insert(arguments.begin(), {"--configs", STEPSIM_SOURCE_DIR "/configs"});
  std::istringstream in(input);
  std::ostringstream out, err;
  const int status = RunCli(arguments, {in, out, err, use_colour, terminal_width, ""});
  return {status, out.str(), err.str()};
}

inline std::string ReadAll(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// A folder of its own for each test, removed at the end.
class Cli : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::temp_directory_path() /
              (std::string("stepsim_cli_") + info->test_suite_name() + info->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return (folder_ / name).string(); }
  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(Path(name)) << text;
    return Path(name);
  }
  std::vector<std::string> Files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  std::filesystem::path folder_;
};

}  // namespace stepsim::testing
