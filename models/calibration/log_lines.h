// What did the program itself print? Lines of a log without what launchers, schedulers and
// collectors put before them, and their words.
//
//   WithoutPrefix("[1,0]<stdout>:#  Rank  0 ...")                 -> "#  Rank  0 ..."
//   WithoutPrefix("2026-11-30T12:00:01.123Z 3:   1048576 ...")    -> "1048576 ..."
//
// To read the logs of another launcher: a row in kPrefixes of the .cc.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stepsim {

struct LogLimits {
  static constexpr std::size_t kMostBytes = std::size_t{512} << 20;
  static constexpr std::size_t kLongestLine = std::size_t{1} << 16;  // the rest is left out
};

// The next line of `text`, without its end and without terminal colours; advances `text`. Lines end
// with \n, \r\n or a bare \r (progress bars). REQUIRES: text not empty.
std::string NextLine(std::string_view& text);

// Without launchers' prefixes and blanks at both ends.
std::string_view WithoutPrefix(std::string_view line);

std::vector<std::string_view> WordsIn(std::string_view line);

// "12.3", "1e-05", "1,234.5"; nullopt for anything else.
std::optional<double> NumberIn(std::string_view word);
// "1048576"; nullopt with anything around it, or beyond 2^60.
std::optional<std::int64_t> CountIn(std::string_view word);

// The number that begins right behind `key` and blanks, colons, '=' or '|': "lm loss: 2.3".
std::optional<double> NumberAfter(std::string_view line, std::string_view key);
// The whole word that begins there.
std::string_view WordAfter(std::string_view line, std::string_view key);

}  // namespace stepsim
