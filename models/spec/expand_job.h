// What does a job say once its names are replaced by what they name?
//
//   {model: gpt2, hardware: a100-80g-dgx, network: ethernet-25g} + --set hardware.gpu.memory=40GiB
//     -> job {..., no references}, hardware {gpu: {memory: 40GiB, ...}, network: {...}}, model
//     {...}
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "models/spec/config_source.h"
#include "sim/base/diagnostics.h"
#include "sim/config/config_node.h"

namespace stepsim {

struct ExpandedJob {
  ConfigNode job;          // with the references as they were written
  ConfigNode hardware;     // null when it could not be found
  ConfigNode model;        // null when it could not be found
  ConfigNode calibration;  // null where there is none; its values lie over `hardware`
};

// Splits "plan.x=1" into path and value, place "--set plan.x=1".
struct Setting {
  std::string path;
  ConfigNode value;
  Place place;
};
std::vector<Setting> ParseSettings(const std::vector<std::string>& sets, Diagnostics& diagnostics);

// References are a name of configs/ (or enough words of one: NamesWithWords), a path relative to
// the file that holds it, or a mapping, which may begin with `base: <name or path>`. Problems are
// added to `diagnostics`.
ExpandedJob ExpandJob(ConfigNode job, const std::vector<Setting>& settings,
                      const ConfigSource& source, Diagnostics& diagnostics);

// A file of one kind as the tables read it: without `sources:`, a Hugging Face configuration as a
// model. `path` is its place in a job, for messages.
ConfigNode PrepareMapping(ConfigNode node, ConfigKind kind, std::string_view path,
                          Diagnostics& diagnostics);

// Whether a reference is a file's path, not a name of configs/.
bool IsPath(const std::string& text);

// A path counts from the file that holds it; from the working folder when it is an option's.
std::string PathFrom(const Place& place, const std::string& path);

}  // namespace stepsim
