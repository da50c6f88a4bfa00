// How does text fit into a line? Cut at the end, or broken between words.
//
//   WrapText("queued 73.1 ms behind the one before", 20, 2)
//     -> {"queued 73.1 ms", "behind the one be..."}
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace stepsim {

// Names come from files: control characters become blanks, and what is too long is cut between
// characters (UTF-8) and ends in "...". REQUIRES: width >= 3.
std::string ShortenText(std::string text, std::size_t width);

// Broken between words, but not between a number and its unit; what does not fit into `most_lines`
// is cut.
std::vector<std::string> WrapText(std::string text, std::size_t width, std::size_t most_lines);

}  // namespace stepsim
