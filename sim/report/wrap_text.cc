#include "sim/report/wrap_text.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace stepsim {
namespace {

// "73.1| ms", but not "13/13| (layer0.weight)".
bool PartsNumberAndUnit(const std::string& text, std::size_t space) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  return space > 0 && is_digit(text[space - 1]) && space + 1 < text.size() &&
         is_letter(text[space + 1]);
}

// The last place where a line of at most `width` may end; 0 when there is none.
std::size_t FindBreak(const std::string& text, std::size_t width) {
  const std::size_t last = text.rfind(' ', width);
  if (last == std::string::npos) return 0;
  std::size_t space = last;
  while (space != std::string::npos && PartsNumberAndUnit(text, space)) {
    space = space == 0 ? std::string::npos : text.rfind(' ', space - 1);
  }
  return space == std::string::npos || space == 0 ? last : space;
}

}  // namespace

std::string ShortenText(std::string text, std::size_t width) {
  constexpr std::string_view kDots = "...";
  const auto is_control = [](unsigned char c) { return c < ' ' || c == 0x7f; };
  std::replace_if(text.begin(), text.end(), is_control, ' ');
  if (text.size() <= width) return text;
  std::size_t length = width - kDots.size();
  const auto continues = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; };
  while (length > 0 && continues(text[length])) --length;
  return text.substr(0, length).append(kDots);
}

std::vector<std::string> WrapText(std::string text, std::size_t width, std::size_t most_lines) {
  std::vector<std::string> lines;
  while (text.size() > width && lines.size() + 1 < most_lines) {
    const std::size_t space = FindBreak(text, width);
    const std::size_t length = space == 0 ? width : space;
    lines.push_back(ShortenText(text.substr(0, length), width));
    text.erase(0, std::min(text.find_first_not_of(' ', length), text.size()));
  }
  if (!text.empty()) lines.push_back(ShortenText(std::move(text), width));
  return lines;
}

}  // namespace stepsim
