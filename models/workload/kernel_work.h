// How much does one kernel do? FLOPs and HBM bytes of matrix products, attention and the
// memory-bound kernels, as ComputeWork. Equations: models/README.md, "Operators" and "Bytes".
//
//   GemmWork(DType::kBf16, 4096, 11008, 4096)  -> 2 m n k FLOPs, (mk + kn + mn) x 2 bytes
//   MemoryWork(DType::kBf16, 3, tokens * hidden)  -> 3 passes over the tensor
//   CopyWork(bytes, bytes)                     -> a gradient moved into its bucket
#pragma once

#include <cstdint>

#include "sim/base/dtype.h"
#include "sim/base/quantity.h"
#include "sim/graph/work.h"

namespace stepsim {

struct GemmShape {
  std::int64_t m = 1, n = 1, k = 1;
  std::int64_t groups = 1;  // equal products in one kernel: experts, heads
};

// C[m,n] = A[m,k] B[k,n]: every matrix moves through HBM once. `output` is the type of C, where it
// is not that of A and B (fp8).
ComputeWork GemmWork(DType dtype, DType output, const GemmShape& shape, Pass pass);
ComputeWork GemmWork(DType dtype, std::int64_t m, std::int64_t n, std::int64_t k,
                     Pass pass = Pass::kForward);

// A product cut along its rows, as one of `parts`: a kernel of its own with the whole of B.
ComputeWork RowsOf(const ComputeWork& product, std::int64_t parts);

struct AttentionShape {
  std::int64_t batch = 1;
  std::int64_t sequence = 1;
  std::int64_t heads = 1;
  std::int64_t kv_heads = 1;
  std::int64_t head_dim = 1;
  bool causal = true;
  // 0: as many as queries. Causal: the queries are the last ones of this many tokens.
  std::int64_t keys = 0;

  std::int64_t key_count() const { return keys > 0 ? keys : sequence; }
  double pairs() const;         // query-key pairs of one head and sample: s(s+1)/2 or s^2
  Flops forward_flops() const;  // two matrix products over the pairs
};

// Fused (flash) attention: the score matrix never leaves the chip.
ComputeWork AttentionForwardWork(const AttentionShape& shape, DType dtype);
// Five matrix products against forward's two: the scores are computed again.
ComputeWork AttentionBackwardWork(const AttentionShape& shape, DType dtype);

// A kernel bound by HBM: `bytes` in all.
ComputeWork MemoryWork(DType dtype, Bytes bytes);
// ... that moves a tensor of `elements` `passes` times.
ComputeWork MemoryWork(DType dtype, int passes, std::int64_t elements);

// Copies and casts outside the network: DDP's bucket kernels and communication hooks.
ComputeWork CopyWork(Bytes read, Bytes written);  // also with a scale factor on the way
ComputeWork CastWork(DType from, DType to, std::int64_t elements);
ComputeWork ZeroWork(Bytes written);
// grad += new, as accumulation over micro-steps does.
ComputeWork AccumulateWork(DType dtype, std::int64_t elements);

}  // namespace stepsim
