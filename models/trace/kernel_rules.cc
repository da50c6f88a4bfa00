#include "models/trace/kernel_rules.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace stepsim {
namespace {

using C = KernelClass;

// The first row that fits decides: special names stand before general words.
constexpr std::array kRules = {
    // Copy engines, and what the profiler calls them.
    KernelRule{C::kCopy, "^memcpy|^memset|^[cuda memcpy|^[cuda memset|^copybuffer|^fillbuffer",
               "CUDA"},
    // Communication.
    KernelRule{C::kCommunication, "^ncclkernel|^nccldevkernel|^ncclsymk|^ncclsym|^nccl", "NCCL"},
    KernelRule{C::kCommunication, "^rccl|mscclkernel|^msccl", "RCCL"},
    KernelRule{C::kCommunication, "^gloo:|^mpi:|^ucc:", "host backend"},
    KernelRule{C::kCommunication, "ep::internode|ep::intranode|deep_ep::|deepep", "DeepEP"},
    KernelRule{C::kCommunication, "nvshmem|nvshmemi_", "NVSHMEM"},
    KernelRule{C::kCommunication,
               "cross_device_reduce|symm_mem|multimem_all|one_shot_all_reduce|two_shot_all_reduce|"
               "symmetric_memory_barrier",
               "PyTorch"},
    KernelRule{C::kCommunication, "userbuffers|kuserbuffers", "Transformer Engine"},
    // Attention before GEMM: its kernels are built of matrix products and say so.
    KernelRule{C::kAttention,
               "flash_fwd|flash_bwd|flash_attn|flashattn|flash::|fmha|fused_attention|"
               "_attn_fwd|_attn_bwd|attention|mha_fwd|mha_bwd|sdpa|pytorch_flash|flex_attention",
               "attention"},
    // Normalisation before GEMM and pointwise: "gemm" may be the name of an argument.
    KernelRule{C::kNormalization,
               "layer_norm|layernorm|rms_norm|rmsnorm|batch_norm|batchnorm|bn_fw|bn_bw|group_norm|"
               "groupnorm|softmax|gammabeta|instancenorm|ln_fwd|ln_bwd|cross_entropy|nll_loss",
               "normalization"},
    // Matrix products and convolutions; cuDNN's changes of layout are none.
    KernelRule{C::kElementwise, "nchwtonhwc|nhwctonchw|cudnn::ops", "cuDNN"},
    KernelRule{C::kGemm, "nvjet|cublas|splitkreduce|gemvx|gemv2", "cuBLAS"},
    KernelRule{C::kGemm, "^ampere_|^volta_|^turing_|^maxwell_|^sm80_xmma|^sm90_xmma|^sm100_xmma",
               "cuBLAS"},
    KernelRule{C::kGemm, "deep_gemm|fp8_gemm", "DeepGEMM"},
    KernelRule{C::kGemm, "cijk_", "hipBLASLt"},
    KernelRule{C::kGemm, "cutlass|xmma", "CUTLASS"},
    KernelRule{C::kGemm, "scudnn|conv|wgrad|dgrad|fprop|winograd|implicit_gemm|cudnn::cnn",
               "cuDNN"},
    KernelRule{C::kGemm, "gemm|matmul|_mm_|grouped_mm", ""},
    // Operators of a run without a device.
    KernelRule{C::kGemm,
               "^aten::linear|^aten::addmm|^aten::mm|^aten::bmm|^aten::baddbmm|^aten::einsum|"
               "^aten::mv|^aten::addmv|^mkldnn::|^aten::mkldnn",
               "PyTorch"},
    // Optimizers, casts, copies by kernels, everything pointwise.
    KernelRule{C::kElementwise, "multi_tensor_apply|fused_adam|adamfunctor|sgdfunctor|lamb|adagrad",
               "optimizer"},
    KernelRule{C::kElementwise, "^triton_|triton_poi|triton_per|triton_red|triton_tem", "Triton"},
    KernelRule{C::kElementwise,
               "elementwise|catarraybatched|copy_kernel|fillfunctor|index|gather|scatter|reduce|"
               "dropout|gelu|silu|relu|sigmoid|tanh|rope|rotary|transpose|permute|cast|quantize|"
               "embedding|sort|cub::|arange|unrolled|cumsum|max_pool|pool|topk|tensor_kernel|"
               "op_tensor|add_tensor",
               "PyTorch"},
    KernelRule{C::kElementwise, "^aten::", "PyTorch"},
};

// Words of collectives, of calls and of kernels. "AlltoAll" before "All", "ReduceScatter" before
// "Reduce".
constexpr std::array kCollectives = {
    CollectiveNameRow{CollectiveOp::kAllToAll,
                      "alltoall|all_to_all|all2all|ep::internode|ep::intranode|deep_ep"},
    CollectiveNameRow{CollectiveOp::kReduceScatter, "reducescatter|reduce_scatter"},
    CollectiveNameRow{CollectiveOp::kAllReduce,
                      "allreduce|all_reduce|cross_device_reduce|multimem_all_reduce"},
    CollectiveNameRow{CollectiveOp::kAllGather, "allgather|all_gather|multimem_all_gather"},
    CollectiveNameRow{CollectiveOp::kBroadcast, "broadcast|scatter"},
    CollectiveNameRow{CollectiveOp::kSendRecv, "sendrecv|send_recv|send|recv|coalesced"},
    CollectiveNameRow{CollectiveOp::kBarrier, "barrier"},
    CollectiveNameRow{CollectiveOp::kPeerCopy, "copy_|symm_mem|userbuffers"},
    CollectiveNameRow{CollectiveOp::kReduce, "reduce|gather"},
};

struct TypeRow {
  std::string_view words;
  std::int64_t bytes;
  DType dtype;
};
// As profilers and C++ spell types; the first that fits.
constexpr std::array kTypes = {
    TypeRow{"bfloat16|bf16", 2, DType::kBf16},
    TypeRow{"float8|fp8|f8e", 1, DType::kFp8},
    TypeRow{"half|float16|fp16", 2, DType::kFp16},
    TypeRow{"double|float64", 8, DType::kInt64},
    TypeRow{"float|fp32", 4, DType::kFp32},
    TypeRow{"char|byte|uint8|int8|bool", 1, DType::kFp8},
    TypeRow{"short|int16", 2, DType::kFp16},
    TypeRow{"long|int64", 8, DType::kInt64},
    TypeRow{"int", 4, DType::kInt32},
};

char ToLower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

bool MatchesAt(std::string_view name, std::size_t at, std::string_view lower_case) {
  if (name.size() - at < lower_case.size()) return false;
  for (std::size_t i = 0; i < lower_case.size(); ++i) {
    if (ToLower(name[at + i]) != lower_case[i]) return false;
  }
  return true;
}

bool FitsWord(std::string_view name, std::string_view word) {
  if (word.empty()) return false;
  if (word.front() == '^') return MatchesAt(name, 0, word.substr(1));
  for (std::size_t at = 0; at + word.size() <= name.size(); ++at) {
    if (MatchesAt(name, at, word)) return true;
  }
  return false;
}

// The type that a template kernel returns stands in front of its name.
std::string_view WithoutReturnType(std::string_view name) {
  constexpr std::string_view kVoid = "void ";
  return name.substr(0, kVoid.size()) == kVoid ? name.substr(kVoid.size()) : name;
}

}  // namespace

std::string_view ToString(KernelClass kernel_class) {
  constexpr std::array<std::string_view, kKernelClassCount> kNames = {
      "gemm", "attention", "normalization", "elementwise", "other", "copy", "communication"};
  return kNames[static_cast<std::size_t>(kernel_class)];
}

ComputeClass ComputeClassOf(KernelClass kernel_class) {
  if (kernel_class == KernelClass::kGemm) return ComputeClass::kGemm;
  return kernel_class == KernelClass::kAttention ? ComputeClass::kAttention : ComputeClass::kMemory;
}

std::span<const KernelRule> KernelRules() { return kRules; }
std::span<const CollectiveNameRow> CollectiveNames() { return kCollectives; }

bool FitsWords(std::string_view name, std::string_view words) {
  while (!words.empty()) {
    const std::size_t end = std::min(words.find('|'), words.size());
    if (FitsWord(name, words.substr(0, end))) return true;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return false;
}

KernelKind ClassifyKernel(std::string_view name) {
  name = WithoutReturnType(name);
  for (std::size_t i = 0; i < kRules.size(); ++i) {
    if (FitsWords(name, kRules[i].words)) return {kRules[i].kernel_class, kRules[i].framework, i};
  }
  return {C::kOther, "", kRules.size()};
}

std::optional<CollectiveOp> CollectiveOf(std::string_view name) {
  for (const CollectiveNameRow& row : kCollectives) {
    if (FitsWords(name, row.words)) return row.op;
  }
  return std::nullopt;
}

std::int64_t ElementBytes(std::string_view profiler_dtype) {
  for (const TypeRow& row : kTypes) {
    if (FitsWords(profiler_dtype, row.words)) return row.bytes;
  }
  return 0;
}

DType DTypeOf(std::string_view profiler_dtype) {
  for (const TypeRow& row : kTypes) {
    if (FitsWords(profiler_dtype, row.words)) return row.dtype;
  }
  return DType::kFp32;
}

}  // namespace stepsim
