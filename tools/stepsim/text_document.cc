#include "tools/stepsim/text_document.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/report/wrap_text.h"

namespace stepsim {
namespace {

constexpr std::size_t kNarrowest = 60;
constexpr std::size_t kLabelWidth = 13;
constexpr std::size_t kLeastTextWidth = 24;  // of a table's last column
constexpr std::size_t kMostLines = 40;

class TerminalPrinter {
 public:
  TerminalPrinter(std::size_t width, bool use_colour)
      : width_(std::max(width, kNarrowest)), use_colour_(use_colour) {}

  std::string Print(const TextDocument& document) {
    Line(Bold(ShortenText(document.title, width_)));
    Headline(document.headline);
    for (const auto& remark : document.remarks) Remark(remark);
    for (const TextTable& table : document.tables) Table(table);
    for (const auto& remark : document.last) Remark(remark);
    return std::move(text_);
  }

 private:
  std::string Bold(const std::string& text) const {
    return use_colour_ ? fmt::format("\033[1m{}\033[0m", text) : text;
  }
  std::string Loud(const std::string& text) const {
    return use_colour_ ? fmt::format("\033[1;33m{}\033[0m", text) : text;
  }
  void Line(std::string line) {
    line.erase(line.find_last_not_of(' ') + 1);
    text_ += line + '\n';
  }

  void Headline(const std::vector<std::string>& pieces) {
    std::string line;
    for (const std::string& piece : pieces) {
      if (!line.empty() && line.size() + 3 + piece.size() > width_) {
        Line(line);
        line = "  ";
      }
      line += (line.empty() || line == "  " ? "" : "   ") + piece;
    }
    Line(line);
  }

  void Remark(const TextDocument::Remark& remark) {
    std::string head = Bold(fmt::format("{:<{}}", remark.label, kLabelWidth));
    for (const std::string& line : WrapText(remark.text, width_ - kLabelWidth, kMostLines)) {
      Line(head + (remark.is_loud ? Loud(line) : line));
      head.assign(kLabelWidth, ' ');
    }
  }

  void Table(const TextTable& table) {
    Line("");
    Line(Bold(table.title));
    if (!table.rows.empty()) Rows(table);
    if (!table.picture.empty()) Line("  " + Narrowed(table.picture, width_ - 2));
    for (const std::string& remark : table.remarks) {
      for (const std::string& line : WrapText(remark, width_ - 2, kMostLines)) Line("  " + line);
    }
  }

  static std::string Narrowed(const std::string& picture, std::size_t width) {
    if (picture.size() <= width) return picture;
    std::string narrow;
    for (std::size_t i = 0; i < width; ++i) narrow += picture[i * picture.size() / width];
    return narrow;
  }

  void Rows(const TextTable& table) {
    const std::size_t last = table.columns.size() - 1;
    std::vector<std::size_t> widths;
    std::size_t used = 0;
    for (std::size_t c = 0; c < last; ++c) {
      widths.push_back(table.columns[c].size());
      for (const auto& row : table.rows) widths[c] = std::max(widths[c], row[c].size());
      used += widths[c] + 2;
    }
    const std::size_t room = std::max(width_, used + kLeastTextWidth) - used - 2;
    const auto print = [&](const std::vector<std::string>& row, bool is_header) {
      std::string head = "  ";
      for (std::size_t c = 0; c < last; ++c) {
        head += table.align[c] == 'r' ? fmt::format("{:>{}}  ", row[c], widths[c])
                                      : fmt::format("{:<{}}  ", row[c], widths[c]);
      }
      const std::string indent(head.size(), ' ');
      std::vector<std::string> lines = WrapText(row[last], room, kMostLines);
      if (lines.empty()) lines.emplace_back();
      for (const std::string& line : lines) {
        Line(is_header ? Bold(head + line) : head + line);
        head = indent;
      }
    };
    print(table.columns, true);
    for (const auto& row : table.rows) print(row, false);
  }

  std::size_t width_;
  bool use_colour_;
  std::string text_;
};

// What Markdown would take for its own.
std::string Escaped(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '|' || c == '<' || c == '>' || c == '*' || c == '_' || c == '#' || c == '`') {
      escaped += '\\';
    }
    escaped += c == '\n' ? ' ' : c;
  }
  return escaped;
}

void AddMarkdownRow(const std::vector<std::string>& cells, std::string* text) {
  for (const std::string& cell : cells) *text += "| " + Escaped(cell) + " ";
  *text += "|\n";
}

void AddMarkdownRemark(const TextDocument::Remark& remark, std::string* text) {
  *text += fmt::format("\n**{}**: {}\n", Escaped(remark.label), Escaped(remark.text));
}

}  // namespace

std::string TerminalText(const TextDocument& document, std::size_t width, bool use_colour) {
  return TerminalPrinter(width, use_colour).Print(document);
}

std::string MarkdownText(const TextDocument& document) {
  std::string text = fmt::format("# {}\n\n", Escaped(document.title));
  for (const std::string& piece : document.headline) text += fmt::format("- {}\n", Escaped(piece));
  for (const auto& remark : document.remarks) AddMarkdownRemark(remark, &text);
  for (const TextTable& table : document.tables) {
    text += fmt::format("\n## {}\n\n", Escaped(table.title));
    if (!table.rows.empty()) {
      AddMarkdownRow(table.columns, &text);
      for (const char align : table.align) text += align == 'r' ? "| ---: " : "| --- ";
      text += "|\n";
      for (const auto& row : table.rows) AddMarkdownRow(row, &text);
    }
    if (!table.picture.empty()) text += fmt::format("\n`{}`\n", table.picture);
    for (const std::string& remark : table.remarks) text += fmt::format("\n{}\n", Escaped(remark));
  }
  for (const auto& remark : document.last) AddMarkdownRemark(remark, &text);
  return text;
}

}  // namespace stepsim
