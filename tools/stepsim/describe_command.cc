// stepsim describe: one field or metric, in words.
#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include "models/spec/schema.h"
#include "sim/base/diagnostics.h"
#include "sim/config/describe_fields.h"
#include "sim/metrics/metric_table.h"
#include "tools/stepsim/command.h"
#include "tools/sweep/sweep.h"

namespace stepsim {
namespace {

std::string Describe(const std::string& name) {
  const auto metrics = Metrics();
  const auto metric =
      std::find_if(metrics.begin(), metrics.end(), [&](const Metric& m) { return m.name == name; });
  if (metric != metrics.end()) {
    return fmt::format("{}\n  {}\n  unit     {}\n", metric->name, metric->doc, metric->unit);
  }
  for (const FieldPath& field : ListFields(SweepFields().fields(), "sweep")) {
    if (field.path == name) return DescribeField(field);
  }
  try {
    return DescribeField(name);
  } catch (const ConfigError&) {
    // Neither a field nor a metric: the nearest of both.
    std::vector<std::string> names = AllFieldPaths();
    for (const FieldPath& field : ListFields(SweepFields().fields(), "sweep")) {
      names.push_back(field.path);
    }
    for (const Metric& m : metrics) names.emplace_back(m.name);
    const std::string hint = DidYouMean(name, names);
    if (hint.empty()) throw;
    throw ConfigError(Place{},
                      fmt::format("describe: found no field or metric '{}'{}", name, hint));
  }
}

}  // namespace

void AddDescribeCommand(CLI::App& app, const Session& session) {
  const auto name = std::make_shared<std::string>();
  app.add_option(
         "field", *name,
         "path of a job's field (plan.ddp.no_sync), its last part, of a sweep (sweep.axes), or a "
         "metric")
      ->required()
      ->type_name("FIELD");
  app.callback([name, &session] { session.streams.out << Describe(*name); });
}

}  // namespace stepsim
