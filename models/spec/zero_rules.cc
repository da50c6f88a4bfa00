#include <array>

#include "models/spec/job_rules.h"

namespace stepsim {
namespace {

bool UsesZero(const JobSpec& job) { return job.plan.strategy == "zero"; }
bool UsesMegatron(const JobSpec& job) { return job.plan.strategy == "megatron"; }

constexpr std::array kRows = {
    IneffectiveKey{"plan.zero", "plan.strategy: {strategy}",
                [](const JobSpec& j) { return !UsesZero(j); }},
    IneffectiveKey{"plan.megatron", "plan.strategy: {strategy}",
                [](const JobSpec& j) { return !UsesMegatron(j); }},
};

}  // namespace

std::span<const IneffectiveKey> IneffectiveZeroKeys() { return kRows; }

void CheckZero(const JobProblems&) {}
void CheckMegatron(const JobProblems&) {}

}  // namespace stepsim
