// Rules between the values of a job that the tables of fields cannot hold: keys without effect, and
// combinations that the frameworks refuse. One file of rules for each part of the job.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/spec/job.h"
#include "sim/config/read_fields.h"

namespace stepsim {

// `path` has no effect in a job for which `holds` is true, because of `reason`, in which {strategy}
// stands for the job's. A key before those below it.
struct IneffectiveKey {
  std::string_view path;
  std::string_view reason;
  bool (*holds)(const JobSpec&);
};

std::span<const IneffectiveKey> IneffectiveCollectiveKeys();
std::span<const IneffectiveKey> IneffectiveFsdpKeys();
std::span<const IneffectiveKey> IneffectiveZeroKeys();    // and Megatron's
std::span<const IneffectiveKey> IneffectiveMemoryKeys();  // and those of recomputation
std::span<const IneffectiveKey> IneffectiveParallelKeys();
std::span<const IneffectiveKey> IneffectivePipelineKeys();
std::span<const IneffectiveKey> IneffectiveExpertKeys();

// A job and what was found in reading it: where a check reports.
struct JobProblems {
  const JobSpec& job;
  FieldReading& reading;

  // A check is meaningless when one of the values it compares could not be read.
  bool AnyInvalid(std::initializer_list<std::string_view> paths) const {
    return std::any_of(paths.begin(), paths.end(),
                       [&](std::string_view path) { return reading.IsInvalid(path); });
  }
  void Report(std::string_view path, std::string_view message) const;  // "<path>: <message>"
};

// Combinations that FSDP, DeepSpeed and Megatron refuse, each with their rule.
void CheckFsdp(const JobProblems& problems);
void CheckZero(const JobProblems& problems);
void CheckMegatron(const JobProblems& problems);
void CheckMemory(const JobProblems& problems);
// Mixtures of experts, and how they are dealt out.
void CheckExperts(const JobProblems& problems);
// Do the degrees of parallelism multiply to the GPUs?
void CheckDegrees(const JobProblems& problems);
// Can the network be cut into tensor-parallel parts?
void CheckTensor(const JobProblems& problems);

// Can slow ranks and jitter show?
void CheckSimulate(const JobProblems& problems);
// Do sequence, heads and attention admit context parallelism?
void CheckContext(const JobProblems& problems);
// Does the pipeline's schedule admit the job, and do its layers fill the stages?
void CheckPipeline(const JobProblems& problems);

// plan.data_parallel, where it is not given. REQUIRES: the number of GPUs.
void DeriveReplicas(JobSpec& job, FieldReading& reading);

// What follows from batch.global_batch_size, which is then taken out. REQUIRES: the number of GPUs.
void DeriveBatch(JobSpec& job, FieldReading& reading);

// The value that a field got, and from which other one.
void SetOrigin(FieldReading& reading, std::string_view path, std::string value,
               std::string_view origin);
void SetOrigin(FieldReading& reading, std::string_view path, std::int64_t value,
               std::string_view origin);

// The largest divisor at or below and the smallest above.
std::vector<std::int64_t> NearestDivisors(std::int64_t number, std::int64_t wanted);

}  // namespace stepsim
