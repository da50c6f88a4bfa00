// How are the pieces of a row written? Texts and numbers of JSON, the same on every run.
#pragma once

#include <string>

#include "sim/config/field_table.h"

namespace stepsim {

std::string JsonNumber(double value);            // the shortest that reads back; else null
std::string JsonValue(const FieldValue& value);  // in the base unit; null when not set

}  // namespace stepsim
