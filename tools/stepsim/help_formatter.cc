#include "tools/stepsim/help_formatter.h"

#include <fmt/format.h>

#include <limits>
#include <sstream>

#include "sim/report/wrap_text.h"

namespace stepsim {
namespace {

constexpr std::size_t kWidth = 80;
constexpr std::size_t kNameWidth = 22;

}  // namespace

HelpFormatter::HelpFormatter() { column_width(kNameWidth); }

std::string HelpFormatter::make_option_desc(const CLI::Option* option) const {
  return Break(option->get_description());
}

std::string HelpFormatter::make_subcommand(const CLI::App* command) const {
  std::ostringstream out;
  CLI::detail::format_help(out, command->get_display_name(true), Break(command->get_description()),
                           get_column_width());
  return out.str();
}

// CLI11 indents what follows a line break.
std::string HelpFormatter::Break(const std::string& text) const {
  constexpr std::size_t kAnyNumber = std::numeric_limits<std::size_t>::max();
  return fmt::format("{}", fmt::join(WrapText(text, kWidth - kNameWidth, kAnyNumber), "\n"));
}

}  // namespace stepsim
