// How does a tree become a checked struct?
//
//   FieldReading reading;
//   LinkSpec link;
//   ReadStruct(node, LinkFields(), "network.link", link, reading);
//   reading.diagnostics.ThrowIfAny();
//
// Unknown, repeated, missing, mistyped and out-of-range keys are all collected, each as
//   net.yaml:3:15: network.link.bandwidth: found '25', allowed: ...
// A member with a problem keeps its default, so that later checks can go on.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/diagnostics.h"
#include "sim/config/config_node.h"
#include "sim/config/field_table.h"
#include "sim/config/value_origin.h"

namespace stepsim {

// What reading leaves behind besides the struct.
struct FieldReading {
  Diagnostics diagnostics;
  std::vector<ValueOrigin> origins;                   // every field, in the order of the rows
  std::map<std::string, Place, std::less<>> given;    // path -> place of the key, as written
  std::map<std::string, Place, std::less<>> invalid;  // given, but with a problem

  bool IsGiven(std::string_view path) const { return given.find(path) != given.end(); }
  bool IsInvalid(std::string_view path) const { return invalid.find(path) != invalid.end(); }
  // The place of a given field, else that of the nearest mapping around it that was given.
  Place PlaceOf(std::string_view path) const;
};

enum class UnknownKeys { kReport, kIgnore };

// `path` is the mapping's own place in the job ("" at the top). A null node is an empty mapping.
void ReadFields(const ConfigNode& node, const FieldTable& table, const std::string& path,
                void* object, FieldReading& reading, UnknownKeys unknown = UnknownKeys::kReport);

template <class S>
void ReadStruct(const ConfigNode& node, const StructTable<S>& table, const std::string& path,
                S& object, FieldReading& reading, UnknownKeys unknown = UnknownKeys::kReport) {
  ReadFields(node, table.fields(), path, &object, reading, unknown);
}

// Gives one field of a struct that was read another value, checked like a file's. `path` counts
// from the table: "gpu.peak.bf16". False, with the struct as it was, when the table has no such
// field, when it holds more than one value, or when the value is wrong.
bool SetField(const ConfigNode& value, const FieldTable& table, std::string_view path,
              void* object);

// "job.yaml:12", "--set", "--nodes", "default" (an unknown place).
std::string OriginText(const Place& place);

}  // namespace stepsim
