#include "sim/config/condition_parser.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "sim/base/nearest.h"

namespace stepsim {
namespace {

using Op = ConditionOperator;
using Step = Condition::Step;

constexpr std::size_t kLongest = 4096;
constexpr int kDeepest = 100;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsNameStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsNamePart(char c) { return IsNameStart(c) || IsDigit(c) || c == '.'; }
bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
// Of a text without quotes: "ethernet-25g", "tp-cp-dp-pp".
bool IsWordPart(char c) { return IsNamePart(c) || c == '-' || c == '/' || c == ':' || c == '+'; }

struct Spelling {
  std::string_view text;
  Op op;
};
// The longer of two that begin alike comes first.
constexpr std::array kComparisons = {
    Spelling{"==", Op::kEqual},       Spelling{"!=", Op::kUnequal},
    Spelling{"<=", Op::kLessOrEqual}, Spelling{">=", Op::kGreaterOrEqual},
    Spelling{"<", Op::kLess},         Spelling{">", Op::kGreater}};

constexpr std::array kUnits = {Unit::kBytes, Unit::kBandwidth, Unit::kTime, Unit::kFlopRate,
                               Unit::kFlops};

// The product or quotient of two units, where it is one of ours.
struct UnitRule {
  Unit left;
  Op op;
  Unit right;
  Unit result;
};
constexpr std::array kUnitRules = {
    UnitRule{Unit::kBytes, Op::kDivide, Unit::kTime, Unit::kBandwidth},
    UnitRule{Unit::kBytes, Op::kDivide, Unit::kBandwidth, Unit::kTime},
    UnitRule{Unit::kBandwidth, Op::kMultiply, Unit::kTime, Unit::kBytes},
    UnitRule{Unit::kTime, Op::kMultiply, Unit::kBandwidth, Unit::kBytes},
    UnitRule{Unit::kFlops, Op::kDivide, Unit::kTime, Unit::kFlopRate},
    UnitRule{Unit::kFlops, Op::kDivide, Unit::kFlopRate, Unit::kTime},
    UnitRule{Unit::kFlopRate, Op::kMultiply, Unit::kTime, Unit::kFlops},
    UnitRule{Unit::kTime, Op::kMultiply, Unit::kFlopRate, Unit::kFlops},
};

// What an expression is, known before its value.
struct Type {
  ConditionType type;
  bool is_null = false;
  std::size_t begin = 0, end = 0;  // in the text
};

std::string NameOf(const Type& type) {
  if (type.is_null) return "null";
  if (type.type.kind == ConditionKind::kText) return "a text";
  if (type.type.kind == ConditionKind::kBool) return "true or false";
  if (type.type.unit == Unit::kNone) return "a number without a unit";
  return fmt::format("{}", BaseUnit(type.type.unit));
}

class Parser {
 public:
  Parser(std::string_view text, const Place& place, const std::vector<ConditionName>& known)
      : text_(text), place_(place), known_(known) {}

  ParsedCondition Parse() {
    if (text_.size() > kLongest) {
      throw ConfigError(
          place_, fmt::format("found {} characters, allowed: at most {}", text_.size(), kLongest));
    }
    SkipSpace();
    if (AtEnd()) Fail(0, "found nothing, allowed: a condition such as 'nodes > 4'");
    const Type type = ParseOr();
    SkipSpace();
    if (!AtEnd()) FailAt();
    RequireBool(type, "as a condition");
    return std::move(parsed_);
  }

 private:
  // ---- Text ----

  bool AtEnd() const { return at_ >= text_.size(); }
  char Now() const { return AtEnd() ? '\0' : text_[at_]; }
  void SkipSpace() {
    while (!AtEnd() && IsSpace(text_[at_])) ++at_;
  }
  bool Take(std::string_view symbol) {
    SkipSpace();
    if (text_.substr(at_, symbol.size()) != symbol) return false;
    at_ += symbol.size();
    return true;
  }
  // The name or key word that begins here, not taken.
  std::string_view PeekWord() {
    SkipSpace();
    if (!IsNameStart(Now())) return "";
    std::size_t end = at_;
    while (end < text_.size() && IsNamePart(text_[end])) ++end;
    return text_.substr(at_, end - at_);
  }
  bool TakeWord(std::string_view word) {
    if (PeekWord() != word) return false;
    at_ += word.size();
    return true;
  }

  [[noreturn]] void Fail(std::size_t begin, const std::string& message) const {
    constexpr std::size_t kShown = 60;
    const std::string_view rest = text_.substr(std::min(begin, text_.size()), kShown);
    const std::string where = begin == 0 || rest.empty() ? "" : fmt::format(" at '{}'", rest);
    const bool is_long = text_.size() > kShown;
    throw ConfigError(place_, fmt::format("'{}{}'{}: {}", text_.substr(0, kShown),
                                          is_long ? "..." : "", where, message));
  }
  [[noreturn]] void FailAt() const {
    if (AtEnd()) Fail(at_, "found the end, allowed: a value, a name or '('");
    if (Now() == '=') Fail(at_, "found '=', allowed: '=='");
    if (Now() == '%') Fail(at_, "found '%', allowed: directly behind a number; the rest is 'mod'");
    std::size_t end = at_ + 1;  // all bytes of a character
    while (end < text_.size() && (static_cast<unsigned char>(text_[end]) & 0xc0U) == 0x80) ++end;
    Fail(at_, fmt::format("found '{}', allowed: and, or, an operator or a value",
                          text_.substr(at_, end - at_)));
  }

  // ---- Steps ----

  void Emit(Op op) {
    parsed_.steps.push_back({Step::Kind::kOperator, {}, static_cast<std::size_t>(op)});
  }
  void Emit(ConditionValue literal) {
    parsed_.steps.push_back({Step::Kind::kLiteral, std::move(literal), 0});
  }

  // ---- Grammar, from weak to strong ----

  Type ParseOr() { return ParseLogic("or", "||", Op::kOr, &Parser::ParseAnd); }
  Type ParseAnd() { return ParseLogic("and", "&&", Op::kAnd, &Parser::ParseNot); }

  Type ParseLogic(std::string_view word, std::string_view symbol, Op op, Type (Parser::*next)()) {
    Type left = (this->*next)();
    while (TakeWord(word) || Take(symbol)) {
      RequireBool(left, fmt::format("before '{}'", word));
      const Type right = (this->*next)();
      RequireBool(right, fmt::format("behind '{}'", word));
      Emit(op);
      left = Bool(left.begin);
    }
    return left;
  }

  Type ParseNot() {
    SkipSpace();
    const std::size_t begin = at_;
    const bool is_not = TakeWord("not") || (text_.substr(at_, 2) != "!=" && Take("!"));
    if (!is_not) return ParseComparison();
    const Nesting nesting(*this);
    const Type operand = ParseNot();
    RequireBool(operand, "behind 'not'");
    Emit(Op::kNot);
    return Bool(begin);
  }

  Type ParseComparison() {
    Type left = ParseSum();
    const std::size_t split = parsed_.steps.size();
    if (TakeWord("in")) return ParseIn(left, split);
    const std::optional<Op> op = TakeComparison();
    if (!op) return left;
    const Type right = ParseOther(left);
    Relate(left, right, split, *op);
    Emit(*op);
    if (TakeComparison()) {
      Fail(at_, "found a second comparison, allowed: one; join two with 'and'");
    }
    return Bool(left.begin);
  }

  std::optional<Op> TakeComparison() {
    for (const Spelling& spelling : kComparisons) {
      if (Take(spelling.text)) return spelling.op;
    }
    return std::nullopt;
  }

  // x in (a, b) is x == a or x == b.
  Type ParseIn(const Type& left, std::size_t split) {
    const std::size_t count = split - left_begin_;
    const std::vector<Step> again(parsed_.steps.end() - static_cast<std::ptrdiff_t>(count),
                                  parsed_.steps.end());
    const char* closing = Take("(") ? ")" : Take("[") ? "]" : nullptr;
    if (closing == nullptr) Fail(at_, "found no list behind 'in', allowed: in (a, b, c)");
    for (bool is_first = true;; is_first = false) {
      if (!is_first) parsed_.steps.insert(parsed_.steps.end(), again.begin(), again.end());
      const std::size_t middle = parsed_.steps.size();
      const Type right = ParseOther(left);
      Relate(left, right, middle, Op::kEqual);
      Emit(Op::kEqual);
      if (!is_first) Emit(Op::kOr);
      if (parsed_.steps.size() > kLongest) Fail(0, "found too long a list");
      if (Take(closing)) return Bool(left.begin);
      if (!Take(",")) Fail(at_, fmt::format("found no ',' or '{}' in the list", closing));
    }
  }

  // What stands behind a comparison: a text needs no quotes beside a text.
  Type ParseOther(const Type& left) {
    SkipSpace();
    const bool is_text = left.type.kind == ConditionKind::kText && !left.is_null;
    if (!is_text || !(IsNamePart(Now()) || Now() == '/')) return ParseSum();
    const std::size_t begin = at_;
    while (!AtEnd() && IsWordPart(text_[at_])) ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (word == "null") return Null(begin);
    const ConditionName* name = FindName(word);
    if (name != nullptr && name->type.kind == ConditionKind::kText) return Use(*name, begin);
    Emit(std::string(word));
    return Text(word, begin);
  }

  Type ParseSum() {
    const std::size_t outer = std::exchange(sum_begin_, parsed_.steps.size());
    Type left = ParseProduct();
    for (;;) {
      const std::size_t split = parsed_.steps.size();
      const Op op = Take("+") ? Op::kAdd : Op::kSubtract;
      if (op == Op::kSubtract && !Take("-")) break;
      const Type right = ParseProduct();
      Relate(left, right, split, op);
      Emit(op);
      left.end = at_;
      if (left.type.unit == Unit::kNone) left.type = right.type;
      left.type.choices.clear();
    }
    left_begin_ = std::exchange(sum_begin_, outer);
    return left;
  }

  Type ParseProduct() {
    Type left = ParseSigned();
    for (;;) {
      Op op = Op::kMultiply;
      if (Take("/")) {
        op = Op::kDivide;
      } else if (TakeWord("mod")) {
        op = Op::kModulo;
      } else if (!Take("*")) {
        return left;
      }
      const Type right = ParseSigned();
      left.type = Combine(left, op, right);
      Emit(op);
      left.end = at_;
    }
  }

  Type ParseSigned() {
    SkipSpace();
    const std::size_t begin = at_;
    if (!Take("-")) return ParsePrimary();
    const Nesting nesting(*this);
    Type operand = ParseSigned();
    RequireNumber(operand, "behind '-'");
    Emit(Op::kNegate);
    operand.begin = begin;
    return operand;
  }

  Type ParsePrimary() {
    SkipSpace();
    const std::size_t begin = at_;
    if (Take("(")) {
      const Nesting nesting(*this);
      Type inner = ParseOr();
      if (!Take(")")) Fail(at_, "found no ')' for the '('");
      inner.begin = begin;
      return inner;
    }
    if (Now() == '\'' || Now() == '"') return ParseQuoted();
    if (IsDigit(Now()) || Now() == '.') return ParseNumberLiteral();
    const std::string_view word = PeekWord();
    if (word.empty()) FailAt();
    at_ += word.size();
    if (word == "null") return Null(begin);
    if (word == "true" || word == "false") {
      Emit(word == "true");
      return Bool(begin);
    }
    const ConditionName* name = FindName(word);
    if (name == nullptr) FailUnknown(word, begin);
    return Use(*name, begin);
  }

  // ---- Values ----

  Type ParseQuoted() {
    const std::size_t begin = at_;
    const std::size_t end = text_.find(text_[begin], begin + 1);
    if (end == std::string_view::npos) Fail(begin, "found no second quote");
    const std::string_view word = text_.substr(begin + 1, end - begin - 1);
    at_ = end + 1;
    Emit(std::string(word));
    return Text(word, begin);
  }

  Type ParseNumberLiteral() {
    const std::size_t begin = at_;
    std::size_t end = at_;
    while (end < text_.size() && (IsDigit(text_[end]) || text_[end] == '.' || text_[end] == '_')) {
      ++end;
    }
    end = AfterExponent(end);
    at_ = end;
    const std::string number(text_.substr(begin, end - begin));
    const std::optional<double> value = ParseNumber(number);
    if (!value) Fail(begin, fmt::format("found '{}', allowed: a number", number));
    if (Now() == '%') {
      ++at_;
      Emit(*value / 100);
      return Number(Unit::kNone, begin);
    }
    const std::size_t behind = at_;
    SkipSpace();
    for (const Unit unit : kUnits) {
      const std::string_view name = UnitAt(unit);
      if (name.empty()) continue;
      at_ += name.size();
      Emit(ParseQuantity(fmt::format("{} {}", number, name), unit).value);
      return Number(unit, begin);
    }
    if (behind == at_ && IsNameStart(Now())) {
      Fail(begin, fmt::format("found '{}' as a unit, allowed: {}, %; texts that begin with a "
                              "number stand in quotes",
                              PeekWord(), "MiB, GB, Gb/s, us, s, TFLOP/s and the like"));
    }
    at_ = behind;
    Emit(*value);
    return Number(Unit::kNone, begin);
  }

  std::size_t AfterExponent(std::size_t end) const {
    if (end >= text_.size() || (text_[end] != 'e' && text_[end] != 'E')) return end;
    std::size_t i = end + 1;
    if (i < text_.size() && (text_[i] == '+' || text_[i] == '-')) ++i;
    if (i >= text_.size() || !IsDigit(text_[i])) return end;
    while (i < text_.size() && IsDigit(text_[i])) ++i;
    return i;
  }

  // The longest spelling of the unit that stands here whole; one of another unit may be longer.
  std::string_view UnitAt(Unit unit) const {
    std::string_view best;
    std::size_t longest = 0;
    for (const Unit any : kUnits) {
      for (const std::string_view name : UnitNames(any)) {
        if (text_.substr(at_, name.size()) != name) continue;
        const std::size_t end = at_ + name.size();
        if (end < text_.size() && IsNamePart(text_[end])) continue;
        if (name.size() > longest) best = any == unit ? name : "";
        longest = std::max(longest, name.size());
      }
    }
    return best;
  }

  const ConditionName* FindName(std::string_view word) const {
    const auto found = std::find_if(known_.begin(), known_.end(),
                                    [&](const ConditionName& name) { return name.name == word; });
    return found == known_.end() ? nullptr : &*found;
  }

  [[noreturn]] void FailUnknown(std::string_view word, std::size_t begin) const {
    std::vector<std::string> names;
    for (const ConditionName& name : known_) names.push_back(name.name);
    std::string nearest = Nearest(word, names);
    const std::string ending = fmt::format(".{}", word);  // "bucket_cap_mb" of a longer path
    for (const std::string& name : names) {
      if (nearest.empty() && name.ends_with(ending)) nearest = name;
    }
    constexpr std::size_t kFew = 12;
    const std::string hint =
        !nearest.empty() ? fmt::format("; did you mean '{}'?", nearest)
        : names.size() <= kFew
            ? fmt::format(", allowed: {}", fmt::join(names, ", "))
            : std::string(", allowed: the path of a field or a metric (`stepsim list metrics`)");
    Fail(begin, fmt::format("found the unknown name '{}'{}", word.substr(0, kLongest), hint));
  }

  Type Use(const ConditionName& name, std::size_t begin) {
    std::vector<ConditionName>& used = parsed_.names;
    auto found = std::find_if(used.begin(), used.end(),
                              [&](const ConditionName& other) { return other.name == name.name; });
    if (found == used.end()) found = used.insert(used.end(), name);
    parsed_.steps.push_back(
        {Step::Kind::kName, {}, static_cast<std::size_t>(found - used.begin())});
    return {name.type, false, begin, at_};
  }

  Type Null(std::size_t begin) {
    Emit(ConditionValue());
    return {{}, true, begin, at_};
  }
  Type Bool(std::size_t begin) const {
    return {{ConditionKind::kBool, Unit::kNone, 0, {}}, false, begin, at_};
  }
  Type Number(Unit unit, std::size_t begin) const {
    return {{ConditionKind::kNumber, unit, 0, {}}, false, begin, at_};
  }
  Type Text(std::string_view word, std::size_t begin) const {
    return {{ConditionKind::kText, Unit::kNone, 0, {std::string(word)}}, false, begin, at_};
  }

  // ---- Kinds and units ----

  std::string_view Excerpt(const Type& type) const {
    return text_.substr(type.begin, type.end - type.begin);
  }

  void RequireBool(const Type& type, std::string_view where) const {
    if (type.type.kind == ConditionKind::kBool && !type.is_null) return;
    Fail(type.begin, fmt::format("found {} {}, allowed: a comparison", NameOf(type), where));
  }
  void RequireNumber(const Type& type, std::string_view where) const {
    if (type.type.kind == ConditionKind::kNumber && !type.is_null) return;
    Fail(type.begin, fmt::format("found {} {}, allowed: a number", NameOf(type), where));
  }

  // Checks two sides of a comparison or a sum. `split`: where the steps of the right one begin.
  void Relate(const Type& left, const Type& right, std::size_t split, Op op) {
    const bool is_equality = op == Op::kEqual || op == Op::kUnequal;
    if (is_equality && (left.is_null || right.is_null)) return;
    if (is_equality && left.type.kind == right.type.kind &&
        left.type.kind != ConditionKind::kNumber) {
      CheckChoice(left, right);
      CheckChoice(right, left);
      return;
    }
    if (left.type.kind != right.type.kind || left.is_null || right.is_null) {
      Fail(left.begin,
           fmt::format("found {} beside {}, allowed: two of a kind", NameOf(left), NameOf(right)));
    }
    RequireNumber(left, "here");
    CheckShare(left, right);
    CheckShare(right, left);
    if (left.type.unit == right.type.unit) return;
    if (right.type.unit == Unit::kNone && left.type.plain != 0) {
      Emit(left.type.plain);
      Emit(Op::kMultiply);
    } else if (left.type.unit == Unit::kNone && right.type.plain != 0) {
      const auto at = parsed_.steps.begin() + static_cast<std::ptrdiff_t>(split);
      const auto literal = parsed_.steps.insert(at, {Step::Kind::kLiteral, right.type.plain, 0});
      parsed_.steps.insert(literal + 1,
                           {Step::Kind::kOperator, {}, static_cast<std::size_t>(Op::kMultiply)});
    } else {
      const Unit unit = left.type.unit == Unit::kNone ? right.type.unit : left.type.unit;
      Fail(left.begin, fmt::format("found {} beside {}, allowed: two of a kind, for example '{}'",
                                   NameOf(left), NameOf(right), UnitExample(unit)));
    }
  }

  // "exposed > 5" is always false: a guard that never speaks.
  void CheckShare(const Type& name, const Type& literal) const {
    if (!name.type.is_share) return;
    const std::optional<double> number = ParseNumber(Excerpt(literal));
    if (!number || *number <= 1) return;
    Fail(literal.begin, fmt::format("found {0} beside a share, allowed: 0 to 1, or a percentage "
                                    "such as {0}%",
                                    Excerpt(literal)));
  }

  // A literal beside a name of which only some texts exist.
  void CheckChoice(const Type& name, const Type& literal) const {
    const std::vector<std::string>& choices = name.type.choices;
    if (choices.size() < 2 || literal.type.choices.size() != 1) return;
    const std::string& word = literal.type.choices.front();
    if (std::find(choices.begin(), choices.end(), word) != choices.end()) return;
    const std::string nearest = Nearest(word, choices);
    Fail(literal.begin,
         fmt::format("found '{}', allowed: {}{}", word, fmt::join(choices, ", "),
                     nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest)));
  }

  ConditionType Combine(const Type& left, Op op, const Type& right) const {
    RequireNumber(left, "in a product");
    RequireNumber(right, "in a product");
    const Unit a = left.type.unit, b = right.type.unit;
    const auto number = [](Unit unit, double plain) {
      return ConditionType{ConditionKind::kNumber, unit, plain, {}};
    };
    if (b == Unit::kNone && op != Op::kModulo) return number(a, left.type.plain);
    if (a == Unit::kNone && op == Op::kMultiply) return number(b, right.type.plain);
    if (a == b && op == Op::kDivide) return number(Unit::kNone, 0);
    if (a == b && op == Op::kModulo) return number(a, left.type.plain);
    for (const UnitRule& rule : kUnitRules) {
      if (rule.left == a && rule.op == op && rule.right == b) return number(rule.result, 0);
    }
    Fail(left.begin, fmt::format("found {} {} {}, which has no meaning", NameOf(left),
                                 op == Op::kMultiply ? "times"
                                 : op == Op::kDivide ? "divided by"
                                                     : "mod",
                                 NameOf(right)));
  }

  // Counts how deep the parser is in itself.
  class Nesting {
   public:
    explicit Nesting(Parser& parser) : parser_(parser) {
      if (++parser_.depth_ > kDeepest) {
        parser_.Fail(0, fmt::format("found more than {} nested parentheses or signs", kDeepest));
      }
    }
    ~Nesting() { --parser_.depth_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

   private:
    Parser& parser_;
  };

  std::string_view text_;
  const Place& place_;
  const std::vector<ConditionName>& known_;
  std::size_t at_ = 0;
  std::size_t sum_begin_ = 0;   // steps before the sum that is being read
  std::size_t left_begin_ = 0;  // and before the last one that was
  int depth_ = 0;
  ParsedCondition parsed_;
};

}  // namespace

ParsedCondition ParseCondition(std::string_view text, const Place& place,
                               const std::vector<ConditionName>& known) {
  return Parser(text, place, known).Parse();
}

}  // namespace stepsim
