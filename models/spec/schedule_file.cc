#include "models/spec/schedule_file.h"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>

#include "models/pipeline/check_schedule.h"
#include "models/pipeline/lowering.h"
#include "models/pipeline/schedule_csv.h"
#include "models/spec/expand_job.h"

namespace stepsim {
namespace {

constexpr std::string_view kPath = "plan.pipeline.schedule";

}  // namespace

void ReadScheduleFile(JobSpec& job, const ConfigSource& source, FieldReading& reading) {
  PipelinePlan& plan = job.plan.pipeline;
  if (job.plan.pipeline_parallel == 1 || !plan.schedule.ends_with(".csv")) return;
  const Place place = reading.PlaceOf(kPath);
  const SourceFile file = source.ReadFile(PathFrom(place, plan.schedule));
  if (!file.error.empty()) {
    reading.diagnostics.Add(place, fmt::format("{}: {}: {}", kPath, file.name, file.error));
    return;
  }
  ScheduleFile read;
  try {
    read = ReadScheduleCsv(file.text, file.name);
  } catch (const ConfigError& error) {
    for (const Diagnostic& d : error.diagnostics()) reading.diagnostics.Add(d.place, d.message);
    return;
  }
  for (const Diagnostic& d : ProblemsOf(read)) reading.diagnostics.Add(d.place, d.message);
  if (!reading.diagnostics.empty()) return;
  const std::string cycle = WaitCycle(read.schedule);
  if (!cycle.empty()) {
    throw SimulationError(
        fmt::format("the schedule of {} cannot run: its ranks wait for each other in a circle\n{}",
                    file.name, cycle));
  }
  plan.file_schedule =
      std::make_shared<const PipelineSchedule>(ComputeOnly(std::move(read.schedule)));
}

}  // namespace stepsim
