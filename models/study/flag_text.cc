#include "models/study/flag_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "sim/config/config_node.h"

namespace stepsim {
namespace {

bool IsPlain(const std::string& value) {
  return value[0] == '"' || value == "true" || value == "false" ||
         std::all_of(value.begin(), value.end(), [](char c) {
           return std::isdigit(static_cast<unsigned char>(c)) != 0 || c == '.';
         });
}

// Lines of flags with a common begin of their spelling, in the order of the first of each.
using Groups = std::vector<std::pair<std::string, std::vector<SpelledFlag>>>;

Groups GroupsOf(const std::vector<SpelledFlag>& flags) {
  Groups groups;
  for (const SpelledFlag& flag : flags) {
    const std::size_t dot = flag.spelling.find('.');
    const std::string name = flag.spelling.substr(0, dot);
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const auto& each) { return each.first == name; });
    if (group == groups.end()) group = groups.insert(groups.end(), {name, {}});
    group->second.push_back({flag.spelling.substr(dot + 1), flag.value});
  }
  return groups;
}

}  // namespace

std::string PythonText(const std::vector<SpelledFlag>& flags) {
  std::vector<SpelledFlag> calls;
  std::string remarks;
  for (const SpelledFlag& flag : flags) {
    if (flag.spelling[0] == '#') {
      remarks += fmt::format("{}: {}\n", flag.spelling, flag.value);
    } else {
      calls.push_back(flag);
    }
  }
  std::string text;
  for (const auto& [call, arguments] : GroupsOf(calls)) {
    text += call + "(...";
    for (const SpelledFlag& argument : arguments) {
      text += fmt::format(", {}={}", argument.spelling, argument.value);
    }
    text += ")\n";
  }
  return text + remarks;
}

std::string TomlText(const std::vector<SpelledFlag>& flags) {
  std::string text;
  for (const auto& [table, entries] : GroupsOf(flags)) {
    text += fmt::format("[{}]\n", table);
    for (const SpelledFlag& entry : entries) {
      const char* quote = IsPlain(entry.value) ? "" : "\"";
      text += fmt::format("{} = {}{}{}\n", entry.spelling, quote, entry.value, quote);
    }
  }
  return text;
}

std::string ArgumentText(const std::vector<SpelledFlag>& flags) {
  std::string text;
  for (const SpelledFlag& flag : flags) {
    if (flag.value == "false") continue;
    text += flag.value == "true" ? fmt::format("--{}\n", flag.spelling)
                                 : fmt::format("--{} {}\n", flag.spelling, flag.value);
  }
  return text;
}

std::string JsonText(const std::vector<SpelledFlag>& flags) {
  ConfigNode root = MakeMapping();
  for (const SpelledFlag& flag : flags) {
    ConfigNode value = IsPlain(flag.value) ? MakePlain(flag.value) : MakeText(flag.value);
    SetPath(root, flag.spelling, std::move(value), {});
  }
  return WriteJson(root) + "\n";
}

std::string EnvironmentText(const std::vector<SpelledFlag>& flags) {
  std::string text;
  for (const SpelledFlag& flag : flags) {
    const char* quote = flag.value.find_first_of("^;") != std::string::npos ? "'" : "";
    text += fmt::format("export {}={}{}{}\n", flag.spelling, quote, flag.value, quote);
  }
  return text;
}

}  // namespace stepsim
