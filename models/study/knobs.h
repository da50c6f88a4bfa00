// Which knobs does a job have, and which values are worth trying? One row each.
//
//   for (const Knob& knob : Knobs())
//     if (knob.applies(job)) for (const KnobValue& value : knob.values(job, {})) ...
//       // bucket: "25 MiB" {plan.ddp.bucket_cap_mb=25}
//
// Values are what the job's own framework can be told; whether the rest of the job admits one is
// for the rules of models/spec to say. To add a knob: one row in knobs.cc.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/spec/job.h"
#include "models/study/variants.h"

namespace stepsim {

struct KnobValue {
  std::string label;  // "25 MiB"
  Changes changes;
};

struct KnobLimits {
  bool keeps_batch = true;  // the samples of an optimizer step stay what they are
};

struct Knob {
  std::string_view name;  // "bucket"
  std::string_view doc;
  bool (*applies)(const JobSpec&);
  // In an order that a reader expects; most rows have the job's own value among them. REQUIRES:
  // applies(job).
  std::vector<KnobValue> (*values)(const JobSpec&, const KnobLimits&);
};

std::span<const Knob> Knobs();
const Knob* FindKnob(std::string_view name);  // nullptr: none

}  // namespace stepsim
