// What does one event say? Its members, one after another, without building a tree.
//
//   EventFields fields("{\"ph\":\"X\",\"ts\":12.5}");
//   while (fields.Next()) { if (fields.key() == "ts") ...fields.value()... }
//
// Lenient as the scanner is: what is no JSON ends the reading of this event, not of the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "models/trace/trace_data.h"
#include "sim/base/time.h"

namespace stepsim {

class EventFields {
 public:
  explicit EventFields(std::string_view object);  // with its braces

  bool Next();  // false: no more
  std::string_view key() const { return key_; }
  // A string without its quotation marks, escapes as they are; everything else as it stands.
  std::string_view value() const { return value_; }
  bool is_string() const { return is_string_; }
  bool is_object() const { return !is_string_ && !value_.empty() && value_.front() == '{'; }
  bool is_broken() const { return is_broken_; }

 private:
  void SkipSpace();
  bool TakeString(std::string_view* text);
  bool TakeValue();
  bool Break();

  std::string_view rest_;
  std::string_view key_, value_;
  bool is_string_ = false, is_broken_ = false;
};

// The text that the escapes stand for; surrogates that make no character become '?'.
std::string UnescapeJson(std::string_view text);

// Microseconds, as trace events count, exactly to the picosecond where they have no exponent.
// Nothing for what is no number, not finite, or beyond the range (292 years; 106 days).
std::optional<TraceMoment> ParseMoment(std::string_view microseconds);
std::optional<Duration> ParseLength(std::string_view microseconds);  // >= 0
// "12", "12.0"; nothing for others.
std::optional<std::int64_t> ParseWhole(std::string_view text);

// Elements of all the shapes in a text such as "[[8, 1024, 8816], [16]]"; 0: it has none.
std::int64_t CountElements(std::string_view shapes);

}  // namespace stepsim
