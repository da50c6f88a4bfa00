#include "tests/support/user_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <utility>

#include "sim/config/field_table.h"
#include "sim/config/read_config.h"
#include "sim/config/read_fields.h"
#include "tests/support/shipped.h"

namespace stepsim::testing {
namespace {

constexpr std::array<EnumName<CaseTier>, 2> kTierNames = {{
    {CaseTier::kA, "A"},
    {CaseTier::kB, "B"},
}};

constexpr std::array<EnumName<CaseStatus>, 3> kStatusNames = {{
    {CaseStatus::kPass, "pass"},
    {CaseStatus::kNotYet, "not_yet"},
    {CaseStatus::kNotModelled, "not_modelled"},
}};

constexpr std::array<EnumName<ExpectationKind>, 5> kKindNames = {{
    {ExpectationKind::kExact, "exact"},
    {ExpectationKind::kRatio, "ratio"},
    {ExpectationKind::kOrdering, "ordering"},
    {ExpectationKind::kBound, "bound"},
    {ExpectationKind::kInverse, "inverse"},
}};

const StructTable<CaseVariant>& VariantFields() {
  using V = CaseVariant;
  static const StructTable<V> table{
      Field("name", &V::name, "how expectations call it").Required(),
      Field<V>::Reference("job", "instead of the case's"),
      Field("sets", &V::sets, "path=value, as --set takes them; ${2 * x} is evaluated"),
      Field("collective", &V::collective, "price this one instead, over all GPUs of the job"),
      Field("bytes", &V::bytes, "of the collective"),
  };
  return table;
}

const StructTable<CaseUnknown>& UnknownFields() {
  using U = CaseUnknown;
  static const StructTable<U> table{
      Field("name", &U::name, "how sets and expectations call it").Required(),
      Field("meaning", &U::meaning, "what it stands for, with its unit").Required(),
      Field("from", &U::from, "one end of the search").Required().Above(0),
      Field("to", &U::to, "the other").Required().Above(0),
      Field("so_that", &U::so_that, "what was measured; rises or falls with it").Required(),
      Field("is", &U::is, "the measured value").Required(),
  };
  return table;
}

const StructTable<CaseExpectation>& ExpectationFields() {
  using E = CaseExpectation;
  static const StructTable<E> table{
      Field("kind", &E::kind, kKindNames, "what is compared").Required(),
      Field("status", &E::status, kStatusNames, "not_yet: it does not hold, and is looked at"),
      Field("claim", &E::claim, "the expectation in words").Required(),
      Field("of", &E::of, "the value: variant.metric, unknowns, numbers, + - * / ( )"),
      Field("order", &E::order, "ordering: values, none above the next"),
      Field("strictly", &E::strictly, "ordering: each below the next"),
      Field("value", &E::value, "exact, ratio, inverse: what it must be"),
      Field("within", &E::within, "fraction of `value` by which it may differ").Range(0, 1),
      Field("plus_minus", &E::plus_minus, "by how much it may differ").Range(0, 1e300),
      Field("at_least", &E::at_least, "bound"),
      Field("at_most", &E::at_most, "bound"),
      Field("reason", &E::reason, "why this tolerance or bound").Required(),
  };
  return table;
}

const StructTable<UserCase>& CaseFields() {
  using C = UserCase;
  static const StructTable<C> table{
      Field("id", &C::id, "UC and three digits").Required(),
      Field("question", &C::question, "in our words").Required(),
      Field("source", &C::source, "where it was asked and measured").Required(),
      Field("measured", &C::measured, "what they measured").Required(),
      Field("missing", &C::missing, "facts that the source does not give; defaults stand there"),
      Field("tier", &C::tier, kTierNames, "A: the source gives what an answer needs"),
      Field("status", &C::status, kStatusNames, "of the whole case").Required(),
      Field("why", &C::why, "why it does not pass, or what stands behind a pass"),
      Field<C>::Reference("job", "a name of configs/jobs, a path, or a job"),
      Field("sets", &C::sets, "path=value, for every variant"),
      Field("variants", &C::variants, VariantFields(), "the job with other settings"),
      Field("find", &C::find, UnknownFields(), "numbers that a measurement fixes, in this order"),
      Field("expect", &C::expect, ExpectationFields(), "what must hold"),
      Field("tests", &C::tests, "tests elsewhere that answer: file Suite.Name"),
  };
  return table;
}

struct CaseList {
  std::vector<UserCase> cases;
};

const StructTable<CaseList>& ListFields() {
  static const StructTable<CaseList> table{
      Field("cases", &CaseList::cases, CaseFields(), "by id"),
  };
  return table;
}

ConfigNode JobOf(const ConfigNode& node) {
  const ConfigNode* job = node.FindValue("job");
  return job != nullptr ? *job : ConfigNode{};
}

// What the rows of the tables cannot say.
class CaseChecker {
 public:
  CaseChecker(const ConfigNode& node, const UserCase& one, Diagnostics& diagnostics)
      : node_(node), case_(one), diagnostics_(diagnostics) {}

  void Check() {
    std::set<std::string> names = {"base"};
    for (const CaseVariant& variant : case_.variants) {
      if (!names.insert(variant.name).second) Report("two variants are called " + variant.name);
      if (variant.collective.has_value() != variant.bytes.has_value()) {
        Report(variant.name + ": collective and bytes go together");
      }
    }
    for (const CaseExpectation& expectation : case_.expect) CheckExpectation(expectation);
    if (!case_.expect.empty() && case_.job.IsNull()) Report("expectations need a job");
    if (case_.expect.empty() && case_.tests.empty() && case_.status == CaseStatus::kPass) {
      Report("nothing shows that it passes");
    }
    if (case_.status != CaseStatus::kPass && case_.why.empty()) Report("without `why`");
  }

 private:
  void Report(const std::string& message) {
    diagnostics_.Add(node_.place, case_.id + ": " + message);
  }

  void CheckExpectation(const CaseExpectation& e) {
    const bool is_order = e.kind == ExpectationKind::kOrdering;
    if (is_order ? e.order.size() < 2 : e.of.empty()) {
      Report(e.claim + ": an ordering has `order`, the others have `of`");
    }
    const bool has_tolerance = e.within.has_value() != e.plus_minus.has_value();
    const bool has_value = e.value.has_value() && has_tolerance;
    const bool has_bound = e.at_least.has_value() || e.at_most.has_value();
    const bool may_bound = e.kind == ExpectationKind::kBound || e.kind == ExpectationKind::kInverse;
    if (!is_order && has_value == (has_bound && may_bound)) {
      Report(e.claim + ": give a value with within or plus_minus; or bounds (bound, inverse)");
    }
  }

  const ConfigNode& node_;
  const UserCase& case_;
  Diagnostics& diagnostics_;
};

template <class E, std::size_t kCount>
std::string_view NameOf(const std::array<EnumName<E>, kCount>& names, E value) {
  for (const EnumName<E>& row : names) {
    if (row.value == value) return row.name;
  }
  return "";
}

template <class T>
const T* FindByName(const std::vector<T>& list, std::string_view name) {
  for (const T& one : list) {
    if (one.name == name) return &one;
  }
  return nullptr;
}

}  // namespace

std::string_view ToString(CaseTier tier) { return NameOf(kTierNames, tier); }
std::string_view ToString(CaseStatus status) { return NameOf(kStatusNames, status); }
std::string_view ToString(ExpectationKind kind) { return NameOf(kKindNames, kind); }

const CaseVariant* UserCase::FindVariant(std::string_view name) const {
  return FindByName(variants, name);
}

const CaseUnknown* UserCase::FindUnknown(std::string_view name) const {
  return FindByName(find, name);
}

std::vector<UserCase> ReadUserCases(const std::string& text, const std::string& file_name) {
  const ConfigNode root = ReadConfig(text, file_name);
  FieldReading reading;
  CaseList list;
  ReadStruct(root, ListFields(), "", list, reading);
  reading.diagnostics.ThrowIfAny();
  Diagnostics problems;
  for (std::size_t i = 0; i < list.cases.size(); ++i) {
    const ConfigNode& node = root.FindValue("cases")->items[i];
    UserCase& one = list.cases[i];
    one.place = fmt::format("{}:{}", file_name, node.place.line);
    one.job = JobOf(node);
    for (std::size_t k = 0; k < one.variants.size(); ++k) {
      one.variants[k].job = JobOf(node.FindValue("variants")->items[k]);
    }
    CaseChecker(node, one, problems).Check();
  }
  problems.ThrowIfAny();
  return std::move(list.cases);
}

std::vector<UserCase> ShippedUserCases() {
  std::vector<UserCase> all;
  for (const auto& entry : std::filesystem::directory_iterator(RepositoryPath("tests/cases"))) {
    if (entry.path().extension() != ".yaml") continue;
    const std::string name = "tests/cases/" + entry.path().filename().string();
    for (UserCase& one : ReadUserCases(ReadRepositoryFile(name), name)) {
      all.push_back(std::move(one));
    }
  }
  std::sort(all.begin(), all.end(),
            [](const UserCase& a, const UserCase& b) { return a.id < b.id; });
  return all;
}

}  // namespace stepsim::testing
