// How long does a whole process take that builds and runs one synthetic step?
//   step_process RANKS LAYERS        prints the step time in microseconds
#include <cstdio>
#include <cstdlib>

#include "sim/engine/simulate.h"
#include "tests/support/sketch.h"
#include "tests/support/workloads.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: step_process RANKS LAYERS\n");
    return 2;
  }
  const stepsim::TaskGraph graph =
      stepsim::BuildStep({.ranks = std::atoi(argv[1]), .layers = std::atoi(argv[2])});
  const stepsim::Timeline timeline = stepsim::Simulate(graph, stepsim::CostsFromTags(graph));
  std::printf("%.0f\n", stepsim::ToMicroseconds(timeline.makespan));
  return 0;
}
