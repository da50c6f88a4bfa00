// At which site of the step does a collective stand? A profiler does not say. One table of
// heuristics, read from top to bottom: the first row whose every condition holds.
//
//   group "mesh_tp", all_reduce                 -> tensor_parallel
//   all_reduce launched by the backward pass    -> gradient_reduce
//
// To teach it a framework's names: one row in site_rules.cc. A user overrides it by patterns.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/graph/site.h"
#include "sim/graph/work.h"

namespace stepsim {

// What the rules look at.
struct SiteFacts {
  CollectiveOp op{};
  Phase phase = Phase::kOther;   // by whom it was launched
  std::int64_t bytes = 0;        // 0: not known
  std::int64_t group_size = 0;   // 0: not known
  std::string_view group;        // name of the process group: "0", "dp"
  std::string_view description;  // of the process group: "mesh_tp", "DATA_PARALLEL_GROUP"
  std::string_view annotation;   // the innermost around its launch
  std::string_view kernel;
};

struct SiteRule {
  Site site = Site::kNone;
  std::string_view group = {};       // words as in KernelRule, of name or description; empty: any
  std::string_view annotation = {};  // words
  std::string_view kernel = {};      // words
  std::string_view ops = {};         // "all_reduce|reduce_scatter"; empty: any
  std::string_view phases = {};      // "backward"; empty: any
  std::int64_t at_most_bytes = 0;    // 0: any
  bool is_guess = false;             // by the operation alone
  std::string_view why = {};
};
std::span<const SiteRule> SiteRules();

struct SiteChoice {
  Site site = Site::kGradientReduce;
  std::size_t rule = 0;  // index into SiteRules()
  bool is_guess = false;
};
SiteChoice FindSite(const SiteFacts& facts);

// --site REGEX=SITE: the pattern is searched in "group description, group name, collective,
// annotation, kernel", one a line, letter case ignored.
struct SiteOverride {
  std::string pattern;
  Site site = Site::kNone;
};
// Throws ConfigError: a pattern that is none, a site that is unknown (with the nearest).
SiteOverride ParseSiteOverride(std::string_view text);

}  // namespace stepsim
