#include "models/spec/spec_fields.h"

namespace stepsim {
namespace {

constexpr double kMostError = 10;

const StructTable<CurveKnot>& KnotFields() {
  static const StructTable<CurveKnot> table{
      Field("size", &CurveKnot::size, "as nccl-tests counts it").Required().Above(0),
      Field("time", &CurveKnot::time, "of one call").Required().Above(0),
  };
  return table;
}

}  // namespace

const StructTable<FitRecord>& FitRecordFields() {
  using F = FitRecord;
  static const StructTable<F> table{
      Field("what", &F::what, "what was fitted").Required(),
      Field("value", &F::value, "what came out, in words"),
      Field("points", &F::points, "measurements behind it").Range(0, 1e12),
      Field("outliers", &F::outliers, "of them, which the fit hardly looked at").Range(0, 1e12),
      Field("residual", &F::residual, "median |error|").Range(0, kMostError),
      Field("residual_p90", &F::residual_p90, "90th percentile of |error|").Range(0, kMostError),
      Field("range", &F::range, "what was measured"),
      Field("note", &F::note, "what could not be told"),
  };
  return table;
}

const StructTable<CollectiveCurve>& CurveFields() {
  using C = CollectiveCurve;
  static const StructTable<C> table{
      Field("collective", &C::collective, "what was measured")
          .Choices({"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast",
                    "reduce", "send_recv"}),
      Field("ranks", &C::ranks, "ranks of the group").Required().Range(2, 1e7),
      Field("nodes", &C::nodes, "nodes of the group").Range(1, 1e6),
      Field("backend", &C::backend, "who carried it out; gloo and mpi hold no SMs")
          .Choices({"nccl", "gloo", "mpi"}),
      Field("algorithm", &C::algorithm, "of NCCL: ring, tree, ...; *: whichever it chose"),
      Field("protocol", &C::protocol, "of NCCL: ll, ll128, simple; *: whichever it chose"),
      Field("max_ctas", &C::max_ctas, "NCCL_MAX_CTAS of the measurement; 0: NCCL's own")
          .Range(0, 1024),
      Field("latency", &C::latency, "what does not depend on the size"),
      Field("bandwidth", &C::bandwidth,
            "size over time in the long run; 0: the sizes were too small to tell"),
      Field("ramp", &C::ramp, "transfers as short as this take twice as long as in the long run"),
      Field("knots", &C::knots, KnotFields(),
            "measured sizes that the curve passes through, where it is not smooth"),
      Field("residual", &C::residual, "median |error| of sizes left out of the fit; 0: unknown")
          .Range(0, kMostError),
      Field("residual_p90", &C::residual_p90, "90th percentile of the same").Range(0, kMostError),
      Field("latency_error", &C::latency_error,
            "half of the 95% interval of the latency, a fraction of it; 0: unknown")
          .Range(0, 1e6),
      Field("bandwidth_error", &C::bandwidth_error, "the same of the bandwidth").Range(0, 1e6),
      Field("smallest", &C::smallest, "smallest size that was measured"),
      Field("largest", &C::largest, "largest size that was measured; 0: unknown"),
      Field("points", &C::points, "measurements behind it").Range(0, 1e12),
  };
  return table;
}

const StructTable<CalibrationSpec>& CalibrationFields() {
  using C = CalibrationSpec;
  static const StructTable<C> table{
      Field("name", &C::name, "the calibration's name, for reports").Required(),
      Field("description", &C::description, "one line for `stepsim list`"),
      Field("date", &C::date, "when it was measured"),
      Field("device", &C::device, "what it was measured on"),
      Field("driver", &C::driver, "version of the GPU's driver"),
      Field("fitted_over", &C::fitted_over, "the hardware profile that it was fitted over"),
      Field("libraries", &C::libraries, "what ran: 'nccl 2.28.9', ..."),
      Field("command", &C::command, "how it was measured"),
      Field("files", &C::files, "measurements and logs that it was fitted to"),
      Field("fits", &C::fits, FitRecordFields(), "what was fitted, and how well"),
      Field<C>::Reference("hardware", "values that lie over those of the hardware profile"),
      Field<C>::Reference("host", "values that lie under those of the job's host"),
  };
  return table;
}

}  // namespace stepsim
