// stepsim merge: the shards of a sweep joined.
#include <memory>
#include <string>
#include <vector>

#include "tools/stepsim/command.h"
#include "tools/stepsim/job_options.h"
#include "tools/stepsim/sweep_report.h"
#include "tools/sweep/results.h"

namespace stepsim {

void AddMergeCommand(CLI::App& app, const Session& session) {
  const auto files = std::make_shared<std::vector<std::string>>();
  app.add_option("file", *files, "result files of stepsim sweep: every shard once")
      ->type_name("FILE")
      ->required();
  const auto options = AddSweepReportOptions(app);
  app.callback([files, options, &session] {
    CheckExports(*options);
    RefuseToReplace(*files, options->exports);
    ReportSweep(SweepResults(*files), *options, session);
  });
}

}  // namespace stepsim
