// What would the same job be with other values? Reads and checks like a job of its own, from files
// that were read once.
//
//   const JobVariants variants([&](const auto& sets) { return LoadJob("job.yaml", sets, source);
//   }); variants.With({"nodes=4", "plan.ddp.bucket_cap_mb=100"})   // a ResolvedJob, or ConfigError
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "models/spec/job.h"

namespace stepsim {

// What --set takes: "plan.ddp.bucket_cap_mb=100"; "path=null" takes a key out.
using Changes = std::vector<std::string>;

// Other micro-steps: samples per GPU in each, and how many.
Changes BatchChanges(const JobSpec& job, std::int64_t samples, std::int64_t steps);

class JobVariants {
 public:
  // Loads the job with these changes on top of its own. Throws ConfigError. May be called by
  // several threads at once.
  using Load = std::function<ResolvedJob(const Changes&)>;

  // Throws ConfigError when the job itself is wrong.
  explicit JobVariants(Load load);

  const ResolvedJob& base() const { return base_; }
  // Throws ConfigError with every problem of this variant. Keys that the base job gives and that
  // have no effect in the variant (plan.ddp with another strategy) are taken out, not problems.
  // `made`: where to put the changes with those that take keys out, as --set wants them.
  ResolvedJob With(const Changes& changes, Changes* made = nullptr) const;

 private:
  Load load_;
  ResolvedJob base_;
};

}  // namespace stepsim
