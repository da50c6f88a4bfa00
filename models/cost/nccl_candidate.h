// One way to carry out a collective, before it is priced: what NCCL thinks it takes, what it takes
// on these links, and what it holds. The algorithms of NCCL's table, grouped sends and receives,
// symmetric kernels and copy engines all become one of these.
#pragma once

#include <optional>
#include <string_view>

#include "models/cost/collective_cost.h"
#include "models/cost/nccl_group.h"
#include "models/cost/nccl_model.h"
#include "models/cost/nccl_occupancy.h"

namespace stepsim {

struct NcclCandidate {
  std::string_view algorithm;
  NcclProtocol protocol = NcclProtocol::kSimple;
  double nccl_us = 0;        // by the job's release: what NCCL chooses by
  NcclPrediction delivered;  // what it takes, before measured corrections
  std::int64_t channels = 0;
  double sms = 0;
  // Bytes for each byte of the call: through a rank's HBM, over its link, out of a node.
  double hbm_factor = 0;
  double link_factor = 0;
  double node_factor = 0;
};

// A row of NCCL's table. Does not ask whether it is enabled.
NcclCandidate TableCandidate(const NcclGroup& group, const NcclAlgorithmRow& row,
                             NcclProtocol protocol, const CollectiveRequest& request,
                             const CollectiveModelSpec& spec);
// all_to_all and send_recv: grouped sends and receives.
NcclCandidate P2pCandidate(const NcclGroup& group, const HardwareSpec& hardware,
                           const CollectiveRequest& request, const CollectiveModelSpec& spec);
// Symmetric-memory kernels of one NVLink domain; nothing where there are none for this call.
std::optional<NcclCandidate> SymmetricCandidate(const NcclGroup& group,
                                                const HardwareSpec& hardware,
                                                const CollectiveRequest& request,
                                                const CollectiveModelSpec& spec);
// Copy engines carry it without a thread block; nothing where they cannot.
std::optional<NcclCandidate> CopyEngineCandidate(const NcclGroup& group,
                                                 const HardwareSpec& hardware,
                                                 const CollectiveRequest& request,
                                                 const CollectiveModelSpec& spec);

// The candidate's cost with the corrections of the job.
CollectiveCost CostOf(const NcclCandidate& candidate, const NcclGroup& group,
                      const HardwareSpec& hardware, const CollectiveRequest& request,
                      const CollectiveModelSpec& spec);

}  // namespace stepsim
