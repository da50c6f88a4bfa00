#include "models/workload/layer_list.h"

#include <algorithm>
#include <utility>

namespace stepsim {
namespace {

struct Amount {
  Flops flops;
  Bytes bytes;
  Duration measured{};  // 0: priced by the other two
};

ComputeWork WorkOf(Amount amount, DType dtype) {
  ComputeWork work;
  const bool computes = amount.flops.value > 0 || amount.measured.count() > 0;
  work.compute_class = computes ? ComputeClass::kGemm : ComputeClass::kMemory;
  work.dtype = dtype;
  work.flops = amount.flops;
  work.bytes = amount.bytes;
  work.measured = amount.measured.count();
  return work;
}

Amount Half(Amount amount) {
  return {amount.flops * 0.5, Bytes{amount.bytes.value / 2}, amount.measured / 2};
}

Amount Rest(Amount whole, Amount part) {
  return {whole.flops - part.flops, whole.bytes - part.bytes, whole.measured - part.measured};
}

// Turns layers into operators; knows whether a gradient has to reach the layer's input.
class LayerListBuilder {
 public:
  explicit LayerListBuilder(const JobSpec& job) : job_(job) {}

  void Add(const LayerSpec& layer) {
    Operator op;
    op.name = "layer";
    Amount forward = Batched({layer.forward_flops, layer.forward_bytes});
    forward.measured = layer.forward_time.value_or(Duration{});
    op.forward = WorkOf(forward, job_.precision.compute);
    AddBackward(layer, op);
    op.saved = layer.saved_bytes * job_.batch.micro_batch_size;
    Register(layer, op);
    workload_.buffers += layer.buffers;
    workload_.units.push_back({layer.name, {op}});
  }

  Workload Take() { return std::move(workload_); }

 private:
  Amount Batched(Amount per_sample) const {
    const std::int64_t b = job_.batch.micro_batch_size;
    return {per_sample.flops * static_cast<double>(b), per_sample.bytes * b};
  }

  void AddBackward(const LayerSpec& layer, Operator& op) const {
    const bool needs_input_gradient = !workload_.parameters.empty();
    const bool has_parameters = !layer.parameters.empty();
    if (!needs_input_gradient && !has_parameters) return;
    const bool both = needs_input_gradient && has_parameters;
    // The default for a layer that needs one gradient of the two is one forward, but for one
    // without parameters: its kernels are all input gradient.
    const std::int64_t forwards = needs_input_gradient ? 2 : 1;
    Amount total =
        Batched({layer.backward_flops.value_or(layer.forward_flops * static_cast<double>(forwards)),
                 layer.backward_bytes.value_or(layer.forward_bytes * forwards)});
    total.measured =
        layer.backward_time.value_or(layer.forward_time.value_or(Duration{}) * forwards);
    const Amount input = both ? Half(total) : needs_input_gradient ? total : Amount{};
    const DType dtype = job_.precision.compute;
    if (needs_input_gradient) op.backward_input.push_back(WorkOf(input, dtype));
    if (has_parameters) op.backward_weight.push_back(WorkOf(Rest(total, input), dtype));
  }

  // The order in which autograd's node returns its gradients (recorded, models/README.md, "Explicit
  // layer lists"): a convolution or linear layer the bias first, a norm the weight first.
  void Register(const LayerSpec& layer, Operator& op) {
    for (const ParameterSpec& parameter : layer.parameters) {
      op.parameters_ready.push_back(static_cast<std::int32_t>(workload_.parameters.size()));
      workload_.parameters.push_back({parameter.name, parameter.elements,
                                      parameter.dtype.value_or(job_.precision.parameters)});
    }
    const bool is_matrix_product = layer.forward_flops.value > 0;
    if (is_matrix_product) std::reverse(op.parameters_ready.begin(), op.parameters_ready.end());
  }

  const JobSpec& job_;
  Workload workload_;
};

}  // namespace

Workload BuildLayerListWorkload(const JobSpec& job) {
  const auto& list = std::get<LayerListSpec>(job.model.network);
  LayerListBuilder builder(job);
  for (const LayerSpec& layer : list.layers) builder.Add(layer);
  Workload workload = builder.Take();
  workload.samples = static_cast<double>(job.batch.micro_batch_size);
  workload.tokens = workload.samples * static_cast<double>(list.tokens_per_sample);
  return workload;
}

}  // namespace stepsim
