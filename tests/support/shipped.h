// How do tests read what configs/ ships? Files by their path in the repository, jobs by name.
//
//   const ResolvedJob job = LoadShipped("lesson_serial", {"nodes=2"});
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "models/spec/config_source.h"
#include "models/spec/load_job.h"
#include "sim/metrics/step_report.h"
#include "sim/timeline/timeline.h"

namespace stepsim::testing {

// "configs/models/gpt2.yaml" -> where it lies on this machine.
std::string RepositoryPath(const std::string& path);
std::string ReadRepositoryFile(const std::string& path);

DirectoryConfigSource ShippedConfigs();
ResolvedJob LoadShipped(const std::string& job, const std::vector<std::string>& sets = {});
// A job as text; names in it are those of configs/.
ResolvedJob LoadText(const std::string& text, const std::vector<std::string>& sets = {});

// compute + contention + exposed + peer_wait + bubble + host + idle == step on every rank, to the
// picosecond.
void ExpectIdentity(const StepReport& report);
// The pieces of the critical path tile the reported step, to the picosecond.
void ExpectPathTilesStep(const TaskGraph& graph, const Timeline& timeline,
                         const StepReport& report);

// Names of parameterised tests: letters, digits and '_' of the parameter.
std::string PlainName(const ::testing::TestParamInfo<std::string>& info);

}  // namespace stepsim::testing
