#include "models/spec/spec_fields.h"

namespace stepsim {

const StructTable<ContentionSpec>& ContentionFields() {
  using C = ContentionSpec;
  static const StructTable<C> table{
      Field("gemm", &C::gemm,
            "slow-down of matrix products by a collective at full link rate, beyond its SMs and "
            "HBM traffic; 0.1 is 10%")
          .Range(0, 10),
      Field("attention", &C::attention, "the same of attention").Range(0, 10),
      Field("memory", &C::memory, "the same of kernels that saturate the GPU's memory")
          .Range(0, 10),
      Field("communication", &C::communication,
            "slow-down of a collective by compute that saturates the GPU's memory")
          .Range(0, 10),
      Field("core_demand", &C::core_demand,
            "fraction of the core that computes which a collective without thread blocks takes at "
            "full rate (gloo's threads): both get a fair share")
          .Range(0, 1),
      Field("core_wait", &C::core_wait,
            "what such a collective waits for a core when it begins beside compute: a time slice "
            "of the operating system"),
      Field("transfer_on_compute", &C::transfer_on_compute,
            "slow-down of every kernel beside a transfer that takes processor time (gloo, MPI), "
            "whatever its rate; 0.1 is 10%")
          .Range(0, 100),
      Field("compute_on_transfer", &C::compute_on_transfer,
            "slow-down of a transfer beside any kernel, whatever it does")
          .Range(0, 100),
      Field("hbm_ceiling", &C::hbm_ceiling,
            "fraction of hbm_bandwidth that concurrent kernels share")
          .Range(0.01, 1),
      Field("sm_loss", &C::sm_loss,
            "SMs that compute loses for each one that a collective or a copy holds")
          .Range(0, 10),
      Field("partial_wave", &C::partial_wave,
            "time of a nearly empty last wave of thread blocks over that of a full one")
          .Range(0, 1),
      Field("power_cap", &C::power_cap, "0: power is not modelled").Counts("W").Range(0, 1e5),
      Field("power_idle", &C::power_idle, "of an idle GPU").Counts("W").Range(0, 1e5),
      Field("power_compute", &C::power_compute, "of dense matrix products on all SMs")
          .Counts("W")
          .Range(0, 1e5),
      Field("power_communication", &C::power_communication,
            "added by a collective at full link rate")
          .Counts("W")
          .Range(0, 1e5),
      Field("power_exponent", &C::power_exponent, "power above idle grows as clock^exponent")
          .Range(1, 4),
  };
  return table;
}

}  // namespace stepsim
