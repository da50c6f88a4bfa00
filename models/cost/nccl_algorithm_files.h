// The functions of the algorithms' files, for the table in nccl_algorithms.cc.
#pragma once

#include <string_view>

#include "models/cost/nccl_model.h"

namespace stepsim {

using Refusal = std::string_view(const NcclCall& call, const CollectiveModelSpec& spec);
using Prediction = NcclPrediction(const NcclCall& call);

Refusal RingRefusal, TreeRefusal, NvlsRefusal, NvlsTreeRefusal, PatRefusal, CollNetDirectRefusal,
    CollNetChainRefusal;
Prediction PredictRing, PredictTree, PredictNvls, PredictNvlsTree, PredictPat, PredictCollNetDirect,
    PredictCollNetChain;

}  // namespace stepsim
