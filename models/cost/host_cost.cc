#include "models/cost/host_cost.h"

namespace stepsim {

Duration HostDuration(const HostWork& work, const HostTimes& times) {
  // Refuses what does not fit before it is added up exactly.
  DurationFromSeconds(work.launches * ToSeconds(times.launch) +
                      work.collective_calls * ToSeconds(times.collective_call) +
                      work.graph_launches * ToSeconds(times.graph_launch) +
                      work.handovers * ToSeconds(times.event_handover) +
                      work.graph_nodes * ToSeconds(times.graph_node) +
                      ToSeconds(Duration(work.measured)));
  return times.launch * work.launches + times.collective_call * work.collective_calls +
         times.graph_launch * work.graph_launches + times.event_handover * work.handovers +
         times.graph_node * work.graph_nodes + Duration(work.measured);
}

}  // namespace stepsim
