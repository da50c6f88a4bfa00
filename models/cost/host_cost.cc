#include "models/cost/host_cost.h"

namespace stepsim {
namespace {

// Walking one autograd node on the host (DDP's search for unused parameters): a pointer chase and a
// hash look-up in C++, some hundred nanoseconds.
constexpr double kSecondsPerGraphNode = 0.3e-6;

}  // namespace

double HostSeconds(const HostWork& work, const HostTimes& times) {
  return work.launches * ToSeconds(times.launch) +
         work.collective_calls * ToSeconds(times.collective_call) +
         work.graph_launches * ToSeconds(times.graph_launch) +
         work.handovers * ToSeconds(times.event_handover) + work.graph_nodes * kSecondsPerGraphNode;
}

}  // namespace stepsim
