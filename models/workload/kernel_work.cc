#include "models/workload/kernel_work.h"

#include "sim/base/check.h"

namespace stepsim {
namespace {

double Real(std::int64_t n) { return static_cast<double>(n); }

ComputeWork AttentionWork(const AttentionShape& shape, DType dtype, Pass pass, Flops flops,
                          std::int64_t moves) {
  // of queries and outputs, of keys and values
  const std::int64_t rows = shape.sequence * shape.heads + shape.key_count() * shape.kv_heads;
  ComputeWork work;
  work.compute_class = ComputeClass::kAttention;
  work.pass = pass;
  work.causal = shape.causal && shape.key_count() == shape.sequence;  // half of the pairs
  work.dtype = dtype;
  work.flops = flops;
  work.bytes = SizeOf(dtype, moves * shape.batch * rows * shape.head_dim);
  work.m = shape.sequence;
  work.n = shape.key_count();
  work.k = shape.head_dim;
  work.batch = shape.batch * shape.heads;
  return work;
}

}  // namespace

ComputeWork GemmWork(DType dtype, std::int64_t m, std::int64_t n, std::int64_t k, Pass pass) {
  return GemmWork(dtype, dtype, {m, n, k}, pass);
}

ComputeWork GemmWork(DType dtype, DType output, const GemmShape& shape, Pass pass) {
  const auto& [m, n, k, groups] = shape;
  SIM_CHECK(m > 0 && n > 0 && k > 0 && groups > 0, "a matrix product needs a positive shape");
  ComputeWork work;
  work.compute_class = ComputeClass::kGemm;
  work.pass = pass;
  work.dtype = dtype;
  work.output = output;
  work.flops = Flops{2.0 * Real(m) * Real(n) * Real(k) * Real(groups)};
  work.bytes = (SizeOf(dtype, m * k + k * n) + SizeOf(output, m * n)) * groups;
  work.batch = groups;
  work.m = m;
  work.n = n;
  work.k = k;
  return work;
}

double AttentionShape::pairs() const {
  const double s = Real(sequence), k = Real(key_count());
  return causal ? s * (k - s) + s * (s + 1) / 2 : s * k;
}

Flops AttentionShape::forward_flops() const {
  return Flops{2 * 2.0 * Real(batch) * Real(heads) * Real(head_dim) * pairs()};
}

ComputeWork RowsOf(const ComputeWork& product, std::int64_t parts) {
  if (product.m > 0) {
    return GemmWork(product.dtype, product.output,
                    {(product.m + parts - 1) / parts, product.n, product.k, product.batch},
                    product.pass);
  }
  ComputeWork part = product;
  part.flops = Flops{product.flops.value / Real(parts)};
  part.bytes = Bytes{product.bytes.value / parts};
  return part;
}

ComputeWork AttentionForwardWork(const AttentionShape& shape, DType dtype) {
  // read q, k, v; write the output
  return AttentionWork(shape, dtype, Pass::kForward, shape.forward_flops(), 2);
}

ComputeWork AttentionBackwardWork(const AttentionShape& shape, DType dtype) {
  // read q, k, v, output and its gradient; write the gradients of q, k, v
  return AttentionWork(shape, dtype, Pass::kInputGradient, shape.forward_flops() * 2.5, 4);
}

ComputeWork MemoryWork(DType dtype, Bytes bytes) {
  SIM_CHECK(bytes.value >= 0, "a kernel cannot move a negative number of bytes");
  ComputeWork work;
  work.compute_class = ComputeClass::kMemory;
  work.dtype = dtype;
  work.bytes = bytes;
  return work;
}

ComputeWork MemoryWork(DType dtype, int passes, std::int64_t elements) {
  return MemoryWork(dtype, SizeOf(dtype, elements) * std::int64_t{passes});
}

ComputeWork CopyWork(Bytes read, Bytes written) {
  // The type of the elements does not matter to a copy: one type, so that equal copies are equal.
  return MemoryWork(DType::kFp32, read + written);
}

ComputeWork CastWork(DType from, DType to, std::int64_t elements) {
  return CopyWork(SizeOf(from, elements), SizeOf(to, elements));
}

ComputeWork ZeroWork(Bytes written) { return CopyWork(Bytes{0}, written); }

ComputeWork AccumulateWork(DType dtype, std::int64_t elements) {
  const Bytes size = SizeOf(dtype, elements);
  return CopyWork(size * 2, size);
}

}  // namespace stepsim
