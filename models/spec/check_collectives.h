// Do the keys of `collectives:` make sense, alone and together? Part of CheckJob.
#pragma once

#include <span>
#include <string_view>

#include "models/spec/job.h"
#include "sim/config/read_fields.h"

namespace stepsim {

// Keys of the job that have no effect with its model of collectives or NCCL release, and why.
struct IneffectiveCollectiveKey {
  std::string_view path;
  std::string_view reason;
  bool (*holds)(const JobSpec&);
};
std::span<const IneffectiveCollectiveKey> IneffectiveCollectiveKeys();

void CheckCollectives(const JobSpec& job, FieldReading& reading);

}  // namespace stepsim
