#include "models/spec/load_cluster.h"

#include <algorithm>
#include <utility>

#include "models/spec/check_job.h"
#include "models/spec/job.h"
#include "models/spec/load_job.h"
#include "models/spec/spec_fields.h"
#include "sim/config/read_fields.h"

namespace stepsim {
namespace {

// The rows of a job that say something about the machine.
const StructTable<JobSpec>& ClusterFields() {
  static const StructTable<JobSpec> table(
      JobFields(), {"hardware", "network", "calibration", "nodes", "gpus_per_node", "collectives"});
  return table;
}

// A job that only communicates: what a check needs that was written for jobs.
JobSpec ReadMachine(const ExpandedJob& expanded, FieldReading& reading) {
  JobSpec job;
  job.plan.strategy = "none";
  ReadStruct(expanded.job, ClusterFields(), "", job, reading);
  if (expanded.hardware.IsNull()) return job;
  ReadStruct(expanded.hardware, HardwareFields(), "hardware", job.hardware, reading);
  if (!expanded.calibration.IsNull()) {
    ReadStruct(expanded.calibration, CalibrationFields(), "calibration", job.calibration, reading);
  }
  if (!reading.IsGiven("gpus_per_node")) job.gpus_per_node = job.hardware.gpus_per_node;
  CheckCluster(job, reading);
  return job;
}

void LoadCorrectionTable(JobSpec& job, const ConfigSource& source, FieldReading& reading) {
  try {
    job.collectives.correction_table = LoadCorrections(job.collectives.corrections, source);
  } catch (const ConfigError& error) {
    for (Diagnostic diagnostic : error.diagnostics()) {
      if (diagnostic.place.file.empty()) {
        diagnostic.place = reading.PlaceOf("collectives.corrections");
      }
      reading.diagnostics.Add(diagnostic.place, diagnostic.message);
    }
  }
}

}  // namespace

ClusterSpec LoadCluster(const std::vector<Setting>& settings, const ConfigSource& source,
                        Diagnostics diagnostics) {
  FieldReading reading;
  reading.diagnostics = std::move(diagnostics);
  ExpandedJob expanded = ExpandJob(MakeMapping(), settings, source, reading.diagnostics);
  // A calibration may say something of the host, which a machine alone does not have.
  const bool asks_for_host = std::any_of(settings.begin(), settings.end(), [](const Setting& set) {
    return IsAtOrBelow(set.path, "host");
  });
  if (!asks_for_host && expanded.job.IsMapping()) expanded.job.Remove("host");
  JobSpec job = ReadMachine(expanded, reading);
  LoadCorrectionTable(job, source, reading);
  reading.diagnostics.ThrowIfAny();
  return {std::move(job.hardware), std::move(job.calibration), job.nodes,
          job.gpus_per_node,       std::move(job.collectives), std::move(reading.origins)};
}

}  // namespace stepsim
