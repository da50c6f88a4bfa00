#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "models/spec/context_split.h"
#include "models/spec/job_rules.h"

namespace stepsim {
namespace {

constexpr std::string_view kDegree = "plan.context_parallel";

// Can every context parallel rank have the same part of the sequence, and of the heads?
class ContextChecker {
 public:
  explicit ContextChecker(const JobProblems& problems)
      : problems_(problems), job_(problems.job), ranks_(problems.job.plan.context_parallel) {}

  void Check() {
    const TransformerSpec* spec = TransformerOf(job_);
    if (spec == nullptr) {
      Report(kDegree,
             "found {} with a model that is a list of layers, allowed: 1; a transformer's "
             "sequences can be cut",
             ranks_);
      return;
    }
    if (job_.attention == AttentionKind::kUnfused) {
      Report("attention",
             "found 'unfused' with context_parallel ({}), whose steps are fused kernels, allowed: "
             "flash",
             ranks_);
    }
    CheckSequence();
    CheckHeads(*spec);
  }

 private:
  template <typename... Args>
  void Report(std::string_view path, fmt::format_string<Args...> text, Args&&... args) const {
    problems_.Report(path, fmt::format(text, std::forward<Args>(args)...));
  }

  void CheckSequence() const {
    if (problems_.AnyInvalid({"batch.sequence_length", "plan.context.load_balance"})) return;
    const bool is_balanced = job_.plan.context.load_balance;
    const std::int64_t pieces = is_balanced ? 2 * ranks_ : ranks_;
    const std::int64_t tokens = job_.batch.sequence_length;
    if (tokens % pieces == 0) return;
    const std::int64_t below = tokens / pieces * pieces;
    const std::string nearest =
        below == 0 ? fmt::format("{}", pieces) : fmt::format("{} or {}", below, below + pieces);
    Report("batch.sequence_length",
           "context_parallel ({}) cuts sequence_length ({}) into {} equal pieces; nearest valid: "
           "{}{}",
           ranks_, tokens, pieces, nearest,
           is_balanced && tokens % ranks_ == 0 ? ", or plan.context.load_balance: false" : "");
  }

  // Ranks that swap sequence for heads each get equally many, of queries and of keys.
  void CheckHeads(const TransformerSpec& spec) const {
    if (problems_.AnyInvalid({"plan.context.comm_type", "plan.tensor_parallel", "plan.mesh_order",
                              "model.transformer.heads", "model.transformer.kv_heads"})) {
      return;
    }
    const std::int64_t parts = SplitContext(job_).heads;
    const std::int64_t tensor = job_.plan.tensor_parallel;
    const std::int64_t heads = std::max<std::int64_t>(spec.heads / tensor, 1);
    const std::int64_t key_heads = std::max<std::int64_t>(spec.kv_heads / tensor, 1);
    const std::int64_t common = std::gcd(heads, key_heads);
    if (common % parts == 0) return;
    const bool is_whole = job_.plan.context.comm_type == ContextExchange::kAllToAll;
    Report("plan.context.comm_type",
           "{} ranks {} swap sequence for heads and must divide the {} heads and {} kv_heads of a "
           "rank of model {}; nearest valid: {}comm_type p2p or all_gather",
           parts, is_whole ? "of context_parallel" : "of context_parallel in a node", heads,
           key_heads, job_.model.name,
           is_whole ? fmt::format("context_parallel {}, or ",
                                  fmt::join(NearestDivisors(common, parts), " or "))
                    : "");
  }

  const JobProblems& problems_;
  const JobSpec& job_;
  const std::int64_t ranks_;
};

}  // namespace

void CheckContext(const JobProblems& problems) {
  const JobSpec& job = problems.job;
  if (job.plan.context_parallel == 1 || problems.AnyInvalid({kDegree})) return;
  ContextChecker(problems).Check();
}

}  // namespace stepsim
