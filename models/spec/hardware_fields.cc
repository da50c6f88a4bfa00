#include "models/spec/spec_fields.h"

namespace stepsim {
namespace {

constexpr double kMostGpus = 1e6;

const StructTable<PeakRates>& PeakFields() {
  static const StructTable<PeakRates> table{
      Field("fp32", &PeakRates::fp32, "dense matrix products in fp32, without tensor cores"),
      Field("tf32", &PeakRates::tf32, "dense matrix products in tf32; 0 where there is no unit"),
      Field("bf16", &PeakRates::bf16, "dense matrix products in bf16; 0 where there is no unit"),
      Field("fp16", &PeakRates::fp16, "dense matrix products in fp16; 0 where there is no unit"),
      Field("fp8", &PeakRates::fp8, "dense matrix products in fp8; 0 where there is no unit"),
  };
  return table;
}

const StructTable<GpuSpec>& GpuFields() {
  static const StructTable<GpuSpec> table{
      Field("name", &GpuSpec::name, "the product's name, for reports").Required(),
      Field("compute_capability", &GpuSpec::compute_capability,
            "CUDA's number of the GPU's generation: 7.0 Volta, 8.0 Ampere, 9.0 Hopper, 10.0 "
            "Blackwell")
          .Range(3, 20),
      Field("peak", &GpuSpec::peak, PeakFields(), "peak rate by element type, per GPU").Required(),
      Field("hbm_bandwidth", &GpuSpec::hbm_bandwidth, "nominal bandwidth of the GPU's memory")
          .Required()
          .Above(0),
      Field("memory", &GpuSpec::memory, "size of the GPU's memory").Required().Above(0),
      Field("sms", &GpuSpec::sms, "streaming multiprocessors").Required().Range(1, 100'000),
      Field("gemm_efficiency", &GpuSpec::gemm_efficiency,
            "reached fraction of the peak in large matrix products")
          .Range(0.001, 1),
      Field("gemm", &GpuSpec::gemm, GemmCurveFields(),
            "how matrix products depend on their shape, by element type"),
      Field("attention_efficiency", &GpuSpec::attention_efficiency,
            "reached fraction of the peak in fused attention")
          .Range(0.001, 1),
      Field("attention", &GpuSpec::attention, AttentionCurveFields(),
            "how fused attention depends on its shape"),
      Field("memory_efficiency", &GpuSpec::memory_efficiency,
            "reached fraction of hbm_bandwidth in memory-bound kernels")
          .Range(0.001, 1),
      Field("memory_residual", &GpuSpec::memory_residual,
            "median |error| of memory-bound kernels by these values; 0: unknown")
          .Range(0, 10),
      Field("kernel_latency", &GpuSpec::kernel_latency, "fixed time of every kernel on the device"),
      Field("contention", &GpuSpec::contention, ContentionFields(),
            "what kernels cost each other that run at the same time"),
  };
  return table;
}

}  // namespace

const StructTable<LinkSpec>& LinkFields() {
  static const StructTable<LinkSpec> table{
      Field("type", &LinkSpec::type, "nvlink, pcie, infiniband, ethernet, efa, ...").Required(),
      Field("bandwidth", &LinkSpec::bandwidth,
            "nominal, per direction; of one GPU inside a node, of one NIC between nodes")
          .Required()
          .Above(0),
      Field("efficiency", &LinkSpec::efficiency, "reached fraction of it for large messages")
          .Range(0.001, 1),
      Field("latency", &LinkSpec::latency,
            "fixed time of one hop of a collective in the alpha_beta and gloo models"),
      Field("added_latency", &LinkSpec::added_latency,
            "what one hop costs beyond NCCL's own table: a plug-in transport, a long cable"),
      Field("streams", &LinkSpec::streams,
            "TCP sockets: connections that share the work (NCCL_SOCKET_NTHREADS x "
            "NCCL_NSOCKS_PERTHREAD)")
          .Range(1, 4096),
      Field("stream_bandwidth", &LinkSpec::stream_bandwidth,
            "TCP sockets: what one connection can carry; 0: no limit"),
  };
  return table;
}

const StructTable<NetworkSpec>& NetworkFields() {
  static const StructTable<NetworkSpec> table{
      Field("name", &NetworkSpec::name, "the network's name, for reports").Required(),
      Field("nics_per_node", &NetworkSpec::nics_per_node, "NICs of a node").Range(1, 100'000),
      Field("link", &NetworkSpec::link, LinkFields(), "one NIC").Required(),
      Field("oversubscription", &NetworkSpec::oversubscription,
            "bandwidth of a leaf switch's nodes over that of its uplinks; 1: full bisection")
          .Range(1, 1000),
      Field("nodes_per_leaf", &NetworkSpec::nodes_per_leaf,
            "nodes under one leaf switch, which do not see oversubscription; 0: every group of two "
            "nodes does")
          .Range(0, 1e6),
  };
  return table;
}

const StructTable<HardwareSpec>& HardwareFields() {
  static const StructTable<HardwareSpec> table{
      Field("name", &HardwareSpec::name, "the profile's name, for reports").Required(),
      Field("description", &HardwareSpec::description, "one line for `stepsim list`"),
      Field("gpus_per_node", &HardwareSpec::gpus_per_node, "GPUs of a node")
          .Required()
          .Range(1, kMostGpus),
      Field("gpu", &HardwareSpec::gpu, GpuFields(), "one GPU").Required(),
      Field("intra_node", &HardwareSpec::intra_node, LinkFields(), "one GPU's link inside the node")
          .Required(),
      Field("switched", &HardwareSpec::switched,
            "every GPU of a node reaches every other at full rate (NVSwitch)"),
      Field("cpu", &HardwareSpec::cpu, "the host processors: NCCL's cost table depends on them")
          .Choices({"intel", "amd", "arm", "power"}),
      Field(
          "host_time_scale", &HardwareSpec::host_time_scale,
          "times of the host (launches, calls, events) over those of models/README.md, 'Host'; 0: "
          "an ideal host")
          .Range(0, 100),
      Field("network", &HardwareSpec::network, NetworkFields(), "the network between the nodes")
          .Required(),
      Field("calibration", &HardwareSpec::calibration, PointFields(),
            "collectives measured on this system: predictions pass through these points"),
      Field("collective_curves", &HardwareSpec::collective_curves, CurveFields(),
            "collectives as fitted to measurements on this system; the first that matches holds"),
  };
  return table;
}

}  // namespace stepsim
