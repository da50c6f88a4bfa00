// One group of ranks as NCCL sees it and as its links are; found once, used for every size.
#pragma once

#include "models/cost/nccl_model.h"
#include "models/cost/nccl_system.h"

namespace stepsim {

struct NcclGroup {
  NcclGroup(const HardwareSpec& hardware, const Placement& place, const NcclTable& table_in)
      : placement(place),
        table(&table_in),
        seen(SearchSystem(hardware, place, table_in)),
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
  NcclSystem seen;       // by the job's release: what it chooses by
  NcclSystem delivered;  // by the newest release, with the links' own rates: what it takes
};

}  // namespace stepsim
