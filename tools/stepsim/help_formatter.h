// How does --help fit into 80 columns? Descriptions break between words.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace stepsim {

class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter();

  std::string make_option_desc(const CLI::Option* option) const override;
  std::string make_subcommand(const CLI::App* command) const override;

 private:
  std::string Break(const std::string& text) const;
};

}  // namespace stepsim
