// One group of ranks as NCCL sees it and as its links are; found once, used for every size.
#pragma once

#include <string_view>

#include "models/cost/nccl_model.h"
#include "models/cost/nccl_system.h"

namespace stepsim {

struct NcclGroup {
  NcclGroup(const HardwareSpec& hardware, const Placement& place, std::string_view version)
      : placement(place),
        table(&NcclTableFor(version)),
        minor(NcclMinor(version)),
        seen(SearchSystem(hardware, place, *table)),
        delivered(WithDeliveredRates(SearchSystem(hardware, place, NewestNcclTable()), hardware,
                                     place)) {}

  NcclCall Seen(CollectiveOp op, NcclProtocol protocol) const {
    return {op, protocol, seen, *table};
  }
  NcclCall Delivered(CollectiveOp op, NcclProtocol protocol) const {
    return {op, protocol, delivered, NewestNcclTable()};
  }

  Placement placement;
  const NcclTable* table;
  int minor;             // of the job's release: 2.27 has symmetric kernels, 2.28 copy engines
  NcclSystem seen;       // by the job's release: what it chooses by
  NcclSystem delivered;  // by the newest release, with the links' own rates: what it takes
};

}  // namespace stepsim
