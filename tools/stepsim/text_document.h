// How does an answer with several tables reach people? Written once, shown on a terminal of any
// width, with or without colour, or as Markdown.
//
//   TextDocument d;
//   d.title = "gpt2 with DDP on 8 x A100";
//   d.Say("stall", "nothing: compute-bound");
//   d.tables.push_back({"ceilings", {"without", "step"}, "lr", {{"communication", "1.2 s"}}});
//   TerminalText(d, 110, /*use_colour=*/false)
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace stepsim {

struct TextTable {
  std::string title;
  std::vector<std::string> columns;
  std::string align;  // 'l' or 'r' for each column; the last one is broken into lines where it must
  std::vector<std::vector<std::string>> rows{};
  std::string picture{};               // one line below; narrower terminals leave characters out
  std::vector<std::string> remarks{};  // lines below
};

struct TextDocument {
  std::string title;
  std::vector<std::string> headline;  // short pieces, as many in a line as fit
  struct Remark {
    std::string label, text;
    bool is_loud = false;
  };
  std::vector<Remark> remarks;  // below the headline
  std::vector<TextTable> tables;
  std::vector<Remark> last;  // below the tables

  void Say(std::string label, std::string text, bool is_loud = false) {
    remarks.push_back({std::move(label), std::move(text), is_loud});
  }
};

std::string TerminalText(const TextDocument& document, std::size_t width, bool use_colour);
std::string MarkdownText(const TextDocument& document);

}  // namespace stepsim
