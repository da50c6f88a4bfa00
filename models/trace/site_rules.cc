#include "models/trace/site_rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <regex>

#include "models/trace/kernel_rules.h"
#include "sim/base/diagnostics.h"
#include "sim/base/nearest.h"

namespace stepsim {
namespace {

// Groups first, then who called, then the operation and its place in the step; guesses last.
constexpr std::array kRules = {
    // Kernels that only one site uses.
    SiteRule{.site = Site::kExpertParallel,
             .kernel = "ep::internode|ep::intranode|deep_ep",
             .why = "DeepEP's dispatch and combine"},
    // Experts and context before data and tensor: their groups may carry both words. Gradients of
    // experts are reduced over "expert data" groups.
    SiteRule{.site = Site::kGradientReduce,
             .group = "expert_data|expert data|edp|dp_mod_ep|intra_expert_data",
             .ops = "all_reduce|reduce_scatter",
             .why = "a group of the experts' copies"},
    SiteRule{.site = Site::kParameterGather,
             .group = "expert_data|expert data|edp|dp_mod_ep|intra_expert_data",
             .ops = "all_gather|broadcast",
             .why = "a group of the experts' copies"},
    SiteRule{.site = Site::kExpertParallel,
             .group = "expert|moe|mesh_ep|^ep",
             .why = "a group of experts"},
    SiteRule{.site = Site::kPipelineTransfer,
             .group = "pipeline|mesh_pp|^pp|embedding_group|position_embedding",
             .why = "a group of pipeline stages"},
    // Gradients and parameters of data parallel groups, with context folded in or not.
    SiteRule{.site = Site::kGradientReduce,
             .group = "data_parallel|data parallel|data and context|dp_shard|dp_replicate|mesh_dp|"
                      "mesh_fsdp|fsdp|^dp|zero",
             .ops = "all_reduce|reduce_scatter|reduce",
             .why = "a data parallel group reduces"},
    SiteRule{.site = Site::kParameterGather,
             .group = "data_parallel|data parallel|data and context|dp_shard|dp_replicate|mesh_dp|"
                      "mesh_fsdp|fsdp|^dp|zero",
             .ops = "all_gather|broadcast",
             .why = "a data parallel group gathers"},
    SiteRule{.site = Site::kContextParallel,
             .group = "context|mesh_cp|^cp|sequence_parallel_group|ulysses|ring_attn",
             .why = "a group that splits the sequence"},
    SiteRule{.site = Site::kTensorParallel,
             .group = "tensor|mesh_tp|^tp|model_parallel|model parallel",
             .why = "a tensor parallel group"},
    // Who called.
    SiteRule{.site = Site::kGradientReduce,
             .annotation = "post_backward|foreach_reduce|reduce_scatter|reduce_gradients|"
                           "allreduce_hook|reduce_ipg|average_tensor",
             .ops = "all_reduce|reduce_scatter|reduce|all_to_all",
             .why = "called by a reduction of gradients"},
    SiteRule{.site = Site::kParameterGather,
             .annotation = "fsdp::|fully_shard|all_gather|unshard|pre_forward|pre_backward|"
                           "fetch_sub_module|param",
             .ops = "all_gather|broadcast",
             .why = "called by a gather of parameters"},
    SiteRule{.site = Site::kExpertParallel,
             .annotation = "moe|expert|dispatch|combine|alltoall|all_to_all|all2all",
             .ops = "all_to_all|send_recv",
             .why = "called by an exchange of tokens or embeddings"},
    // What is left: the operation and when it was launched.
    SiteRule{.site = Site::kOptimizer,
             .ops = "all_reduce",
             .phases = "optimizer",
             .at_most_bytes = 4096,
             .why = "a few numbers in the optimizer: a norm"},
    SiteRule{.site = Site::kGradientReduce,
             .ops = "all_reduce|reduce_scatter|reduce",
             .phases = "backward",
             .why = "reduces during the backward pass"},
    SiteRule{.site = Site::kParameterGather,
             .ops = "all_gather|broadcast",
             .phases = "forward|backward|optimizer",
             .is_guess = true,
             .why = "gathers"},
    SiteRule{
        .site = Site::kExpertParallel, .ops = "all_to_all", .is_guess = true, .why = "all to all"},
    SiteRule{.site = Site::kPipelineTransfer,
             .ops = "send_recv",
             .is_guess = true,
             .why = "point to point"},
    SiteRule{.site = Site::kTensorParallel,
             .ops = "all_reduce|reduce_scatter",
             .phases = "forward",
             .is_guess = true,
             .why = "reduces during the forward pass"},
    SiteRule{.site = Site::kTensorParallel,
             .ops = "peer_copy",
             .is_guess = true,
             .why = "copies between peers"},
    SiteRule{.site = Site::kParameterGather,
             .ops = "all_gather|broadcast",
             .is_guess = true,
             .why = "gathers"},
    SiteRule{.site = Site::kGradientReduce, .is_guess = true, .why = "anything else"},
};

bool Holds(std::string_view text, std::string_view words) {
  return words.empty() || FitsWords(text, words);
}

// One of the words as a whole.
bool IsOneOf(std::string_view name, std::string_view words) {
  if (words.empty()) return true;
  while (!words.empty()) {
    const std::size_t end = std::min(words.find('|'), words.size());
    if (words.substr(0, end) == name) return true;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return false;
}

bool Fits(const SiteRule& rule, const SiteFacts& facts) {
  if (rule.at_most_bytes > 0 && (facts.bytes <= 0 || facts.bytes > rule.at_most_bytes))
    return false;
  return IsOneOf(ToString(facts.op), rule.ops) && IsOneOf(ToString(facts.phase), rule.phases) &&
         Holds(facts.kernel, rule.kernel) && Holds(facts.annotation, rule.annotation) &&
         (Holds(facts.group, rule.group) || Holds(facts.description, rule.group));
}

}  // namespace

std::span<const SiteRule> SiteRules() { return kRules; }

SiteChoice FindSite(const SiteFacts& facts) {
  for (std::size_t i = 0; i < kRules.size(); ++i) {
    if (Fits(kRules[i], facts)) return {kRules[i].site, i, kRules[i].is_guess};
  }
  return {Site::kGradientReduce, kRules.size() - 1, true};
}

SiteOverride ParseSiteOverride(std::string_view text) {
  const std::string place = fmt::format("--site {}", text);
  const std::size_t equals = text.rfind('=');
  if (equals == std::string_view::npos || equals == 0) {
    throw ConfigError({place, 0, 0}, "expected PATTERN=SITE, such as 'mesh_tp=tensor_parallel'");
  }
  const std::string_view name = text.substr(equals + 1);
  std::vector<std::string> names;
  SiteOverride found{std::string(text.substr(0, equals)), Site::kNone};
  for (std::size_t i = 0; i < kSiteCount; ++i) {
    names.emplace_back(ToString(static_cast<Site>(i)));
    if (names.back() == name) found.site = static_cast<Site>(i);
  }
  if (found.site == Site::kNone) {
    const std::string nearest = Nearest(name, names);
    throw ConfigError({place, 0, 0},
                      fmt::format("found site '{}', allowed: {}{}", name, fmt::join(names, ", "),
                                  nearest.empty() ? "" : "; did you mean '" + nearest + "'?"));
  }
  try {
    const std::regex pattern(found.pattern, std::regex::icase);
  } catch (const std::regex_error& error) {
    throw ConfigError({place, 0, 0}, fmt::format("'{}' is no regular expression: {}", found.pattern,
                                                 error.what()));
  }
  return found;
}

}  // namespace stepsim
