#include <array>

#include "models/spec/spec_fields.h"

namespace stepsim {
namespace {

constexpr std::array kModelNames = {
    EnumName<CollectiveModel>{CollectiveModel::kNccl, "nccl"},
    EnumName<CollectiveModel>{CollectiveModel::kAlphaBeta, "alpha_beta"},
    EnumName<CollectiveModel>{CollectiveModel::kGloo, "gloo"},
};
constexpr std::array kCtaPolicyNames = {
    EnumName<CtaPolicy>{CtaPolicy::kDefault, "default"},
    EnumName<CtaPolicy>{CtaPolicy::kEfficiency, "efficiency"},
    EnumName<CtaPolicy>{CtaPolicy::kZero, "zero"},
};
constexpr double kMostCtas = 64;
const std::vector<std::string> kCollectiveNames = {
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce", "send_recv"};

const StructTable<CollectiveCorrection>& CorrectionRowFields() {
  using C = CollectiveCorrection;
  static const StructTable<C> table{
      Field(
          "transport", &C::transport,
          "of the slowest link of the group; node: any inside a node; network: any between nodes; "
          "*: any"),
      Field("generation", &C::generation,
            "of the GPU: volta, ampere, hopper, blackwell; * for any"),
      Field("algorithm", &C::algorithm, "ring, tree, ...; * for any"),
      Field("protocol", &C::protocol, "ll, ll128, simple; * for any"),
      Field("collective", &C::collective, "all_reduce, ...; * for any"),
      Field("latency_factor", &C::latency_factor, "of NCCL's latency").Range(0, 1000),
      Field("added_latency", &C::added_latency, "on top of it"),
      Field("time_factor", &C::time_factor, "of NCCL's time for the bytes").Range(0.01, 1000),
      Field("ramp", &C::ramp, "transfers as short as this take twice as long as in the long run"),
      Field("ramp_exponent", &C::ramp_exponent, "how fast that fades with the size").Range(0, 10),
      Field("residual", &C::residual, "median |error| of the fit; 0: unknown").Range(0, 10),
      Field("smallest", &C::smallest, "smallest size that the row was fitted to"),
      Field("largest", &C::largest, "largest size that the row was fitted to; 0: unknown"),
  };
  return table;
}

}  // namespace

std::string_view ToString(CollectiveModel model) {
  for (const auto& [value, name] : kModelNames) {
    if (value == model) return name;
  }
  return "nccl";
}

const StructTable<CollectiveCorrections>& CorrectionFields() {
  static const StructTable<CollectiveCorrections> table{
      Field("name", &CollectiveCorrections::name, "the table's name, for reports").Required(),
      Field("description", &CollectiveCorrections::description, "one line for `stepsim list`"),
      Field("rows", &CollectiveCorrections::rows, CorrectionRowFields(),
            "the first row that matches holds"),
  };
  return table;
}

const StructTable<CollectivePoint>& PointFields() {
  static const StructTable<CollectivePoint> table{
      Field("collective", &CollectivePoint::collective, "what was measured")
          .Choices(kCollectiveNames),
      Field("nodes", &CollectivePoint::nodes, "nodes of the group").Range(1, 1e6),
      Field("ranks", &CollectivePoint::ranks, "ranks of the group").Required().Range(1, 1e7),
      Field("size", &CollectivePoint::size, "as nccl-tests counts it").Required().Above(0),
      Field("time", &CollectivePoint::time, "of one call").Required().Above(0),
  };
  return table;
}

const StructTable<CollectiveModelSpec>& CollectiveModelFields() {
  using C = CollectiveModelSpec;
  static const StructTable<C> table{
      Field(
          "model", &C::model, kModelNames,
          "nccl: NCCL's algorithms and its choice, corrected by measurements; alpha_beta: latency "
          "per step plus bytes over bandwidth; gloo: PyTorch's backend for CPUs"),
      Field("nccl_version", &C::nccl_version, "whose cost table is used, such as 2.18 or 2.27.3"),
      Field("algorithm", &C::algorithm, "as NCCL_ALGO: 'ring', '^tree', 'allreduce:tree,ring'")
          .Unset("NCCL chooses")
          .Aliases({"NCCL_ALGO"}),
      Field("protocol", &C::protocol, "as NCCL_PROTO: 'simple', '^ll128'")
          .Unset("NCCL chooses")
          .Aliases({"NCCL_PROTO"}),
      Field("all_reduce", &C::all_reduce, "one algorithm for every all_reduce")
          .Unset("by collectives.algorithm"),
      Field("min_ctas", &C::min_ctas, "fewest thread blocks of a collective; 0: NCCL's own")
          .Range(0, kMostCtas)
          .Aliases({"NCCL_MIN_CTAS", "NCCL_MIN_NCHANNELS"}),
      Field("max_ctas", &C::max_ctas, "most thread blocks of a collective; 0: NCCL's own")
          .Range(0, kMostCtas)
          .Aliases({"NCCL_MAX_CTAS", "NCCL_MAX_NCHANNELS"}),
      Field("nvls", &C::nvls, "reduction in the NVLink switch, where there is one")
          .Aliases({"NCCL_NVLS_ENABLE"}),
      Field("collnet", &C::collnet, "reduction in the network's switches (SHARP)")
          .Aliases({"NCCL_COLLNET_ENABLE"}),
      Field("registered_buffers", &C::registered_buffers,
            "buffers are registered with NCCL: fewer SMs, less memory traffic")
          .Aliases({"nccl_ub"}),
      Field("symmetric_memory", &C::symmetric_memory,
            "buffers are symmetric windows: NCCL's symmetric kernels inside a node"),
      Field("cta_policy", &C::cta_policy, kCtaPolicyNames,
            "efficiency: registered buffers gather and scatter in the switch, on fewer SMs; zero: "
            "copy engines carry all_gather and all_to_all without any SM")
          .Aliases({"NCCL_CTA_POLICY"}),
      Field("gloo_threads", &C::gloo_threads,
            "threads of a process group: so many of its collectives are in flight and share the "
            "link; 1: one after the other, as NCCL does it")
          .Range(1, 64),
      Field(
          "corrections", &C::corrections,
          "measured corrections of NCCL's table: a file of configs/collectives, none, or the table "
          "itself"),
  };
  return table;
}

}  // namespace stepsim
