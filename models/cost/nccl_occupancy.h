// What does a collective hold while it runs? Channels, SMs, traffic through HBM and links.
#pragma once

#include <cstdint>

#include "models/cost/collective_cost.h"
#include "models/cost/nccl_model.h"

namespace stepsim {

bool IsInSwitch(NcclAlgorithm algorithm);  // NVLS, NVLSTree

struct ChannelCount {
  std::int64_t full = 1;  // what NCCL would use for a large call
  std::int64_t used = 1;  // after the job's limits and for this size
  double rate = 1;        // of the full bandwidth, where the job's limits take channels away
};

// Thread blocks of one call: the communicator's channels within the job's MIN/MAX_CTAS, fewer for a
// small call that could not fill them.
ChannelCount ChannelsOf(const NcclCall& call, NcclAlgorithm algorithm, double bytes,
                        const CollectiveModelSpec& spec);

// Bytes through one rank's HBM for each byte of bus traffic: into the buffers of the library and
// out again, once more for user data that is not registered; flags that travel with the data.
double HbmPerBusByte(NcclProtocol protocol, bool is_direct);
// Bytes on the wire for each byte of payload.
double WireFactor(NcclProtocol protocol);

// Bytes that leave one node for each byte of the call, all its ranks together.
double NodeTraffic(const NcclCall& call, NcclAlgorithm algorithm);

}  // namespace stepsim
