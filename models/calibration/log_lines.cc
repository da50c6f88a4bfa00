#include "models/calibration/log_lines.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/base/units.h"

namespace stepsim {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsBlank(char c) { return c == ' ' || c == '\t'; }

std::string_view Trim(std::string_view text) {
  while (!text.empty() && (IsBlank(text.front()) || text.front() == '\r')) text.remove_prefix(1);
  while (!text.empty() && (IsBlank(text.back()) || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

std::size_t Digits(std::string_view text, std::size_t at) {
  std::size_t end = at;
  while (end < text.size() && IsDigit(text[end])) ++end;
  return end - at;
}

// Each recogniser: how many characters of the line's beginning are a prefix; 0: none.

// Open MPI's --tag-output: "[1,0]<stdout>:", "[1,0]<stderr> ".
std::size_t OpenMpiTag(std::string_view line) {
  if (line.empty() || line[0] != '[') return 0;
  const std::size_t close = line.find(']');
  if (close == std::string_view::npos || close > 40) return 0;
  for (std::size_t i = 1; i < close; ++i) {
    if (!IsDigit(line[i]) && line[i] != ',') return 0;
  }
  if (close == 1) return 0;
  std::size_t end = close + 1;
  if (end < line.size() && line[end] == '<') {
    const std::size_t stream = line.find('>', end);
    if (stream == std::string_view::npos || stream > close + 12) return 0;
    end = stream + 1;
  }
  if (end < line.size() && line[end] == ':') ++end;
  return end;  // "[0] " of MPICH's -prepend-rank too
}

// srun --label: "0: ", " 12: ".
std::size_t SlurmLabel(std::string_view line) {
  const std::size_t digits = Digits(line, 0);
  const bool is_label = digits > 0 && digits <= 7 && digits + 1 < line.size() &&
                        line[digits] == ':' && !IsDigit(line[digits + 1]);
  return is_label ? digits + 1 : 0;
}

// "2026-11-30T12:00:01.123Z", "2026-11-30 12:00:01,123", "[2026-11-30 12:00:01,123]", with what
// stands in the same brackets.
std::size_t Timestamp(std::string_view line) {
  const bool is_bracketed = !line.empty() && line[0] == '[';
  const std::size_t at = is_bracketed ? 1 : 0;
  const auto has = [&](std::size_t i, std::size_t digits, char after) {
    return Digits(line, at + i) == digits && at + i + digits < line.size() &&
           line[at + i + digits] == after;
  };
  if (!has(0, 4, '-') || !has(5, 2, '-')) return 0;
  if (Digits(line, at + 8) != 2 || at + 11 >= line.size()) return 0;
  if (line[at + 10] != 'T' && line[at + 10] != ' ') return 0;
  if (!has(11, 2, ':')) return 0;
  if (is_bracketed) {
    const std::size_t close = line.find(']');
    return close == std::string_view::npos || close > 80 ? 0 : close + 1;
  }
  std::size_t end = at + 11;
  while (end < line.size() && (IsDigit(line[end]) || line[end] == ':' || line[end] == '.' ||
                               line[end] == ',' || line[end] == '+' || line[end] == 'Z')) {
    ++end;
  }
  return end;
}

// mpirun --timestamp-output: "Mon Nov 30 12:00:01 2026".
std::size_t CTime(std::string_view line) {
  constexpr std::array<std::string_view, 7> kDays = {"Mon ", "Tue ", "Wed ", "Thu ",
                                                     "Fri ", "Sat ", "Sun "};
  constexpr std::size_t kLength = 24;
  const bool is_day = std::any_of(kDays.begin(), kDays.end(), [&](std::string_view day) {
    return line.substr(0, day.size()) == day;
  });
  if (!is_day || line.size() < kLength || line[13] != ':' || line[16] != ':') return 0;
  return Digits(line, 20) == 4 ? kLength : 0;
}

// Containers' runtimes: "stdout F ", "stderr P "; docker compose: "worker-1  | ".
std::size_t Container(std::string_view line) {
  for (const std::string_view tag : {"stdout F ", "stdout P ", "stderr F ", "stderr P "}) {
    if (line.substr(0, tag.size()) == tag) return tag.size();
  }
  std::size_t end = 0;
  while (end < line.size() && end < 64 && !IsBlank(line[end]) && line[end] != '|') ++end;
  const std::size_t bar = line.find_first_not_of(" \t", end);
  const bool is_compose = end > 0 && bar != std::string_view::npos && line[bar] == '|' &&
                          bar > end && bar + 1 < line.size() && IsBlank(line[bar + 1]) &&
                          !IsDigit(line[0]);
  return is_compose ? bar + 1 : 0;
}

struct Prefix {
  std::string_view of;
  std::size_t (*length)(std::string_view line);
};
constexpr std::array kPrefixes = {
    Prefix{"Open MPI, MPICH", OpenMpiTag}, Prefix{"srun --label", SlurmLabel},
    Prefix{"ISO 8601", Timestamp},         Prefix{"ctime", CTime},
    Prefix{"containers", Container},
};

}  // namespace

std::string NextLine(std::string_view& text) {
  const std::size_t end = std::min(text.find_first_of("\r\n"), text.size());
  const std::string_view raw = text.substr(0, std::min(end, LogLimits::kLongestLine));
  const bool is_pair = end + 1 < text.size() && text[end] == '\r' && text[end + 1] == '\n';
  text.remove_prefix(std::min(text.size(), end + (is_pair ? 2 : 1)));
  std::string line;
  line.reserve(raw.size());
  for (std::size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] == '\x1b' && i + 1 < raw.size() && raw[i + 1] == '[') {  // "ESC [ 31 m"
      i += 2;
      while (i < raw.size() && (IsDigit(raw[i]) || raw[i] == ';')) ++i;
      continue;
    }
    if (raw[i] != '\0') line += raw[i];
  }
  return line;
}

std::string_view WithoutPrefix(std::string_view line) {
  constexpr int kMost = 6;
  line = Trim(line);
  for (int i = 0; i < kMost; ++i) {
    std::size_t length = 0;
    for (const Prefix& prefix : kPrefixes) length = std::max(length, prefix.length(line));
    if (length == 0) break;
    line = Trim(line.substr(length));
  }
  return line;
}

std::vector<std::string_view> WordsIn(std::string_view line) {
  std::vector<std::string_view> words;
  std::size_t at = 0;
  while (at < line.size()) {
    while (at < line.size() && IsBlank(line[at])) ++at;
    std::size_t end = at;
    while (end < line.size() && !IsBlank(line[end])) ++end;
    if (end > at) words.push_back(line.substr(at, end - at));
    at = end;
  }
  return words;
}

std::optional<double> NumberIn(std::string_view word) {
  std::string plain;
  for (std::size_t i = 0; i < word.size() && plain.size() < 40; ++i) {
    const bool groups = word[i] == ',' && i > 0 && Digits(word, i + 1) == 3;  // "1,234"
    if (!groups) plain += word[i];
  }
  const std::optional<double> number = ParseNumber(plain);
  return number && std::isfinite(*number) ? number : std::nullopt;
}

std::optional<std::int64_t> CountIn(std::string_view word) {
  if (word.empty() || word.size() > 18 || Digits(word, 0) != word.size()) return std::nullopt;
  return ParseInteger(word);
}

std::string_view WordAfter(std::string_view line, std::string_view key) {
  const std::size_t found = line.find(key);
  if (found == std::string_view::npos) return "";
  std::size_t at = found + key.size();
  while (at < line.size() &&
         (IsBlank(line[at]) || line[at] == ':' || line[at] == '=' || line[at] == '|')) {
    ++at;
  }
  std::size_t end = at;
  while (end < line.size() && !IsBlank(line[end]) && line[end] != '|' && line[end] != ';') ++end;
  return line.substr(at, end - at);
}

std::optional<double> NumberAfter(std::string_view line, std::string_view key) {
  std::string_view word = WordAfter(line, key);
  std::size_t end = 0;
  while (end < word.size() &&
         (IsDigit(word[end]) || word[end] == '.' || word[end] == ',' || word[end] == '-' ||
          word[end] == '+' || word[end] == 'e' || word[end] == 'E')) {
    ++end;
  }
  word = word.substr(0, end);
  while (!word.empty() && !IsDigit(word.back())) word.remove_suffix(1);
  return word.empty() ? std::nullopt : NumberIn(word);
}

}  // namespace stepsim
