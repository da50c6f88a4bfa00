// What does a practitioner's question look like as data? The entries of tests/cases/*.yaml.
//
//   cases:
//     - id: UC079
//       question: What does NVLink gain for GPT-2 on two cards?
//       source: https://...
//       measured: 0.51 s a step with NVLink, 0.66 s without
//       status: pass
//       job: {model: gpt2, hardware: {...}, ...}    # a name, a path, or the job itself
//       variants:
//         - {name: pcie, sets: ["hardware.intra_node.bandwidth=4 GB/s"]}
//       expect:
//         - kind: ratio
//           claim: 1.29 times as long without NVLink
//           of: pcie.step_time_s / base.step_time_s
//           value: 1.29
//           plus_minus: 0.12
//           reason: of the two totals, 200 steps each
//
// The variant `base` is the job as it is. Values are those of `stepsim list metrics`, and a few
// more (case_values.h). tests/cases/README.md tells how to add a case.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/base/quantity.h"
#include "sim/config/config_node.h"

namespace stepsim::testing {

// A: the source gives what an answer needs; B: something else stands in for a part of it.
enum class CaseTier { kA, kB };
enum class CaseStatus { kPass, kNotYet, kNotModelled };
enum class ExpectationKind { kExact, kRatio, kOrdering, kBound, kInverse };

std::string_view ToString(CaseTier tier);
std::string_view ToString(CaseStatus status);  // "not_yet"
std::string_view ToString(ExpectationKind kind);

// The job with some settings, or one collective over all its GPUs.
struct CaseVariant {
  std::string name;
  ConfigNode job;                 // null: the case's
  std::vector<std::string> sets;  // after those of the case; "${2 * x}" is evaluated
  std::optional<std::string> collective;
  std::optional<Bytes> bytes;
};

// A number that the case does not give, but a measurement of it does: by bisection.
struct CaseUnknown {
  std::string name;
  std::string meaning;  // "products' share of peak"
  double from = 0, to = 0;
  std::string so_that;  // rises or falls throughout
  double is = 0;
};

struct CaseExpectation {
  ExpectationKind kind = ExpectationKind::kExact;
  CaseStatus status = CaseStatus::kPass;
  std::string claim;                                // in words
  std::string of;                                   // all kinds but ordering
  std::vector<std::string> order;                   // ordering: none is above the next
  bool strictly = false;                            // ordering: each is below the next
  std::optional<double> value, within, plus_minus;  // exact, ratio, inverse
  std::optional<double> at_least, at_most;          // bound, inverse
  std::string reason;                               // of the tolerance
};

struct UserCase {
  std::string id, question, source, measured, missing, why;
  CaseTier tier = CaseTier::kA;
  CaseStatus status = CaseStatus::kPass;
  ConfigNode job;  // null: only `tests` answer
  std::vector<std::string> sets;
  std::vector<CaseVariant> variants;
  std::vector<CaseUnknown> find;
  std::vector<CaseExpectation> expect;
  std::vector<std::string> tests;  // "tests/configs/resnet_buckets_test.cc ResNetBuckets.CapOf25"
  std::string place;               // "tests/cases/buckets.yaml:12"

  const CaseVariant* FindVariant(std::string_view name) const;
  const CaseUnknown* FindUnknown(std::string_view name) const;
};

// Throws ConfigError with every problem of the text.
std::vector<UserCase> ReadUserCases(const std::string& text, const std::string& file_name);
// Those of tests/cases/*.yaml, by id.
std::vector<UserCase> ShippedUserCases();

}  // namespace stepsim::testing
