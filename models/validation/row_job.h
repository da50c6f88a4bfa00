// The job that a published row describes, while it is put together: what the row says, what was
// assumed because it does not say it, and why it cannot be predicted.
//
//   RowJob job(table.Row(0));
//   job.ApplyFirst("recompute", kRecompute);       // settings of the first rule that matches
//   job.Set("plan.tensor_parallel", "8");
//   if (job.IsSkipped()) ...
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/validation/published_row.h"
#include "models/validation/text_rules.h"
#include "sim/config/config_node.h"

namespace stepsim {

// How the GPUs are dealt out; 1 where the row is silent.
struct RowDegrees {
  std::int64_t gpus = 1;
  std::int64_t tensor = 1;
  std::int64_t pipeline = 1;
  std::int64_t chunks = 1;
  std::int64_t context = 1;
  std::int64_t expert = 1;
  std::int64_t data = 1;
};

class RowJob {
 public:
  explicit RowJob(PublishedRow row) : row_(row), root_(MakeMapping()) {}

  const PublishedRow& row() const { return row_; }
  RowDegrees degrees;
  std::string stack;      // the software, a row of kStacks
  std::string precision;  // "bf16": of the products

  // ---- Settings, in the words of a job file ----
  void Set(std::string_view path, std::string value);
  void SetInteger(std::string_view path, std::int64_t value) { Set(path, std::to_string(value)); }
  void Apply(const TextRule& rule);  // its settings, where they mean anything to this job
  bool Has(std::string_view path) const;

  // ---- What is not in the row ----
  // Noted once each: "micro_batch: 1 (not stated; ...)".
  void Assume(std::string_view what, std::string_view why);
  // The row is left out. Every reason is kept; the first one names the row's status.
  void Skip(std::string_view column, std::string_view why);
  bool IsSkipped() const { return !reasons_.empty(); }

  // A filled cell that is no whole number skips the row; `fallback` where it is empty.
  std::int64_t Integer(std::string_view column, std::int64_t fallback);

  // The first rule for a cell's text. A text that no rule knows skips the row. A rule with the
  // words
  // "" is for the empty cell, and what it says is an assumption.
  const TextRule* ApplyFirst(std::string_view column, std::span<const TextRule> rules);
  // Every rule that matches; at least one has to.
  void ApplyAll(std::string_view column, std::span<const TextRule> rules);

  const ConfigNode& root() const { return root_; }
  const std::vector<std::string>& assumptions() const { return assumptions_; }
  std::string Reason() const;

 private:
  bool Means(When when) const;
  void SkipUnknown(std::string_view column, std::span<const TextRule> rules);

  PublishedRow row_;
  ConfigNode root_;
  std::vector<std::string> assumptions_, reasons_;
};

}  // namespace stepsim
