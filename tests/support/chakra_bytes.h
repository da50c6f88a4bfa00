// Chakra traces for tests, byte by byte as protobuf's wire format has them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stepsim {

inline std::string Varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>((value & 0x7f) | 0x80);
  return bytes + static_cast<char>(value);
}
// Field `number` as a varint (wire type 0), or as bytes behind their length (wire type 2).
inline std::string Field(std::uint64_t number, std::uint64_t value) {
  return Varint(number << 3) + Varint(value);
}
inline std::string Field(std::uint64_t number, std::string_view bytes) {
  return Varint(number << 3 | 2) + Varint(bytes.size()) + std::string(bytes);
}
inline std::string Delimited(const std::string& message) {
  return Varint(message.size()) + message;
}

// An attribute: int64_val is field 9, uint64_val 13, bool_val 27, string_val 29.
inline std::string Int64(std::string_view name, std::uint64_t value) {
  return Field(10, Field(1, name) + Field(9, value));
}
inline std::string Bool(std::string_view name, bool value) {
  return Field(10, Field(1, name) + Field(27, value ? 1 : 0));
}
inline std::string Text(std::string_view name, std::string_view value) {
  return Field(10, Field(1, name) + Field(29, value));
}

struct NodeBytes {
  std::uint64_t id = 0;
  std::uint64_t type = 4;  // COMP_NODE
  std::vector<std::uint64_t> after = {};
  std::uint64_t duration_us = 0;
  std::string attributes = {};
  std::string name = "node";
};

inline std::string Node(const NodeBytes& node) {
  std::string after;  // packed, as proto3 writes numbers
  for (const std::uint64_t id : node.after) after += Varint(id);
  return Delimited(Field(1, node.id) + Field(2, node.name) + Field(3, node.type) +
                   (after.empty() ? "" : Field(5, after)) + Field(7, node.duration_us) +
                   node.attributes);
}
inline std::string Header() { return Delimited(Field(1, "0.0.4")); }

}  // namespace stepsim
