// Which corrections bring NCCL's table closest to measurements? A robust fit of
// CollectiveCorrection rows, in three levels: all transports of a kind (inside a node, between
// nodes), one transport, one transport and GPU generation. Each level is drawn to the one above, so
// that a row with few points stays near what holds elsewhere, and an unseen transport has a row
// too.
//
//   CollectiveCorrections table = FitCorrections(points, "nccl");
//
// Every system weighs the same, however many points it has. Method: models/README.md, "Corrections
// and calibration".
#pragma once

#include <string>
#include <vector>

#include "models/spec/collective_spec.h"

namespace stepsim {

struct FitPoint {
  std::string group;  // the cluster; a leave-one-out fit leaves out all its points
  std::string transport, generation, algorithm, protocol;  // CorrectionKey's
  double latency = 0;                                      // by NCCL's table, seconds
  double transfer = 0;                                     // by NCCL's table, seconds
  double measured = 0;                                     // seconds
};

// Rows from the most special to the most general, so that the first match holds. Points whose times
// are not above 0 are left aside.
CollectiveCorrections FitCorrections(const std::vector<FitPoint>& points, const std::string& name);

}  // namespace stepsim
