#include "tests/support/expression.h"

#include <fmt/format.h>

#include <cctype>
#include <cstddef>
#include <optional>
#include <stdexcept>

#include "sim/base/units.h"

namespace stepsim::testing {
namespace {

using ValueOf = std::function<double(const std::string& name)>;

class Parser {
 public:
  Parser(std::string_view text, const ValueOf& value_of) : text_(text), value_of_(value_of) {}

  double Whole() {
    const double value = Sum();
    if (Next() != '\0') Fail("an operator");
    return value;
  }

 private:
  double Sum() {
    double value = Product();
    for (char c = Next(); c == '+' || c == '-'; c = Next()) {
      ++at_;
      value += c == '+' ? Product() : -Product();
    }
    return value;
  }

  double Product() {
    double value = Factor();
    for (char c = Next(); c == '*' || c == '/'; c = Next()) {
      ++at_;
      const double factor = Factor();
      value = c == '*' ? value * factor : value / factor;
    }
    return value;
  }

  double Factor() {
    const char c = Next();
    if (c == '(') {
      ++at_;
      const double value = Sum();
      if (Next() != ')') Fail("')'");
      ++at_;
      return value;
    }
    const std::string word = Word();
    if (word.empty()) Fail("a number, a name or '('");
    if (std::isdigit(static_cast<unsigned char>(c)) == 0) return value_of_(word);
    const std::optional<double> number = ParseNumber(word);
    if (!number) Fail("a number");
    return *number;
  }

  std::string Word() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && IsOfWord(text_[at_])) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  static bool IsOfWord(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
  }

  // The next character that is no blank; 0 at the end.
  char Next() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  [[noreturn]] void Fail(const std::string& allowed) const {
    throw std::invalid_argument(fmt::format("{}: found '{}' at {}, allowed: {}", text_,
                                            text_.substr(at_), at_ + 1, allowed));
  }

  std::string_view text_;
  const ValueOf& value_of_;
  std::size_t at_ = 0;
};

}  // namespace

double Evaluate(std::string_view expression, const ValueOf& value_of) {
  return Parser(expression, value_of).Whole();
}

}  // namespace stepsim::testing
