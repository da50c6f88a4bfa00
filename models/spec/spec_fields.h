// Which keys do the files have? The field tables of hardware profiles, networks, models and jobs.
#pragma once

#include <array>

#include "models/spec/hardware.h"
#include "models/spec/job.h"
#include "models/spec/model.h"
#include "sim/config/field_table.h"

namespace stepsim {

inline constexpr std::array kIterationNames = {
    EnumName<TrainingIteration>{TrainingIteration::kSteady, "steady"},
    EnumName<TrainingIteration>{TrainingIteration::kFirst, "first"},
};

const StructTable<ContentionSpec>& ContentionFields();
const StructTable<CollectivePoint>& PointFields();
const StructTable<CollectiveCurve>& CurveFields();
const StructTable<CalibrationSpec>& CalibrationFields();  // configs/calibration/*.yaml
const StructTable<CollectiveModelSpec>& CollectiveModelFields();
const StructTable<CollectiveCorrections>& CorrectionFields();  // configs/collectives/*.yaml

const StructTable<Fsdp1Plan>& Fsdp1Fields();
const StructTable<Fsdp2Plan>& Fsdp2Fields();
const StructTable<ZeroPlan>& ZeroFields();
const StructTable<MegatronPlan>& MegatronFields();
const StructTable<TensorPlan>& TensorFields();
const StructTable<PipelinePlan>& PipelineFields();
const StructTable<ContextPlan>& ContextFields();
const StructTable<ExpertPlan>& ExpertFields();
const StructTable<GemmCurve>& GemmCurveFields();
const StructTable<AttentionCurve>& AttentionCurveFields();

const StructTable<LinkSpec>& LinkFields();
const StructTable<NetworkSpec>& NetworkFields();    // configs/networks/*.yaml
const StructTable<HardwareSpec>& HardwareFields();  // configs/hardware/*.yaml

const StructTable<TransformerSpec>& TransformerFields();
const StructTable<LayerListSpec>& LayerListFields();  // beside name and description
const StructTable<ModelSpec>& ModelFields();          // configs/models/*.yaml

const StructTable<HostSpec>& HostFields();
const StructTable<RecomputeSpec>& RecomputeFields();
const StructTable<MemorySpec>& MemoryFields();

const StructTable<JobSpec>& JobFields();  // configs/jobs/*.yaml

}  // namespace stepsim
