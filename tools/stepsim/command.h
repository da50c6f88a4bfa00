// Which commands are there? One row per command; `--help` and did-you-mean read the table.
//
// To add a command: one file with one Add function, one row in command.cc.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "models/spec/config_source.h"
#include "tools/stepsim/cli.h"

namespace stepsim {

// What the commands share during one invocation.
struct Session {
  const CliStreams& streams;
  std::string config_folder;                // --configs; "" = beside the program
  std::vector<std::string> arguments = {};  // as they were given, the command among them

  std::unique_ptr<ConfigSource> Configs() const;
};

// A check that the user asked for did not hold: exit status 4.
class CheckFailed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A program that a command started has ended with this status, and said why.
class ChildFailed : public std::runtime_error {
 public:
  explicit ChildFailed(int status) : std::runtime_error("a program failed"), status_(status) {}
  int status() const { return status_; }

 private:
  int status_;
};

struct Command {
  std::string_view name;
  std::string_view doc;
  std::string_view example;
  // Adds options to `app` and sets its callback, which does the work.
  void (*add)(CLI::App& app, const Session& session);
};

std::span<const Command> Commands();

void AddRunCommand(CLI::App& app, const Session& session);
void AddExplainCommand(CLI::App& app, const Session& session);
void AddWhatIfCommand(CLI::App& app, const Session& session);
void AddRequiredCommand(CLI::App& app, const Session& session);
void AddInferCommand(CLI::App& app, const Session& session);
void AddSweepCommand(CLI::App& app, const Session& session);
void AddMergeCommand(CLI::App& app, const Session& session);
void AddTuneCommand(CLI::App& app, const Session& session);
void AddCostCommand(CLI::App& app, const Session& session);
void AddValidateCommand(CLI::App& app, const Session& session);
void AddCalibrateCommand(CLI::App& app, const Session& session);
void AddScheduleCommand(CLI::App& app, const Session& session);
void AddTraceCommand(CLI::App& app, const Session& session);
void AddChakraCommand(CLI::App& app, const Session& session);
void AddCompareCommand(CLI::App& app, const Session& session);
void AddListCommand(CLI::App& app, const Session& session);
void AddDescribeCommand(CLI::App& app, const Session& session);
void AddSchemaCommand(CLI::App& app, const Session& session);

// "; did you mean 'x'?" or "".
std::string DidYouMean(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace stepsim
