// Which keys may a mapping have, and what does each mean? One row per key; from the same rows
// follow reading (read_fields.h), writing, `describe` and the JSON Schema (describe_fields.h).
//
//   const StructTable<LinkSpec>& LinkFields() {
//     static const StructTable<LinkSpec> table{
//         Field("type", &LinkSpec::type, "what the link is made of").Required(),
//         Field("bandwidth", &LinkSpec::bandwidth, "per direction, nominal").Required().Above(0),
//         Field("efficiency", &LinkSpec::efficiency, "reached fraction").Range(0.01, 1),
//     };
//     return table;
//   }
//
// To add a field: a member with its default in the struct and a row here. The unit follows from the
// member's type, the default from the struct itself.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "sim/base/check.h"
#include "sim/base/dtype.h"
#include "sim/base/quantity.h"
#include "sim/base/time.h"
#include "sim/base/units.h"
#include "sim/config/config_node.h"

namespace stepsim {

// A member's value without its type. Numbers with a unit are in the base unit (bytes, seconds,
// ...); monostate is an optional member that is not set.
using FieldValue = std::variant<std::monostate, bool, std::int64_t, double, std::string,
                                std::vector<double>, std::vector<std::string>>;

enum class FieldKind {
  kBool,
  kInteger,
  kNumber,  // with or without a unit
  kNumberList,
  kText,
  kTextList,
  kChoice,  // one of a few words
  kStruct,
  kStructList,
  kReference,  // a key that other code reads
};

struct FieldTable;

struct FieldRow {
  std::string key;
  std::string doc;
  FieldKind kind = FieldKind::kText;
  Unit unit = Unit::kNone;
  std::string unit_note;  // what a plain number counts: "MiB", "tokens"
  std::string unset;      // what holds without the key, where no value of the member says it
  bool is_required = false;
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool excludes_min = false;
  std::vector<std::string> choices;
  std::vector<std::string> aliases;    // other spellings of the key
  const FieldTable* nested = nullptr;  // kStruct, kStructList

  // Access to the member of the struct at `object`.
  std::function<FieldValue(const void* object)> get;
  std::function<bool(void* object, const FieldValue&)> set;  // false: not one of the choices
  std::function<std::size_t(const void* object)> size;       // kStructList
  std::function<void(void* object, std::size_t)> resize;     // kStructList
  std::function<void*(void* object, std::size_t)> child;     // kStruct, kStructList
  std::function<const void*(const void* object, std::size_t)> const_child;
};

struct FieldTable {
  std::vector<FieldRow> rows;
  const void* defaults = nullptr;  // a struct as its default constructor leaves it

  const FieldRow* Find(std::string_view key_or_alias) const;
};

// ---- How a member's type is seen as a FieldValue ----

struct FieldType {
  FieldKind kind = FieldKind::kText;
  Unit unit = Unit::kNone;
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
};

template <class T>
struct FieldCodec;

template <class T, FieldKind kKind>
struct PlainCodec {
  static FieldType Type() { return {kKind}; }
  static FieldValue Get(const T& member) { return member; }
  static bool Set(T& member, const FieldValue& value) { return member = std::get<T>(value), true; }
};
template <>
struct FieldCodec<bool> : PlainCodec<bool, FieldKind::kBool> {};
template <>
struct FieldCodec<std::int64_t> : PlainCodec<std::int64_t, FieldKind::kInteger> {};
template <>
struct FieldCodec<double> : PlainCodec<double, FieldKind::kNumber> {};
template <>
struct FieldCodec<std::string> : PlainCodec<std::string, FieldKind::kText> {};
template <>
struct FieldCodec<std::vector<double>> : PlainCodec<std::vector<double>, FieldKind::kNumberList> {};
template <>
struct FieldCodec<std::vector<std::string>>
    : PlainCodec<std::vector<std::string>, FieldKind::kTextList> {};

// Amounts are never negative; the upper ends are far beyond any machine and far below overflow.
template <class Q, Unit kUnit, std::int64_t kMax>
struct QuantityCodec {
  static FieldType Type() { return {FieldKind::kNumber, kUnit, 0, static_cast<double>(kMax)}; }
  static FieldValue Get(const Q& member) { return static_cast<double>(member.value); }
  static bool Set(Q& member, const FieldValue& value) {
    using Rep = decltype(member.value);
    const double number = std::get<double>(value);
    member.value = static_cast<Rep>(kUnit == Unit::kBytes ? std::round(number) : number);
    return true;
  }
};
inline constexpr std::int64_t kExa = 1'000'000'000'000'000'000;
template <>
struct FieldCodec<Bytes> : QuantityCodec<Bytes, Unit::kBytes, kExa> {};
template <>
struct FieldCodec<Bandwidth> : QuantityCodec<Bandwidth, Unit::kBandwidth, kExa> {};
template <>
struct FieldCodec<FlopRate> : QuantityCodec<FlopRate, Unit::kFlopRate, kExa> {};
template <>
struct FieldCodec<Flops> : QuantityCodec<Flops, Unit::kFlops, 9 * kExa> {};

template <>
struct FieldCodec<Duration> {
  static FieldType Type() { return {FieldKind::kNumber, Unit::kTime, 0, 86'400}; }  // one day
  // Divided, not multiplied by 1e-12: that would be off by one bit and read "4.9999999999999996
  // us".
  static FieldValue Get(const Duration& member) {
    return static_cast<double>(member.count()) / 1e12;
  }
  static bool Set(Duration& member, const FieldValue& value) {
    member = Duration(std::llround(std::get<double>(value) * 1e12));
    return true;
  }
};

template <>
struct FieldCodec<DType> {
  static FieldType Type() { return {FieldKind::kChoice}; }
  static FieldValue Get(const DType& member) { return std::string(ToString(member)); }
  static bool Set(DType& member, const FieldValue& value) {
    const std::optional<DType> dtype = ParseDType(std::get<std::string>(value));
    member = dtype.value_or(member);
    return dtype.has_value();
  }
};

template <class T>
struct FieldCodec<std::optional<T>> {
  static FieldType Type() { return FieldCodec<T>::Type(); }
  static FieldValue Get(const std::optional<T>& member) {
    return member ? FieldCodec<T>::Get(*member) : FieldValue{};
  }
  static bool Set(std::optional<T>& member, const FieldValue& value) {
    if (std::holds_alternative<std::monostate>(value)) return member.reset(), true;
    return FieldCodec<T>::Set(member.emplace(), value);
  }
};

// ---- Rows ----

template <class E>
struct EnumName {
  E value;
  std::string_view name;
};

template <class S>
class StructTable;

// A row for a member of S, with what restricts or explains it.
template <class S>
class Field {
 public:
  template <class T>
  Field(std::string key, T S::*member, std::string doc) {
    Describe(std::move(key), std::move(doc), FieldCodec<T>::Type());
    row_.get = [member](const void* object) { return FieldCodec<T>::Get(From(object).*member); };
    row_.set = [member](void* object, const FieldValue& value) {
      return FieldCodec<T>::Set(From(object).*member, value);
    };
    if constexpr (std::is_same_v<T, DType> || std::is_same_v<T, std::optional<DType>>) {
      row_.choices.assign(DTypeNames().begin(), DTypeNames().end());
    }
  }

  // An enumeration, or a bool with two names. REQUIRES: `names` lives as long as the program.
  template <class E, std::size_t kCount>
  Field(std::string key, E S::*member, const std::array<EnumName<E>, kCount>& names,
        std::string doc) {
    Describe(std::move(key), std::move(doc), {FieldKind::kChoice});
    for (const EnumName<E>& row : names) row_.choices.emplace_back(row.name);
    row_.get = [member, &names](const void* object) -> FieldValue {
      for (const EnumName<E>& row : names) {
        if (row.value == From(object).*member) return std::string(row.name);
      }
      return {};
    };
    row_.set = [member, &names](void* object, const FieldValue& value) {
      for (const EnumName<E>& row : names) {
        if (row.name == std::get<std::string>(value)) {
          return From(object).*member = row.value, true;
        }
      }
      return false;
    };
  }

  template <class N>
  Field(std::string key, N S::*member, const StructTable<N>& table, std::string doc) {
    Describe(std::move(key), std::move(doc), {FieldKind::kStruct});
    row_.nested = &table.fields();
    row_.child = [member](void* object, std::size_t) -> void* { return &(From(object).*member); };
    row_.const_child = [member](const void* object, std::size_t) -> const void* {
      return &(From(object).*member);
    };
  }

  template <class N>
  Field(std::string key, std::vector<N> S::*member, const StructTable<N>& table, std::string doc) {
    Describe(std::move(key), std::move(doc), {FieldKind::kStructList});
    row_.nested = &table.fields();
    row_.size = [member](const void* object) { return (From(object).*member).size(); };
    row_.resize = [member](void* object, std::size_t n) { (From(object).*member).resize(n); };
    row_.child = [member](void* object, std::size_t i) -> void* {
      return &(From(object).*member)[i];
    };
    row_.const_child = [member](const void* object, std::size_t i) -> const void* {
      return &(From(object).*member)[i];
    };
  }

  // A key of the same mapping that other code reads.
  static Field Reference(std::string key, std::string doc) {
    Field field;
    field.Describe(std::move(key), std::move(doc), {FieldKind::kReference});
    return field;
  }

  Field& Required() { return row_.is_required = true, *this; }
  Field& Range(double min, double max) { return row_.min = min, row_.max = max, *this; }
  Field& Above(double min) { return row_.min = min, row_.excludes_min = true, *this; }
  Field& AtMost(double max) { return row_.max = max, *this; }
  Field& Counts(std::string unit_note) { return row_.unit_note = std::move(unit_note), *this; }
  Field& Unset(std::string meaning) { return row_.unset = std::move(meaning), *this; }
  Field& Choices(std::vector<std::string> choices) {
    row_.kind = FieldKind::kChoice;
    return row_.choices = std::move(choices), *this;
  }
  Field& Aliases(std::vector<std::string> aliases) {
    return row_.aliases = std::move(aliases), *this;
  }

  const FieldRow& row() const { return row_; }

 private:
  Field() = default;

  static const S& From(const void* object) { return *static_cast<const S*>(object); }
  static S& From(void* object) { return *static_cast<S*>(object); }

  void Describe(std::string key, std::string doc, const FieldType& type) {
    row_.key = std::move(key);
    row_.doc = std::move(doc);
    row_.kind = type.kind;
    row_.unit = type.unit;
    row_.min = type.min;
    row_.max = type.max;
  }

  FieldRow row_;
};

template <class S>
class StructTable {
 public:
  StructTable(std::initializer_list<Field<S>> fields) {
    fields_.defaults = &defaults_;
    for (const Field<S>& field : fields) fields_.rows.push_back(field.row());
  }
  // Only the rows of `table` with these keys. REQUIRES: it has them.
  StructTable(const StructTable& table, std::initializer_list<std::string_view> keys) {
    fields_.defaults = &defaults_;
    for (const std::string_view key : keys) {
      const FieldRow* row = table.fields_.Find(key);
      SIM_CHECK(row != nullptr, "a part of a table has keys of the table");
      fields_.rows.push_back(*row);
    }
  }
  StructTable(const StructTable&) = delete;  // fields_ points at defaults_
  StructTable& operator=(const StructTable&) = delete;

  const FieldTable& fields() const { return fields_; }
  const S& defaults() const { return defaults_; }

 private:
  S defaults_{};
  FieldTable fields_;
};

// ---- What rows say ----

bool IsUnset(const FieldValue& value);
// "25 MiB", "[1, 25]", "false", "unset" or what that means.
std::string ValueText(const FieldRow& row, const FieldValue& value);
std::string DefaultText(const FieldRow& row, const FieldTable& table);

// "a whole number from 1 to 10000", "ring, hierarchical", "a mapping with type, bandwidth".
std::string AllowedText(const FieldRow& row);

// Every row's value as a tree: reading it gives the same struct again. Unset members are left out.
ConfigNode WriteFields(const FieldTable& table, const void* object);

template <class S>
ConfigNode WriteStruct(const StructTable<S>& table, const S& object) {
  return WriteFields(table.fields(), &object);
}

}  // namespace stepsim
