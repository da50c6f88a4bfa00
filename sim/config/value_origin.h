// Where does a value come from? Reports show every default and preset that shaped a prediction.
#pragma once

#include <string>

namespace stepsim {

struct ValueOrigin {
  std::string field;   // "plan.ddp.gradient_as_bucket_view"
  std::string value;   // "false"
  std::string origin;  // "default", "job.yaml:12", "a100-80g-dgx.yaml:8", "--set"
};

}  // namespace stepsim
