// stepsim schema: JSON Schemas for editors.
#include <algorithm>
#include <array>
#include <ostream>
#include <string>

#include "models/spec/schema.h"
#include "tools/stepsim/command.h"
#include "tools/sweep/sweep.h"

namespace stepsim {
namespace {

struct SchemaRow {
  std::string_view name;
  std::string (*text)();
};
constexpr std::array kSchemas = {
    SchemaRow{"job", JobSchema},
    SchemaRow{"hardware", HardwareSchema},
    SchemaRow{"network", NetworkSchema},
    SchemaRow{"model", ModelSchema},
    SchemaRow{"collectives", CorrectionsSchema},
    SchemaRow{"calibration", CalibrationSchema},
    SchemaRow{"sweep", SweepSchema},
};

}  // namespace

void AddSchemaCommand(CLI::App& app, const Session& session) {
  const auto kind = std::make_shared<std::string>("job");
  std::vector<std::string> names;
  for (const SchemaRow& row : kSchemas) names.emplace_back(row.name);
  app.add_option("kind", *kind, "job, hardware, network, model, collectives, calibration or sweep")
      ->check(CLI::IsMember(names))
      ->option_text("KIND=job");
  app.callback([kind, &session] {
    const auto row = std::find_if(kSchemas.begin(), kSchemas.end(),
                                  [&](const SchemaRow& r) { return r.name == *kind; });
    session.streams.out << row->text() << '\n';
  });
}

}  // namespace stepsim
