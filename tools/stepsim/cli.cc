#include "tools/stepsim/cli.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <istream>
#include <new>
#include <ostream>

#include "sim/base/check.h"
#include "sim/base/diagnostics.h"
#include "sim/base/units.h"
#include "tools/stepsim/command.h"
#include "tools/stepsim/help_formatter.h"

namespace stepsim {
namespace {

std::vector<std::string> CommandNames() {
  std::vector<std::string> names;
  for (const Command& command : Commands()) names.emplace_back(command.name);
  return names;
}

// CLI11 names what it did not expect; this adds what was probably meant.
std::string Hint(const CLI::App& root, const std::vector<std::string>& arguments) {
  const auto chosen = root.get_subcommands();
  std::vector<std::string> known;
  for (const CLI::App* app : {&root, chosen.empty() ? &root : chosen.front()}) {
    for (const CLI::Option* option : app->get_options()) {
      for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
    }
  }
  for (const std::string& argument : arguments) {
    const std::string name = argument.substr(0, argument.find('='));
    const bool is_option = name.rfind("--", 0) == 0 && name.size() > 2;
    if (is_option && std::find(known.begin(), known.end(), name) == known.end()) {
      return DidYouMean(name, known);
    }
  }
  return "";
}

// CLI11 says "Could not convert: --stages = 1.5".
std::string WrongNumber(const CLI::ConversionError& error) {
  const std::string text = error.what();
  const std::size_t name = text.find("--"), equals = text.find(" = ");
  if (name == std::string::npos || equals == std::string::npos) return text;
  const std::string found = text.substr(equals + 3);
  return fmt::format("{}: found '{}', allowed: a {}", text.substr(name, equals - name), found,
                     ParseNumber(found) ? "whole number below 2^31" : "number");
}

void Configure(CLI::App& root, Session& session) {
  root.name("stepsim");
  root.formatter(std::make_shared<HelpFormatter>());  // the commands inherit it
  root.set_version_flag("--version", "stepsim " STEPSIM_VERSION);
  root.add_option("--configs", session.config_folder,
                  "folder with hardware/, models/, ... (default: the one beside the program)")
      ->type_name("DIR");
  root.require_subcommand(1);
  root.fallthrough();  // --configs may follow the command
  root.footer(
      "Example:\n  stepsim run configs/jobs/llama-3.2-3b_ddp_16xa100.yaml\n\n"
      "stepsim <command> --help has an example for each command.");
  for (const Command& command : Commands()) {
    CLI::App* app = root.add_subcommand(std::string(command.name), std::string(command.doc));
    app->footer(fmt::format("Example:\n  {}", command.example));
    command.add(*app, session);
  }
}

int Parse(const std::vector<std::string>& arguments, const CliStreams& streams) {
  CLI::App root("Predicts one training step of a deep network on a GPU cluster.");
  Session session{streams, "", arguments};
  Configure(root, session);
  const auto names = CommandNames();
  const auto first = std::find_if(arguments.begin(), arguments.end(),
                                  [](const std::string& a) { return a.rfind('-', 0) != 0; });
  if (arguments.empty()) {
    streams.err << root.help();
    return kExitInput;
  }
  if (first == arguments.begin() && std::find(names.begin(), names.end(), *first) == names.end()) {
    streams.err << fmt::format("error: unknown command '{}', allowed: {}{}\n", *first,
                               fmt::join(names, ", "), DidYouMean(*first, names));
    return kExitInput;
  }
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // as CLI11 wants it
    root.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    const auto chosen = root.get_subcommands();
    streams.out << (chosen.empty() ? root.help() : chosen.front()->help(root.get_name()));
  } catch (const CLI::CallForVersion& version) {
    streams.out << version.what() << '\n';
  } catch (const CLI::ConversionError& error) {
    streams.err << "error: " << WrongNumber(error) << '\n';
    return kExitInput;
  } catch (const CLI::ParseError& error) {
    streams.err << "error: " << error.what() << Hint(root, arguments) << '\n';
    return kExitInput;
  }
  streams.out.flush();
  if (!streams.out) {
    streams.err << "error: cannot write to standard output\n";
    return kExitInternal;
  }
  return kExitSuccess;
}

}  // namespace

bool WantsColour(bool is_terminal, const char* no_color, const char* term) {
  const bool is_refused = no_color != nullptr && *no_color != '\0';
  const bool is_dumb = term != nullptr && std::string_view(term) == "dumb";
  return is_terminal && !is_refused && !is_dumb;
}

int RunCli(const std::vector<std::string>& arguments, const CliStreams& streams) {
  try {
    return Parse(arguments, streams);
  } catch (const ConfigError& error) {
    for (const Diagnostic& diagnostic : error.diagnostics()) {
      streams.err << "error: " << diagnostic.ToString() << '\n';
    }
    return kExitInput;
  } catch (const SimulationError& error) {
    streams.err << "error: " << error.what() << '\n';
    return kExitCannotRun;
  } catch (const CheckFailed& error) {
    streams.err << "error: " << error.what() << '\n';
    return kExitCheckFailed;
  } catch (const ChildFailed& error) {
    return error.status();
  } catch (const std::bad_alloc&) {
    streams.err << "error: out of memory\n";
    return kExitInternal;
  } catch (const std::exception& error) {
    streams.err << "error: " << error.what() << '\n';
    return kExitInternal;
  }
}

}  // namespace stepsim
