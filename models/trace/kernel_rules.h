// What is a kernel, by its name? One table, read from top to bottom: the first row that fits.
//
//   ClassifyKernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(...)")  -> communication, all_reduce
//   ClassifyKernel("sm90_xmma_gemm_bf16bf16_...")                    -> gemm
//
// To teach it a name: one row in kernel_rules.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "sim/base/dtype.h"
#include "sim/graph/work.h"

namespace stepsim {

enum class KernelClass : std::uint8_t {
  kGemm,           // matrix products and convolutions
  kAttention,      // fused attention
  kNormalization,  // layer norm, batch norm, softmax, reductions of a row
  kElementwise,    // point-wise, casts, copies by kernels, optimizers
  kOther,          // computes; no row knows what
  kCopy,           // copy engines: memcpy, memset
  kCommunication,
};
inline constexpr std::size_t kKernelClassCount = 7;
std::string_view ToString(KernelClass kernel_class);    // "gemm", "attention", "normalization", ...
ComputeClass ComputeClassOf(KernelClass kernel_class);  // of the classes of a simulation

struct KernelRule {
  KernelClass kernel_class = KernelClass::kOther;
  // Case is ignored. Words between '|'; '^' in front: the name begins with it (behind "void ").
  std::string_view words;
  std::string_view framework;  // whose kernel it is: "NCCL", "cuBLAS", "PyTorch"; may be empty
};
std::span<const KernelRule> KernelRules();

struct KernelKind {
  KernelClass kernel_class = KernelClass::kOther;
  std::string_view framework;
  std::size_t rule = 0;  // index into KernelRules(); its size: none fits
};
KernelKind ClassifyKernel(std::string_view name);

// Does `name` fit the words of a row?
bool FitsWords(std::string_view name, std::string_view words);

// ---- Collectives ----

struct CollectiveNameRow {
  CollectiveOp op{};
  std::string_view words;  // as in KernelRule
};
// By the name that a profiler gives the call ("allreduce", "nccl:all_reduce", "ncclAllReduce") or
// of its kernel. Rows in order.
std::span<const CollectiveNameRow> CollectiveNames();
std::optional<CollectiveOp> CollectiveOf(std::string_view name);

// "Float", "c10::BFloat16", "signed char" -> type and size in bytes; 0: not known.
std::int64_t ElementBytes(std::string_view profiler_dtype);
DType DTypeOf(std::string_view profiler_dtype);  // nearest of ours

}  // namespace stepsim
