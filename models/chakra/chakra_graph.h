// How does a node graph become a step? Each rank's nodes go to streams in the order in which they
// were recorded; transfers meet their peers; our cost models price them on another machine.
//
//   ChakraStep step = BuildChakraStep(traces, cluster, options);
//   GraphCosts priced = PriceGraph(step.graph, step.job);
//
// Streams of a rank: "host" for is_cpu_op, "compute" (or one for each recorded stream), one for
// each process group, one for each direction between two ranks. Compute takes as long as recorded,
// or, where nothing was recorded, what its operations and bytes cost here.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "models/chakra/chakra_trace.h"
#include "models/spec/job.h"
#include "models/spec/load_cluster.h"
#include "sim/graph/task_graph.h"

namespace stepsim {

struct ChakraOptions {
  // Of a group's name: its ranks, ascending. A group that is not here has all ranks.
  std::map<std::string, std::vector<std::int32_t>> groups;
  bool keeps_durations = true;  // else recorded times of kernels with num_ops give way to the model
  DType dtype = DType::kBf16;   // of products and of what is reduced: the traces do not say
};

struct ChakraStep {
  TaskGraph graph;
  JobSpec job;  // the machine
  std::vector<std::string> notes, warnings;
};

// `traces` are those of ranks 0, 1, ... Fewer than the cluster has: the last groups are folded,
// each trace stands for itself alone and meets those that are there. Throws ConfigError: a cycle, a
// group of ranks that the cluster lacks, peers that call different collectives.
ChakraStep BuildChakraStep(std::span<const ChakraTrace> traces, const ClusterSpec& cluster,
                           const ChakraOptions& options);

// {"1": [0, 1, 2], ...}: process groups by name, as ASTRA-sim takes them. Throws ConfigError.
std::map<std::string, std::vector<std::int32_t>> ReadChakraGroups(std::string_view text,
                                                                  const std::string& file);

}  // namespace stepsim
