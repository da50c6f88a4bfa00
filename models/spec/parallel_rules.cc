#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <string>

#include "models/spec/job_rules.h"

namespace stepsim {
namespace {

constexpr std::string_view kDegrees = "tensor_parallel x context_parallel x pipeline_parallel";

bool HasNoTensor(const JobSpec& job) { return job.plan.tensor_parallel == 1; }
bool HasNoContext(const JobSpec& job) { return job.plan.context_parallel == 1; }
bool HasNoPipeline(const JobSpec& job) { return job.plan.pipeline_parallel == 1; }
bool HasNoUserBuffers(const JobSpec& job) {
  return job.plan.tensor.overlap != TensorOverlap::kUserBuffers;
}

constexpr std::string_view kUserBuffers = "plan.tensor.overlap other than user_buffers";

constexpr std::array kRows = {
    IneffectiveKey{"plan.tensor", "plan.tensor_parallel: 1", HasNoTensor},
    IneffectiveKey{"plan.context", "plan.context_parallel: 1", HasNoContext},
    IneffectiveKey{"plan.pipeline", "plan.pipeline_parallel: 1", HasNoPipeline},
    IneffectiveKey{"plan.tensor.bulk_wgrad", kUserBuffers, HasNoUserBuffers},
    IneffectiveKey{"plan.tensor.bulk_dgrad", kUserBuffers, HasNoUserBuffers},
    IneffectiveKey{"plan.tensor.overlap_ag", kUserBuffers, HasNoUserBuffers},
    IneffectiveKey{"plan.tensor.overlap_rs", kUserBuffers, HasNoUserBuffers},
    IneffectiveKey{"plan.tensor.overlap_rs_dgrad", kUserBuffers, HasNoUserBuffers},
    IneffectiveKey{"plan.tensor.num_splits", kUserBuffers, HasNoUserBuffers},
    IneffectiveKey{"plan.tensor.use_copy_engine", kUserBuffers, HasNoUserBuffers},
};

// The largest number of copies of the network, and the GPUs that they take.
std::string NearestWorlds(std::int64_t gpus, std::int64_t ranks) {
  const std::int64_t below = gpus / ranks * ranks;
  return below == 0 ? fmt::format("{} GPUs", ranks)
                    : fmt::format("{} or {} GPUs", below, below + ranks);
}

}  // namespace

std::span<const IneffectiveKey> IneffectiveParallelKeys() { return kRows; }

void DeriveReplicas(JobSpec& job, FieldReading& reading) {
  ParallelPlan& plan = job.plan;
  if (plan.data_parallel != 0) return;
  plan.data_parallel = job.replicas();
  SetOrigin(reading, "plan.data_parallel", plan.data_parallel,
            plan.model_ranks() == 1 ? "all GPUs" : "GPUs that the other degrees leave");
}

void CheckDegrees(const JobProblems& problems) {
  const JobSpec& job = problems.job;
  const ParallelPlan& plan = job.plan;
  if (problems.AnyInvalid({"plan.data_parallel", "plan.tensor_parallel", "plan.context_parallel",
                           "plan.pipeline_parallel"})) {
    return;
  }
  const std::int64_t ranks = plan.model_ranks();
  if (job.gpus() % ranks != 0) {
    problems.Report("plan", fmt::format("{} = {} x {} x {} = {} must divide nodes x gpus_per_node "
                                        "({} x {} = {}); nearest valid: {}",
                                        kDegrees, plan.tensor_parallel, plan.context_parallel,
                                        plan.pipeline_parallel, ranks, job.nodes, job.gpus_per_node,
                                        job.gpus(), NearestWorlds(job.gpus(), ranks)));
    return;
  }
  if (plan.data_parallel == job.replicas()) return;
  if (ranks == 1) {
    problems.Report("plan.data_parallel",
                    fmt::format("data_parallel ({}) must equal nodes x gpus_per_node ({} x {}); "
                                "nearest valid: {}, or 0 for all GPUs",
                                plan.data_parallel, job.nodes, job.gpus_per_node, job.gpus()));
    return;
  }
  problems.Report("plan.data_parallel",
                  fmt::format("data_parallel ({}) x {} ({}) must equal nodes x gpus_per_node ({} x "
                              "{}); nearest valid: {}, or 0 for all that are left",
                              plan.data_parallel, kDegrees, ranks, job.nodes, job.gpus_per_node,
                              job.replicas()));
}

}  // namespace stepsim
