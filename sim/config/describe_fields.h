// What does the table say about a field? The text of `stepsim describe` and a JSON Schema for
// editors.
//
//   plan.ddp.bucket_cap_mb
//     size at which a gradient bucket is closed
//     allowed  a number of MiB more than 0 and at most 1000000000
//     default  25 MiB, with a first bucket of 1 MiB
#pragma once

#include <string>
#include <vector>

#include "sim/config/config_node.h"
#include "sim/config/field_table.h"

namespace stepsim {

struct FieldPath {
  std::string path;  // "plan.ddp.no_sync"; items of a list are "layers.N.name"
  const FieldRow* row = nullptr;
  const FieldTable* table = nullptr;
};

// The table's fields and, behind each, those inside it.
std::vector<FieldPath> ListFields(const FieldTable& table, const std::string& prefix);

std::string DescribeField(const FieldPath& field);

// The schema (draft-07) of a mapping with these fields. kPartial: nothing is required, as in a
// mapping that overrides another.
enum class SchemaMode { kWhole, kPartial };
ConfigNode FieldsSchema(const FieldTable& table, SchemaMode mode);
// Only which keys kWhole requires, at every depth.
ConfigNode RequiredKeysSchema(const FieldTable& table);

}  // namespace stepsim
