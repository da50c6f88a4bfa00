// Which numbers may a case ask of a variant? Those of `stepsim list metrics`, and those of its
// report that no metric shows. To add one: a row in case_values.cc.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "models/spec/job.h"
#include "sim/metrics/step_report.h"
#include "tests/support/user_case.h"

namespace stepsim::testing {

// Throws std::invalid_argument with the nearest name.
double ReportValue(const StepReport& report, const std::string& name);

// time_s, algbw_gb_s, busbw_gb_s as nccl-tests has them, sms: the variant's collective over all
// GPUs of the job, alone. Throws as above.
double CollectiveValue(const JobSpec& job, const CaseVariant& variant, const std::string& name);

}  // namespace stepsim::testing
