// Where does one event of a Chrome trace end and the next begin? Finds them in a stream of any
// length, with memory for one event; what an event says is not its business.
//
//   {"schemaVersion": 1, "traceEvents": [{...}, {...}]}    an object with a member traceEvents
//   [{...}, {...}                                          a bare array; the end may be missing
//   {...}{...}                                             several of them, one after another
//
// Lenient: profilers write numbers such as nan and inf, and names that no escape protects.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/trace/byte_source.h"

namespace stepsim {

class EventScanner {
 public:
  explicit EventScanner(ByteSource& source);

  enum class Item {
    kEvent,        // text(): an object with its braces
    kMember,       // key() and text(): another member of the document
    kDocumentEnd,  // of an object or array
    kEnd,          // of the source
    kNoJson,       // what stands here begins no document; nothing follows
  };
  Item Next();
  std::string_view text() const { return text_; }  // until the next call
  std::string_view key() const { return key_; }

  // The source ended inside an event or an object.
  bool is_truncated() const { return is_truncated_; }
  std::size_t bytes_read() const { return bytes_read_; }
  // What the source begins with, for messages: at most 16 bytes.
  const std::string& head() const { return head_; }

 private:
  enum class State { kStart, kObject, kEvents, kOver };

  bool Fill();  // more bytes behind end_; false at the end
  bool SkipSpace(bool and_commas);
  // Nothing: the state has changed, go on there.
  std::optional<Item> NextDocument();
  std::optional<Item> NextMember();
  std::optional<Item> NextEvent();
  Item EndDocument();
  Item EndEarly();
  // Passes over one value; text_ is it, or empty when it is longer than may be kept. False: the
  // source ends first.
  bool TakeValue();
  bool TakeString(std::size_t* at);

  ByteSource& source_;
  std::vector<char> buffer_;
  std::size_t pos_ = 0, end_ = 0;
  State state_ = State::kStart;
  bool is_bare_array_ = false, is_truncated_ = false, is_source_over_ = false;
  std::size_t bytes_read_ = 0;
  std::string_view text_;
  std::string key_, head_;
};

}  // namespace stepsim
