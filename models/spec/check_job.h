// Do the values of a job fit together? What single rows of the field tables cannot say.
//
//   job.yaml:7:3: model.transformer.kv_heads: heads (6) must be a multiple of kv_heads (4); nearest
//   valid: 3, 6
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "models/spec/job.h"
#include "sim/config/read_fields.h"

namespace stepsim {

// Fills in what follows from other values where it is not given: kv_heads, head_dim, GPUs per node,
// replicas. Their origins name what they follow from.
void DeriveDefaults(JobSpec& job, FieldReading& reading);
void DeriveTransformerDefaults(TransformerSpec& spec, const std::string& path,
                               FieldReading& reading);

// Adds a diagnostic for every contradiction and for every given key without any effect.
void CheckJob(const JobSpec& job, FieldReading& reading);

// The part of it that a machine alone can fail: its size, a network without a second node, the keys
// of `collectives:`.
void CheckCluster(const JobSpec& job, FieldReading& reading);

// The keys that mean nothing in this job ("plan.ddp" without DDP); the resolved job omits them.
std::vector<std::string_view> KeysWithoutEffect(const JobSpec& job);

// Those of them that somebody wrote: where a job was changed, what has to be taken out with it.
std::vector<std::string_view> GivenWithoutEffect(const JobSpec& job);

}  // namespace stepsim
