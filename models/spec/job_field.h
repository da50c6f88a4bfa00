// Which field of a job does a path mean, and which value does it have?
//
//   const JobField field = FindJobField("plan.ddp.bucket_cap_mb", {});  // ConfigError: no such
//   field.ValueIn(job)                                                  // 25.0, or monostate
//
// Paths are those of --set: keys or their other spellings, with `hardware.*`, `network.*` (the
// network of the hardware) and `model.*`.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "models/spec/job.h"
#include "sim/base/diagnostics.h"
#include "sim/config/field_table.h"

namespace stepsim {

class JobField {
 public:
  const std::string& path() const { return path_; }  // with canonical keys
  const FieldRow& row() const { return *row_; }
  // model, hardware or network: names and files.
  bool IsReference() const { return row_->kind == FieldKind::kReference; }

  // monostate: not set, or the job has no such part. Of a reference the name.
  FieldValue ValueIn(const JobSpec& job) const;

  // Reads a value as a job's file would; a problem is added. monostate: null, a reference, or a
  // problem.
  FieldValue Read(const ConfigNode& value, Diagnostics& problems) const;

 private:
  friend class JobFieldFinder;

  enum class Root { kJob, kHardware, kModel, kTransformer, kLayerList };
  struct Hop {
    const FieldRow* row = nullptr;
    std::size_t index = 0;
  };
  const void* OwnerIn(const JobSpec& job) const;
  void* MakeOwner(JobSpec& job) const;

  std::string path_;
  const FieldRow* row_ = nullptr;
  const FieldTable* table_ = nullptr;  // the row's
  Root root_ = Root::kJob;
  std::vector<Hop> hops_;  // from the root to the row's struct
};

// Throws ConfigError at `place` with the nearest name.
JobField FindJobField(std::string_view path, const Place& place);

// Every field with one value: no lists and no mappings, but references.
std::vector<JobField> ScalarJobFields();

}  // namespace stepsim
